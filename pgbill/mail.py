"""Hand mails to an SMTP server, and say exactly what is known of each.

The commands are driven one by one, so that the stage at which something goes wrong is
known. A reply says what it says. A connection that breaks before the text of the mail
was handed over has taken nothing: deferred. One that breaks later, before the reply to
the final dot, leaves it open, and nobody guesses: that case alone is uncertain. The
server gets ten times the usual time for that reply, as RFC 5321 asks.

A refusal of the sender says nothing about this recipient or this mail: it is a setting
that a person must mend, so the mail is deferred, whatever the code.
"""

import re
import socket
import ssl
from dataclasses import dataclass
from typing import Literal

import aiosmtplib
from aiosmtplib import SMTPResponse

from pgbill.errors import ConfigError, PgbillError, TemporaryError
from pgbill.message import Mail
from pgbill.outbox import Kind, Outcome

_FINAL_REPLY_PATIENCE = 10
# Servers limit how many mails they take on one connection.
_MAILS_PER_CONNECTION = 100

_START_INPUT = 354
_CLOSING = 421
_BREAKS = (aiosmtplib.SMTPServerDisconnected, aiosmtplib.SMTPTimeoutError, OSError)


class UnreachableError(TemporaryError):
    """The mail server cannot be reached."""


class UncertainError(PgbillError):
    """It is not known whether the mail was taken."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mails go, and how."""

    host: str
    port: int
    timeout_seconds: float
    tls: Literal["none", "starttls", "tls"] = "none"
    username: str | None = None
    password: str | None = None

    def __str__(self) -> str:
        """Name it, for people."""
        return f"{self.host}:{self.port}"


