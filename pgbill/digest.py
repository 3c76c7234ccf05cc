"""Gather alerts into mails, so that a storm of them is one mail.

A digest is about all alerts that are in no mail yet, and none is begun before the last
one is old enough. As with invoices, nothing is sent while something is unknown: the
digest and what is in it have committed before it goes out, and its alerts are in no
other mail until it is known that this one was not taken. There is no second attempt
then, but another digest, with what has come meanwhile.
"""

import hashlib
import textwrap
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from typing import Any

from psycopg import Connection

from pgbill import address, db, message
from pgbill.config import Settings
from pgbill.errors import ConfigError
from pgbill.message import ComposeError, Mail
from pgbill.outbox import Outcome
from pgbill.rendering import printable

_QUERIES = db.Queries("digest")
_LISTED = 20
_WIDTH = 76


@dataclass(frozen=True, slots=True)
class Policy:
    """Where mails about alerts go, and how often at most."""

    to: str
    every_seconds: float
    mode: str | None
    """Only alerts of this mode; none: of all, since mail is redirected."""
    is_test: bool
    mail_from: str | None
    """None: the address that the first seller mails from."""
    redirect: str | None

    @property
    def sent_to(self) -> str:
        """Where they really go."""
        return self.redirect or self.to

    @classmethod
    def of(cls, settings: Settings) -> "Policy | None":
        """Read the settings; none if no mail about alerts is wanted.

        Raises:
            ConfigError: The address is wrong.
        """
        if settings.alert_mail is None:
            return None
        try:
            address.check(settings.alert_mail)
        except ValueError as error:
            raise ConfigError(f"PGBILL_ALERT_MAIL is wrong: {error}.") from error
        return cls(
            to=settings.alert_mail,
            every_seconds=settings.alert_mail_every_seconds,
            mode=None if settings.mail_redirect else settings.mode,
            is_test=settings.mode == "test",
            mail_from=settings.mail_from,
            redirect=settings.mail_redirect,
        )


