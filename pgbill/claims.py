"""Hold messages for a relay: claim them, keep them, let go of them.

What a relay holds it renews while it lives, however long a mail server takes, from a
connection of its own. So a claim runs out only when its relay is dead or cut off.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg import Connection

from pgbill import db, outbox, roles
from pgbill.errors import TemporaryError
from pgbill.outbox import Channel, Message, Scope

_QUERIES = db.Queries("claims")

_BUCKETS = 256
AWAY = (psycopg.OperationalError, TemporaryError)
"""What is raised when the database is away."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Count:
    message_count: int


async def in_thread(
    executor: Executor,
    work: Callable[_P, _T],
    /,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Wait for something that blocks."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, partial(work, *args, **kwargs))


class Claims:
    """The messages that `holder` holds."""

    def __init__(
        self,
        *,
        dsn: str,
        holder: str,
        mode: str | None,
        ttl_seconds: float,
        executor: Executor,
    ) -> None:
        """Prepare it; connections are opened when they are needed."""
        self._dsn = dsn
        self._holder = holder
        self._mode = mode
        self._ttl_seconds = ttl_seconds
        self._executor = executor
        self._held: dict[int, Message] = {}
        self._conn: Connection[Any] | None = None

    def __len__(self) -> int:
        """Return how many messages are held."""
        return len(self._held)

    async def find_work(self, channels: tuple[Channel, ...]) -> list[int]:
        """Return buckets with due messages, beginning anywhere, as other relays do."""
        scope = Scope(channels, self._mode)
        found = await self._do(outbox.due_buckets, scope)
        first = random.randrange(_BUCKETS)  # noqa: S311 (not a secret)
        return [b for b in found if b >= first] + [b for b in found if b < first]

    async def take(
        self, bucket: int, channels: tuple[Channel, ...], *, limit: int
    ) -> list[Message]:
        """Claim messages of a bucket."""
        claimed = await self._do(
            outbox.claim,
            bucket=bucket,
            scope=Scope(channels, self._mode),
            holder=self._holder,
            ttl_seconds=self._ttl_seconds,
            limit=limit,
        )
        self._held |= {each.message_id: each for each in claimed}
        return claimed

    def drop(self, messages: Iterable[Message]) -> None:
        """Stop renewing messages that are closed, or whose claims may run out."""
        for each in messages:
            self._held.pop(each.message_id, None)

    async def release(self, messages: list[Message]) -> None:
        """Let go of messages; if the database is away, their claims run out."""
        self.drop(messages)
        if messages:
            with contextlib.suppress(*AWAY):
                await self._do(outbox.release, messages, holder=self._holder)

    async def keep(self) -> None:
        """Renew the claims again and again, until cancelled."""
        conn: Connection[Any] | None = None
        try:
            while True:
                await asyncio.sleep(self._ttl_seconds / 3)
                with contextlib.suppress(*AWAY):
                    held = list(self._held.values())
                    conn = await in_thread(self._executor, self._renew, conn, held)
        finally:
            if conn is not None:
                conn.close()

    def _renew(
        self, conn: Connection[Any] | None, messages: list[Message]
    ) -> Connection[Any]:
        if conn is None or conn.closed:
            conn = self._connect()
        outbox.renew(conn, messages, holder=self._holder, ttl_seconds=self._ttl_seconds)
        return conn

    async def count_of_other_mode(self) -> int:
        """Count open messages of invoices of the mode that is passed by."""
        if self._mode is None:
            return 0
        return await self._do(_count, "count_of_other_mode", mode=self._mode)

    async def count_waiting(self, channel: Channel) -> int:
        """Count due messages of a channel."""
        return await self._do(_count, "count_waiting", channel=channel)

    def close(self) -> None:
        """Close the connection."""
        if self._conn is not None:
            self._conn.close()

    async def _do(
        self, work: Callable[..., _T], /, *args: object, **kwargs: object
    ) -> _T:
        """Do something with the connection, in a thread."""

        def do() -> _T:
            if self._conn is None or self._conn.closed:
                self._conn = self._connect()
            return work(self._conn, *args, **kwargs)

        return await in_thread(self._executor, do)

    def _connect(self) -> Connection[Any]:
        return db.connect(self._dsn, role=roles.WORKER, application="relay")


def _count(conn: Connection[Any], query: str, **values: str) -> int:
    found = db.fetch_one(conn, _QUERIES[query], _Count, **values)
    return found.message_count if found else 0