class Connection:
    """A connection that is opened when it is needed, and used for many mails."""

    def __init__(self, server: MailServer) -> None:
        """Prepare it; nothing is sent yet."""
        self._server = server
        self._client: aiosmtplib.SMTP | None = None
        self._sent_count = 0

    async def open(self) -> None:
        """Connect, unless it is connected.

        Raises:
            UnreachableError: The server does not answer, or turns everybody away.
            ConfigError: It answers and refuses us: the settings must be mended.
        """
        client = self._client
        if client and client.is_connected and self._sent_count < _MAILS_PER_CONNECTION:
            return
        await self.close()
        client = self._new_client()
        try:
            await client.connect()
            await _greet(client)
        except (aiosmtplib.SMTPException, OSError) as error:
            client.close()
            raise _translated(self._server, error) from error
        self._client, self._sent_count = client, 0

    def _new_client(self) -> aiosmtplib.SMTP:
        server = self._server
        return aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            timeout=server.timeout_seconds,
            use_tls=server.tls == "tls",
            start_tls=server.tls == "starttls",
            username=server.username,
            password=server.password,
            # The default asks DNS, which can take longer than the mail.
            local_hostname=_local_hostname(),
        )

    @property
    def is_open(self) -> bool:
        """Whether the server was there when it was last asked."""
        return self._client is not None and self._client.is_connected

    async def close(self) -> None:
        """Take leave of the server, if it is still there."""
        client, self._client = self._client, None
        if client is None or not client.is_connected:
            return
        try:
            await client.quit(timeout=min(self._server.timeout_seconds, 5))
        except (aiosmtplib.SMTPException, OSError):
            client.close()

    async def send(self, mail: Mail) -> Outcome:
        """Send a mail; the connection must be open.

        Raises:
            UncertainError: The mail was handed over, and no reply came.
        """
        client = self._client
        assert client is not None
        self._sent_count += 1
        if mail.needs_utf8 and not client.supports_extension("smtputf8"):
            return Outcome("failed", "the server takes only addresses in ASCII")
        refusal = await self._announce(client, mail)
        if refusal is None:
            return await self._hand_over(client, mail)
        await self._reset(client)
        return refusal

    async def _announce(self, client: aiosmtplib.SMTP, mail: Mail) -> Outcome | None:
        """Say what comes; return why the server does not want it. It takes nothing."""
        options, encoding = (
            (["SMTPUTF8"], "utf-8") if mail.needs_utf8 else ([], "ascii")
        )
        try:
            await client.mail(mail.sender, options=options, encoding=encoding)
            await client.rcpt(mail.sent_to, encoding=encoding)
            reply = await client.execute_command(b"DATA")
        except aiosmtplib.SMTPSenderRefused as error:
            text = f"the sender was refused: {error.message}"
            return Outcome("deferred", text, _code(error.code))
        except aiosmtplib.SMTPResponseException as error:
            return _refusal(SMTPResponse(error.code, error.message))
        except _BREAKS as error:
            return Outcome("deferred", f"the connection broke before DATA: {error}")
        except ValueError as error:
            return Outcome("failed", f"the address cannot be sent: {error}")
        return None if reply.code == _START_INPUT else _refusal(reply)

    async def _hand_over(self, client: aiosmtplib.SMTP, mail: Mail) -> Outcome:
        """Send the text and wait for the reply that decides."""
        protocol = client.protocol
        patience = _FINAL_REPLY_PATIENCE * self._server.timeout_seconds
        not_sent = Outcome("deferred", "the connection broke before the mail was sent")
        if protocol is None:
            return not_sent
        try:
            protocol.write(_on_the_wire(mail.content))
        except aiosmtplib.SMTPServerDisconnected:
            return not_sent
        try:
            reply = await protocol.read_response(timeout=patience)
        except (aiosmtplib.SMTPException, OSError) as error:
            client.close()
            raise UncertainError(f"no reply to the mail came: {error}") from error
        kind = _KINDS.get(reply.code // 100)
        if kind is None:
            client.close()
            raise UncertainError(f"the reply makes no sense: {reply.code}")
        if reply.code == _CLOSING:
            client.close()
        return Outcome(kind, reply.message, reply.code)

    async def _reset(self, client: aiosmtplib.SMTP) -> None:
        """Make the connection fit for the next mail, or close it."""
        try:
            await client.rset()
        except (aiosmtplib.SMTPException, OSError):
            client.close()


_KINDS: dict[int, Kind] = {2: "accepted", 4: "deferred", 5: "failed"}


def _refusal(reply: SMTPResponse) -> Outcome:
    """Read a reply to a command before the mail: nothing has been taken."""
    kind: Kind = "failed" if _KINDS.get(reply.code // 100) == "failed" else "deferred"
    return Outcome(kind, reply.message, _code(reply.code))


def _code(code: int) -> int | None:
    """Return a reply's code; -1 stands for what was no reply."""
    return code if code > 0 else None


def _on_the_wire(content: bytes) -> bytes:
    """Hide dots at the beginning of lines, and add the one that ends the mail."""
    lines = re.sub(rb"\r\n|\r|\n", b"\r\n", content)
    stuffed = re.sub(rb"(?m)^\.", b"..", lines)
    return stuffed + (b"" if stuffed.endswith(b"\r\n") else b"\r\n") + b".\r\n"


async def _greet(client: aiosmtplib.SMTP) -> None:
    """Learn what the server can do; a very old one does not say."""
    if client.is_ehlo_or_helo_needed:
        try:
            await client.ehlo()
        except aiosmtplib.SMTPHeloError:
            await client.helo()


def _local_hostname() -> str:
    """Name this machine as RFC 5321 allows it."""
    name = socket.gethostname()
    is_valid = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name)
    return name if is_valid else "localhost"


def _translated(server: MailServer, error: Exception) -> PgbillError:
    what = f"the mail server {server} cannot be reached: {error}"
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ConfigError(
            f"the certificate of the mail server {server} is not trusted: "
            f"{cause.verify_message}.",
            hint="Check PGBILL_SMTP_HOST and PGBILL_SMTP_TLS.",
        )
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        if _KINDS.get(error.code // 100) == "failed":
            return ConfigError(
                f"the mail server {server} refuses the login: {error.message}.",
                hint="Check PGBILL_SMTP_USERNAME and PGBILL_SMTP_PASSWORD.",
            )
    # Beside its subclasses it is raised for what a server cannot do: STARTTLS, AUTH.
    elif type(error) is aiosmtplib.SMTPException:
        return ConfigError(
            f"the mail server {server} cannot do what is asked: {error.message}.",
            hint="Check PGBILL_SMTP_TLS and PGBILL_SMTP_USERNAME.",
        )
    return UnreachableError(f"{what.rstrip('.')}.")