@dataclass(frozen=True, slots=True)
class Head:
    """A digest, and what must be known to write it."""

    digest_id: int
    begun_at: datetime
    alert_count: int
    database_name: str
    mail_from: str | None
    unknown_count: int
    """Open alerts in earlier mails of which nobody knows whether they arrived."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How many alerts of a kind are in it."""

    kind: str
    alert_count: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the alerts that are told in full."""

    alert_id: int
    raised_at: datetime
    kind: str
    summary: str


@dataclass(frozen=True, slots=True)
class Digest:
    """A mail about alerts, before it is one."""

    head: Head
    kinds: list[Kind]
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class _Due:
    is_due: bool


@dataclass(frozen=True, slots=True)
class _Id:
    digest_id: int | None


@dataclass(frozen=True, slots=True)
class _Recorded:
    outcome: str | None


def is_due(conn: Connection[Any], policy: Policy) -> bool:
    """Tell whether alerts wait for a mail, and the last one is old enough."""
    found = db.fetch_one(
        conn,
        _QUERIES["is_due"],
        _Due,
        mode=policy.mode,
        every_seconds=policy.every_seconds,
    )
    return found is not None and found.is_due


def begin(conn: Connection[Any], policy: Policy, *, holder: str) -> Digest | None:
    """Commit that a mail is about to be sent; none: send nothing, none is due.

    `conn` must be in autocommit mode.
    """
    begun = db.fetch_one(
        conn,
        _QUERIES["begin"],
        _Id,
        holder=holder,
        sent_to=policy.sent_to,
        mode=policy.mode,
        every_seconds=policy.every_seconds,
    )
    if begun is None or begun.digest_id is None:
        return None
    key = begun.digest_id
    head = db.fetch_one(conn, _QUERIES["head"], Head, digest_id=key)
    assert head is not None
    return Digest(
        head,
        kinds=db.fetch_all(conn, _QUERIES["kinds"], Kind, digest_id=key),
        entries=db.fetch_all(
            conn, _QUERIES["alerts"], Entry, digest_id=key, limit=_LISTED
        ),
    )


def record(
    conn: Connection[Any], digest_id: int, outcome: Outcome, *, recorded_by: str
) -> bool:
    """Record what became of a mail, at any time; false: an earlier outcome counts."""
    recorded = db.fetch_one(
        conn,
        _QUERIES["record"],
        _Recorded,
        digest_id=digest_id,
        outcome=outcome.kind,
        reply_code=outcome.reply_code,
        reply_text=printable(outcome.reply_text)[:1_000],
        recorded_by=recorded_by,
    )
    return recorded is not None and recorded.outcome is not None


def undo(conn: Connection[Any], *, holder: str) -> None:
    """Record that what `holder` has begun, and told nobody, was not sent."""
    begun = db.fetch_all(conn, _QUERIES["without_outcome"], _Id, holder=holder)
    not_sent = Outcome("deferred", "not sent: the database went away before")
    for each in begun:
        if each.digest_id is not None:
            record(conn, each.digest_id, not_sent, recorded_by=holder)


def compose(digest: Digest, policy: Policy) -> Mail:
    """Make the mail.

    Raises:
        AddressError, ComposeError: An address cannot be used.
    """
    head = digest.head
    sent_to = message.recipient_of(policy.sent_to)
    sender = message.sender_of(policy.mail_from or head.mail_from or policy.to)
    mail = EmailMessage(policy=SMTP)
    mail["Date"] = head.begun_at
    mail["From"] = message.header_address(sender, "pgbill")
    mail["To"] = message.header_address(sent_to)
    mail["Subject"] = _subject(digest, policy)
    unique = f"{head.begun_at.isoformat()}\n{head.database_name}\n{sent_to}"
    hashed = hashlib.sha256(unique.encode()).hexdigest()[:16]
    domain = sender.rpartition("@")[2]
    mail["Message-ID"] = f"<pgbill.alerts.{head.digest_id}.{hashed}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Pgbill-Alerts"] = str(head.alert_count)
    if policy.redirect:
        mail["X-Pgbill-Original-To"] = printable(policy.to)
    needs_utf8 = not sent_to.isascii()
    try:
        mail.set_content(text(digest, policy), cte="quoted-printable")
        wire = mail.as_bytes(policy=SMTPUTF8 if needs_utf8 else SMTP)
    except (LookupError, TypeError, ValueError) as error:
        raise ComposeError(f"the mail cannot be composed: {error!r}") from error
    return Mail(sender, sent_to, wire, needs_utf8, number_text="")


def _subject(digest: Digest, policy: Policy) -> str:
    mark = "[TEST] " if policy.is_test else ""
    kinds = ", ".join(f"{each.alert_count} {each.kind}" for each in digest.kinds)
    return printable(f"{mark}pgbill: {counted(digest.head.alert_count)} ({kinds})")


def text(digest: Digest, policy: Policy) -> str:
    """Write what a person reads: how many of what, the first ones, where to look."""
    head = digest.head
    waits = "waits" if head.alert_count == 1 else "wait"
    count = counted(head.alert_count)
    database = printable(head.database_name)
    lines = [
        f"{count} {waits} for a person, in the database {database}.",
        "",
        *(f"{each.alert_count:7}  {each.kind}" for each in digest.kinds),
        "",
    ]
    for each in digest.entries:
        lines.append(f"{each.raised_at:%Y-%m-%d %H:%M:%S} UTC, alert {each.alert_id}:")
        lines += _indented(f"{each.kind}. {printable(each.summary)}")
        lines.append("")
    if (more := head.alert_count - len(digest.entries)) > 0:
        lines += [f"and {more} more.", ""]
    if head.unknown_count:
        lines += [
            f"Earlier mails, with {counted(head.unknown_count)} that are still open,",
            "may or may not have arrived.",
            "",
        ]
    minutes = f"{policy.every_seconds / 60:.3g}"
    lines += [
        "All that are open:         pgbill alert list",
        "Only those of a kind:      pgbill alert list --kind KIND",
        "The story of an account:   pgbill explain ACCOUNT",
        "When you have looked:      pgbill alert ack ID  (or --all)",
        "",
        f"What comes in the next {minutes} min comes in one mail.",
    ]
    return "\n".join(lines) + "\n"


def _indented(paragraph: str) -> list[str]:
    # Commands and addresses stay in one piece, to be copied.
    return textwrap.wrap(
        paragraph,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def counted(count: int) -> str:
    """Write how many alerts."""
    return "1 alert" if count == 1 else f"{count} alerts"
