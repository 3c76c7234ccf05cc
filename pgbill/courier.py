"""Deliver one message after another: begin the attempt, send, record the outcome.

Nothing is sent before the attempt has committed, and no attempt is begun before the
mail server has answered: a server that is down burns no attempts. Once a mail is out,
what became of it is worth more than anything else, so recording it is tried again for a
while when the database is away.

A courier has a connection to the database and one to the mail server. It waits for
the former in threads, since everything else goes on meanwhile.
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, Self, TypeVar

import psycopg
from psycopg import Connection

from pgbill import address, db, folder, mail, message, outbox, rendering, roles
from pgbill.claims import AWAY, in_thread
from pgbill.config import Settings
from pgbill.errors import ConfigError
from pgbill.mail import MailServer, UncertainError
from pgbill.message import AddressError, ComposeError, Mail
from pgbill.outbox import Kind, Message, Outcome

Result = Kind | Literal["uncertain", "passed"]
"""passed: nothing was sent, because the claim had gone to another relay."""

_PATIENCE_SECONDS = 60

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Route:
    """How mails leave."""

    server: MailServer
    mail_from: str | None
    redirect: str | None
    mail_dir: Path | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Read the settings, and refuse addresses that could never work.

        Raises:
            ConfigError: An address is wrong.
        """
        _check("mail_from", settings.mail_from, message.check_sender)
        _check("mail_redirect", settings.mail_redirect, address.check)
        password = settings.smtp_password
        server = MailServer(
            host=settings.smtp_host,
            port=settings.smtp_port,
            timeout_seconds=settings.mail_timeout_seconds,
            tls=settings.smtp_tls,
            username=settings.smtp_username,
            password=password.get_secret_value() if password else None,
        )
        return cls(
            server, settings.mail_from, settings.mail_redirect, settings.mail_dir
        )


def patiently(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Do something with the database again and again, for a while, until it is there.

    Raises:
        TemporaryError, OperationalError: It stayed away.
    """
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return work(*args, **kwargs)
        except AWAY:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(1)


def _check(name: str, value: str | None, check: Callable[[str], None]) -> None:
    try:
        if value is not None:
            check(value)
    except ValueError as error:
        raise ConfigError(f"PGBILL_{name.upper()} is wrong: {error}.") from error


class Courier:
    """Deliver messages that `holder` has claimed."""

    def __init__(
        self,
        *,
        dsn: str,
        route: Route,
        holder: str,
        executor: Executor,
        say: Callable[[str], None],
    ) -> None:
        """Prepare it; connections are opened when they are needed."""
        self._dsn = dsn
        self._route = route
        self._holder = holder
        self._executor = executor
        self._say = say
        self._conn: Connection[Any] | None = None
        self._smtp = mail.Connection(route.server)

    @property
    def is_connected(self) -> bool:
        """Whether it has the ear of the mail server."""
        return self._smtp.is_open

    async def rest(self) -> None:
        """Hang up on the mail server, which may not like to be kept waiting."""
        await self._smtp.close()

    async def close(self) -> None:
        """Close both connections."""
        await self._smtp.close()
        if self._conn is not None:
            await self._in_thread(self._conn.close)

    async def deliver(self, claimed: Message) -> Result:
        """Deliver a message, and return what became of it.

        Raises:
            UnreachableError: The mail server is away; no attempt was begun.
            ConfigError: The mail server refuses us; no attempt was begun.
            TemporaryError, OperationalError: The database is away.
        """
        if claimed.channel == "email":
            await self._smtp.open()
        attempt_no, made = await self._in_thread(self._begin, claimed)
        if attempt_no is None:
            return "passed"
        try:
            outcome = made if isinstance(made, Outcome) else await self._send(made)
        except UncertainError as error:
            self._tell(claimed, "uncertain", str(error))
            await self._in_thread(self._let_go, claimed)
            return "uncertain"
        return await self._in_thread(self._record, claimed, attempt_no, outcome)

    def _begin(self, claimed: Message) -> tuple[int | None, Mail | Outcome]:
        """Make what is to be sent, and begin the attempt.

        Returns:
            The number of the attempt, none if it is not ours to begin; and the mail, or
            the outcome when there is nothing to be sent.
        """
        conn = self._connection()
        sent_to, made = claimed.address, self._make(conn, claimed)
        if isinstance(made, Mail):
            sent_to = made.sent_to
        begin = partial(
            outbox.begin_attempt, conn, claimed, holder=self._holder, sent_to=sent_to
        )
        try:
            attempt_no = begin()
        except psycopg.OperationalError:
            patiently(self._undo, claimed)
            return None, made
        if attempt_no is not None and claimed.channel == "folder":
            made = self._file(claimed, made)
        return attempt_no, made

    def _make(self, conn: Connection[Any], claimed: Message) -> Mail | Outcome:
        route = self._route
        try:
            return message.compose(
                message.load(conn, claimed),
                claimed,
                mail_from=route.mail_from,
                redirect=route.redirect,
            )
        except AddressError as error:
            return Outcome("failed", str(error))
        except ComposeError as error:
            return Outcome("deferred", str(error))

    def _file(self, claimed: Message, made: Mail | Outcome) -> Outcome:
        if isinstance(made, Outcome):
            return made
        return folder.deliver(self._route.mail_dir, claimed, made)

    async def _send(self, made: Mail) -> Outcome:
        return await self._smtp.send(made)

    def _record(self, claimed: Message, attempt_no: int, outcome: Outcome) -> Result:
        """Record an outcome; if an earlier one counts, say so."""
        try:
            recorded = patiently(self._record_once, claimed, attempt_no, outcome)
        except AWAY:
            # A person who resolves the message will want to know.
            self._tell(claimed, f"{outcome.kind}, not recorded", outcome.reply_text)
            raise
        if recorded is None:
            self._tell(claimed, "recorded before as something else", outcome.reply_text)
        elif recorded != "accepted":
            self._tell(claimed, recorded, outcome.reply_text)
        return recorded or "passed"

    def _record_once(
        self, claimed: Message, attempt_no: int, outcome: Outcome
    ) -> Kind | None:
        return outbox.record_outcome(
            self._connection(),
            claimed,
            outcome,
            attempt_no=attempt_no,
            recorded_by=self._holder,
        )

    def _undo(self, claimed: Message) -> None:
        """Close an attempt that may have committed when the database went away."""
        begun = outbox.attempts(self._connection(), claimed)
        if begun and begun[-1].holder == self._holder and begun[-1].outcome is None:
            not_sent = Outcome("deferred", "not sent: the database went away before")
            self._record_once(claimed, begun[-1].attempt_no, not_sent)

    def _let_go(self, claimed: Message) -> None:
        """End the claim, so that the next look at the message finds it uncertain."""
        outbox.release(self._connection(), [claimed], holder=self._holder)

    def _connection(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = db.connect(self._dsn, role=roles.WORKER, application="relay")
        return self._conn

    def _tell(self, claimed: Message, what: str, reply: str) -> None:
        self._say(f"message {claimed.message_id}: {what}: {rendering.printable(reply)}")

    async def _in_thread(
        self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        return await in_thread(self._executor, work, *args, **kwargs)
