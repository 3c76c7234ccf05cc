"""Mail about alerts, beside the messages of invoices.

It has a connection to the database and one to the mail server of its own, so that
nobody waits for it. The order is that of a courier: first the mail server has answered,
then the digest is committed, then it goes out, then its outcome is recorded.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import db, digest, mail, rendering, roles
from pgbill.claims import AWAY, in_thread
from pgbill.courier import patiently
from pgbill.digest import Digest, Policy
from pgbill.mail import MailServer, UncertainError, UnreachableError
from pgbill.message import AddressError, ComposeError
from pgbill.outbox import Outcome

_LOOK_EVERY_SECONDS = 5.0
_AWAY_SECONDS = 60.0


@dataclass
class AlertMail:
    """What mails alerts for one relay."""

    dsn: str
    policy: Policy
    server: MailServer
    holder: str
    executor: Executor
    say: Callable[[str], None]
    mailed_count: int = 0
    """Alerts in mails that were accepted."""
    waits: bool = False
    """Alerts are to be mailed, and the mail server is away."""
    _conn: Connection[Any] | None = None
    _smtp: mail.Connection = field(init=False)

    def __post_init__(self) -> None:
        """Prepare it; connections are opened when they are needed."""
        self._smtp = mail.Connection(self.server)

    async def run(self, stopping: asyncio.Event) -> None:
        """Mail what comes, until stopped; wait for whatever is away.

        Raises:
            ConfigError: The mail server refuses us.
        """
        while not stopping.is_set():
            pause = _LOOK_EVERY_SECONDS
            with contextlib.suppress(*AWAY):
                await self.send()
                pause = _AWAY_SECONDS if self.waits else _LOOK_EVERY_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)

    async def send(self) -> None:
        """Send a mail, if one is due and the mail server is there.

        Raises:
            ConfigError: The mail server refuses us; nothing was begun.
            TemporaryError, OperationalError: The database is away.
        """
        try:
            if not await self._in_thread(self._is_due):
                return
            await self._smtp.open()
            self.waits = False
            begun = await self._in_thread(self._begin)
            if begun is not None:
                await self._deliver(begun)
        except UnreachableError as error:
            if not self.waits:
                self.say(f"alerts wait to be mailed: {error}")
            self.waits = True
        finally:
            await self._smtp.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._conn is not None:
            await self._in_thread(self._conn.close)

    async def _deliver(self, begun: Digest) -> None:
        try:
            outcome = await self._smtp.send(digest.compose(begun, self.policy))
        except (AddressError, ComposeError) as error:
            outcome = Outcome("failed", str(error))
        except UncertainError as error:
            self._tell(begun, "it is not known whether it was taken", str(error))
            return
        await self._in_thread(self._record, begun, outcome)
        if outcome.kind == "accepted":
            self.mailed_count += begun.head.alert_count
        else:
            self._tell(begun, outcome.kind, outcome.reply_text)

    def _is_due(self) -> bool:
        return digest.is_due(self._connection(), self.policy)

    def _begin(self) -> Digest | None:
        try:
            return digest.begin(self._connection(), self.policy, holder=self.holder)
        except psycopg.OperationalError:
            # It may have committed, and then would look as if it had been sent.
            patiently(self._undo)
            return None

    def _undo(self) -> None:
        digest.undo(self._connection(), holder=self.holder)

    def _record(self, begun: Digest, outcome: Outcome) -> None:
        patiently(self._record_once, begun.head.digest_id, outcome)

    def _record_once(self, digest_id: int, outcome: Outcome) -> bool:
        return digest.record(
            self._connection(), digest_id, outcome, recorded_by=self.holder
        )

    def _connection(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = db.connect(self.dsn, role=roles.WORKER, application="relay")
        return self._conn

    def _tell(self, begun: Digest, what: str, reply: str) -> None:
        alerts = digest.counted(begun.head.alert_count)
        self.say(f"the mail about {alerts}: {what}: {rendering.printable(reply)}")

    async def _in_thread(self, work: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
        return await in_thread(self.executor, work, *args)
