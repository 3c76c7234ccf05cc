"""Take mail on this machine, and keep it as files: for the demo, and for tests.

Nothing that comes here goes anywhere else. To try what mail servers do on a bad day,
say how mails are answered: the sink refuses, defers, dawdles or hangs up at the stage
that you name. aiosmtpd comes with the extra `demo`.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from aiosmtpd.smtp import SMTP, Envelope, Session

Stage = Literal["mail", "rcpt", "data"]

_READY_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """How the sink answers at a stage: `mail`, `rcpt`, or `data`, the final dot."""

    stage: Stage = "data"
    reply: str | None = "250 OK"
    """None: it hangs up instead. What came with a dot before was taken all the same."""
    seconds: float = 0
    """How long it makes the client wait first."""
    then_hangs_up: bool = False


TAKE = Answer()
DEFER = Answer(reply="451 4.3.0 try again later")
FAIL = Answer(reply="554 5.7.1 not wanted")
DEFER_RECIPIENT = Answer("rcpt", "450 4.2.1 the mailbox is busy")
FAIL_RECIPIENT = Answer("rcpt", "550 5.1.1 no such mailbox")
REFUSE_SENDER = Answer("mail", "553 5.7.1 not your address")
HANG_UP_BEFORE_MAIL = Answer("rcpt", None)
HANG_UP_BEFORE_REPLY = Answer("data", None)
HANG_UP_AFTER_REPLY = Answer("data", then_hangs_up=True)


@dataclass(frozen=True, slots=True)
class Received:
    """A mail that was taken: its text stands in the file."""

    sender: str
    recipient: str
    file: Path


@dataclass
class Sink:
    """An SMTP server on 127.0.0.1, on a port of its own, from `with` to its end."""

    folder: Path
    answer: Callable[[str], Answer] = lambda recipient: TAKE  # noqa: ARG005
    """How to answer a mail to a recipient; may be replaced at any time."""
    received: list[Received] = field(default_factory=list[Received])
    port: int = 0

    def __post_init__(self) -> None:
        """Prepare the thread that it runs in."""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._changed = threading.Condition()
        self._transports: set[asyncio.Transport] = set()
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)

    @property
    def host(self) -> str:
        """Where it listens; nobody else can reach it."""
        return "127.0.0.1"

    def __enter__(self) -> Self:
        """Start to listen."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        if not self._ready.wait(_READY_SECONDS):
            raise RuntimeError("the sink does not start")
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop."""
        self.stop()

    def stop(self) -> None:
        """Hang up on everybody and stop, unless it has."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_READY_SECONDS)

    def wait_for(self, count: int, *, seconds: float = 30) -> list[Received]:
        """Return what was taken, as soon as it is at least so many."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.received) >= count, seconds):
                raise TimeoutError(f"{len(self.received)} of {count} mails came")
            return list(self.received)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(self._new_protocol, self.host, self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(self._hang_up())
        self._loop.close()

    async def _hang_up(self) -> None:
        """End all conversations, and let go of what they held."""
        for transport in self._transports:
            transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Transports close themselves in the next round of the loop.
        await asyncio.sleep(0)

    def _new_protocol(self) -> SMTP:
        return SMTP(
            _Handler(self), enable_SMTPUTF8=True, loop=self._loop, ident="pgbill sink"
        )

    def remember(self, transport: asyncio.Transport) -> None:
        """Keep a connection in mind, to close it at the end."""
        self._transports = {each for each in self._transports if not each.is_closing()}
        self._transports.add(transport)

    def keep(self, sender: str, recipient: str, content: bytes) -> None:
        """Write a mail to the folder."""
        file = self.folder / f"{len(self.received) + 1:06}.eml"
        file.write_bytes(content)
        with self._changed:
            self.received.append(Received(sender, recipient, file))
            self._changed.notify_all()


class _Handler:
    """What aiosmtpd asks at each stage."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def handle_EHLO(  # noqa: N802 (the name is aiosmtpd's)
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        del envelope
        transport: Any = server.transport
        self._sink.remember(transport)
        session.host_name = hostname
        return responses

    async def handle_MAIL(  # noqa: N802 (the name is aiosmtpd's)
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        del session
        answer = await self._answer(server, "mail", address)
        if answer.startswith("2"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return answer

    async def handle_RCPT(  # noqa: N802 (the name is aiosmtpd's)
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        del session
        answer = await self._answer(server, "rcpt", address)
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
            envelope.rcpt_options.extend(options)
        return answer

    async def handle_DATA(  # noqa: N802 (the name is aiosmtpd's)
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        del session
        recipient = envelope.rcpt_tos[0]
        given = self._sink.answer(recipient)
        content: Any = envelope.original_content
        if given.stage != "data" or given.reply is None or given.reply[0] == "2":
            self._sink.keep(str(envelope.mail_from), recipient, content)
        return await self._answer(server, "data", recipient)

    async def _answer(self, server: SMTP, stage: Stage, address: str) -> str:
        answer = self._sink.answer(address)
        if answer.stage != stage:
            return "250 OK"
        await asyncio.sleep(answer.seconds)
        transport: Any = server.transport
        if answer.reply is None:
            transport.abort()
            return "421 gone"
        if answer.then_hangs_up:
            asyncio.get_running_loop().call_later(0.05, transport.close)
        return answer.reply
