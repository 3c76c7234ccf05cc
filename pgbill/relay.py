"""Empty the outbox: claim messages and have them delivered, until stopped or done.

Any number of relays may run at once: each claims what no other has, and lets go of the
rest when it is stopped. What a dead one leaves behind is taken over when its claims run
out, except messages that it may have sent.

When the mail server is away, its messages are not touched; files are still written. A
relay takes only messages of its own mode, test or live, so that a copy of production
writes to nobody by accident; with a redirect it takes all of them, since then nothing
leaves the house.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pgbill import db, digest, outbox, roles, schema
from pgbill.alertmail import AlertMail
from pgbill.claims import AWAY, Claims
from pgbill.config import Settings
from pgbill.courier import Courier, Result, Route
from pgbill.errors import PgbillError
from pgbill.mail import UnreachableError
from pgbill.outbox import Channel, Message

_CLAIM_LIMIT = 25
_HELD_PER_COURIER = 8
_POLL_SECONDS = 1.0
_IDLE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass
class Summary:
    """What a relay has done, in messages."""

    accepted: int = 0
    deferred: int = 0
    failed: int = 0
    uncertain: int = 0
    waiting: int = 0
    """Due, but the mail server was away."""
    left_of_other_mode: int = 0
    """Open, of invoices of the mode that this relay passes by."""
    alerts_mailed: int = 0
    alerts_wait: bool = False
    """Alerts are to be mailed, but the mail server was away."""
    seconds: float = 0

    def count(self, result: Result) -> None:
        """Count a message."""
        if result != "passed":
            setattr(self, result, getattr(self, result) + 1)


@dataclass
class _Outage:
    """Whether the mail server is away, and until when nobody asks again."""

    is_known: bool = False
    failure_count: int = 0
    next_try_at: float = 0

    def begin(self) -> None:
        self.is_known = True
        self.failure_count += 1
        pause = min(2.0 ** (self.failure_count - 1), _LONGEST_PAUSE_SECONDS)
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 (not a secret)
        self.next_try_at = time.monotonic() + pause * jitter

    def end(self) -> None:
        self.is_known, self.failure_count = False, 0


def run(
    settings: Settings,
    *,
    dsn: str,
    once: bool,
    connection_count: int,
    say: Callable[[str], None],
) -> Summary:
    """Relay until stopped by SIGTERM or SIGINT or, with `once`, until nothing is due.

    Raises:
        SchemaError: The database is not as this pgbill needs it.
        ConfigError: A setting is wrong, or the mail server refuses us.
        TemporaryError, OperationalError: The database is away.
    """
    route, alerts_to = Route.of(settings), digest.Policy.of(settings)
    with contextlib.closing(
        db.connect(dsn, role=roles.WORKER, application="relay")
    ) as conn:
        schema.require_current(conn)

    async def relay() -> Summary:
        # One thread for each courier, one to claim, one to renew, one for alerts.
        with ThreadPoolExecutor(connection_count + 3, "relay") as executor:
            holder = outbox.new_holder()
            claims = Claims(
                dsn=dsn,
                holder=holder,
                mode=None if settings.mail_redirect else settings.mode,
                ttl_seconds=settings.relay_ttl_seconds,
                executor=executor,
            )
            couriers = [
                Courier(dsn=dsn, route=route, holder=holder, executor=executor, say=say)
                for _ in range(connection_count)
            ]
            alert_mail = alerts_to and AlertMail(
                dsn, alerts_to, route.server, holder, executor, say
            )
            return await Relay(claims, couriers, alert_mail, once=once, say=say).run()

    return asyncio.run(relay())


@dataclass
class Relay:
    """A relay; it runs once."""

    claims: Claims
    couriers: list[Courier]
    alert_mail: AlertMail | None
    once: bool
    say: Callable[[str], None]
    summary: Summary = field(default_factory=Summary)
    _queue: asyncio.Queue[Message | None] = field(
        default_factory=asyncio.Queue["Message | None"]
    )
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _outage: _Outage = field(default_factory=_Outage)
    _error: Exception | None = None

    async def run(self) -> Summary:
        """Relay until stopped or done, and let go of what is left."""
        began_at = time.monotonic()
        self._listen_for_signals()
        tasks = [asyncio.create_task(self._deliver(each)) for each in self.couriers]
        keeping = asyncio.create_task(self.claims.keep())
        if not self.once:
            tasks.append(asyncio.create_task(self._mail_alerts()))
        try:
            await self._feed()
            if self.once and not self._stopping.is_set():
                # At the end, with the alerts of messages that are uncertain now.
                await self._mail_alerts()
        finally:
            await self._drain(tasks)
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        try:
            if self._error is not None:
                raise self._error
            await self._count_what_is_left()
        finally:
            self.claims.close()
        self.summary.seconds = round(time.monotonic() - began_at, 3)
        return self.summary

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.say(f"stopping, {len(self.claims)} messages in hand.")
            self._stopping.set()
            self._room.set()
            # Whoever asks a second time does not want to wait.
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)

    async def _feed(self) -> None:
        """Claim messages as long as there is room, until stopped or done."""
        buckets: list[int] = []
        pause = _POLL_SECONDS
        while not self._stopping.is_set():
            try:
                if len(self.claims) >= len(self.couriers) * _HELD_PER_COURIER:
                    await self._wait_for_room()
                elif buckets := buckets or await self.claims.find_work(
                    self._channels()
                ):
                    buckets = await self._claim(buckets)
                elif len(self.claims):
                    await self._wait_for_room()
                elif self.once:
                    break
                else:
                    await self._sleep(_POLL_SECONDS)
                pause = _POLL_SECONDS
            except AWAY as error:
                if self.once:
                    raise
                if pause == _POLL_SECONDS:
                    self.say(f"the database is away, waiting: {error}")
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                await self._sleep(pause)

    async def _claim(self, buckets: list[int]) -> list[int]:
        """Claim from the first bucket; return those that may hold more."""
        room = len(self.couriers) * _HELD_PER_COURIER - len(self.claims)
        limit = min(room, _CLAIM_LIMIT)
        claimed = await self.claims.take(buckets[0], self._channels(), limit=limit)
        for each in claimed:
            self._queue.put_nowait(each)
        return buckets if len(claimed) == limit else buckets[1:]

    def _channels(self) -> tuple[Channel, ...]:
        """Return what can be delivered to now; with `once`, nobody waits."""
        is_away = self._outage.is_known and (
            self.once or time.monotonic() < self._outage.next_try_at
        )
        return ("folder",) if is_away else ("email", "folder")

    async def _wait_for_room(self) -> None:
        self._room.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._room.wait(), _POLL_SECONDS)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but not through being stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _deliver(self, courier: Courier) -> None:
        """Deliver what is in the queue, until its end."""
        try:
            while (claimed := await self._next(courier)) is not None:
                await self._deliver_one(courier, claimed)
        except Exception as error:
            self._fail(error)
            raise
        finally:
            await courier.close()

    async def _next(self, courier: Courier) -> Message | None:
        while True:
            try:
                return await asyncio.wait_for(self._queue.get(), _IDLE_SECONDS)
            except TimeoutError:
                await courier.rest()

    async def _deliver_one(self, courier: Courier, claimed: Message) -> None:
        try:
            if claimed.channel not in self._channels():
                await self.claims.release([claimed])
            else:
                self.summary.count(await courier.deliver(claimed))
                if courier.is_connected:
                    self._outage.end()
        except UnreachableError as error:
            if any(each.is_connected for each in self.couriers):
                # The server lets us have fewer connections than we would like.
                self._queue.put_nowait(claimed)
                await self._sleep(_LONGEST_PAUSE_SECONDS)
                return
            if not self._outage.is_known:
                self.say(str(error))
            self._outage.begin()
            await self.claims.release([claimed])
        except AWAY as error:
            # The claim runs out by itself. A service waits for the database.
            if self.once:
                self._fail(error)
        except PgbillError as error:
            self._fail(error)
            await self.claims.release([claimed])
        self.claims.drop([claimed])
        self._room.set()

    async def _mail_alerts(self) -> None:
        """Mail what is to be mailed now or, unless it is `once`, until stopped."""
        if self.alert_mail is None:
            return
        try:
            if self.once:
                await self.alert_mail.send()
            else:
                await self.alert_mail.run(self._stopping)
        except Exception as error:
            self._fail(error)
            raise
        finally:
            await self.alert_mail.close()
            self.summary.alerts_mailed = self.alert_mail.mailed_count
            self.summary.alerts_wait = self.alert_mail.waits

    def _fail(self, error: Exception) -> None:
        """Stop because of an error; the first one is raised at the end."""
        self._error = self._error or error
        self._stopping.set()
        self._room.set()

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        """Let couriers finish what they have in hand, and let go of the rest."""
        self._stopping.set()
        await self._release_queued()
        for _ in tasks:
            self._queue.put_nowait(None)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._release_queued()

    async def _release_queued(self) -> None:
        queued: list[Message] = []
        while not self._queue.empty():
            if claimed := self._queue.get_nowait():
                queued.append(claimed)
        await self.claims.release(queued)

    async def _count_what_is_left(self) -> None:
        self.summary.left_of_other_mode = await self.claims.count_of_other_mode()
        if self._outage.is_known:
            self.summary.waiting = await self.claims.count_waiting("email")
