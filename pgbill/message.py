"""Make the mail that delivers a document.

The same message gives the same mail, byte for byte, at each attempt, so that a second
copy can be recognised by its Message-ID. Addresses are checked here, before anything
is sent: one that cannot be sent to has failed, now and later. A folder needs none, so
what is no address names the account there. No value reaches a header with a control
character in it.
"""

import hashlib
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from typing import Any

import jinja2
from psycopg import Connection

from pgbill import address, document, rendering, wording
from pgbill.document import Document
from pgbill.errors import PgbillError
from pgbill.outbox import Message
from pgbill.rendering import printable

_NAME_LIMIT = 150


class ComposeError(PgbillError):
    """The mail cannot be composed, which a person may be able to mend."""


class AddressError(PgbillError):
    """The address cannot be sent to, now or later."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail as it goes over the wire, with its envelope."""

    sender: str
    sent_to: str
    """An address or, for a folder, the key of an account without one."""
    content: bytes
    needs_utf8: bool
    """Whether the address of the recipient cannot be written in ASCII."""
    number_text: str


def load(conn: Connection[Any], message: Message) -> Document:
    """Read the document that a message delivers.

    Raises:
        ComposeError: It has no number, which cannot be if `issue` wrote it.
    """
    found = document.load(
        conn,
        bucket=message.bucket,
        account_id=message.account_id,
        invoice_id=message.invoice_id,
    )
    if found is None:
        raise ComposeError(f"invoice {message.invoice_id} has no number.")
    return found


def compose(
    content: Document, message: Message, *, mail_from: str | None, redirect: str | None
) -> Mail:
    """Make a mail.

    Args:
        content: The document to deliver.
        message: To whom.
        mail_from: The address to send from instead of the seller's.
        redirect: The address to send to instead of the message's.

    Raises:
        AddressError: The address to send to cannot be one.
        ComposeError: Something else is wrong with it.
    """
    to = _to(message, redirect)
    sender = sender_of(mail_from or str(content.invoice.seller["mail_from"]))
    needs_utf8 = to is not None and not to.isascii()
    try:
        mail = _envelope(content, message, sender=sender, to=to)
        if redirect:
            mail["X-Pgbill-Original-To"] = printable(message.address)
        text, html = rendering.render(content)
        mail.set_content(text, cte="quoted-printable")
        mail.add_alternative(html, subtype="html", cte="quoted-printable")
        language = wording.find(content.invoice.language).language
        mail["Content-Language"] = language
        mail.set_boundary(f"=_pgbill.{_digest(content, message)}")
        wire = mail.as_bytes(policy=SMTPUTF8 if needs_utf8 else SMTP)
    except (
        jinja2.TemplateError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise ComposeError(f"the mail cannot be composed: {error!r}") from error
    return Mail(
        sender, to or message.address, wire, needs_utf8, content.invoice.number_text
    )


def check_sender(text: str) -> None:
    """Accept an address to send from: every server must be able to read it.

    Raises:
        ValueError: It cannot be used; the message is the reason.
    """
    address.check(text)
    if not text.rpartition("@")[0].isascii():
        raise ValueError("an address to send from has only ASCII before the @")


def sender_of(text: str) -> str:
    """Return the address to send from as it goes over the wire.

    Raises:
        ComposeError: It cannot be one.
    """
    try:
        check_sender(text)
        return _with_ascii_domain(text)
    except ValueError as error:
        raise ComposeError(
            f"mail cannot come from {printable(text)}: {error}"
        ) from error


def recipient_of(text: str) -> str:
    """Return the address to send to as it goes over the wire.

    Raises:
        AddressError: It cannot be one.
    """
    try:
        address.check(text)
        return _with_ascii_domain(text)
    except ValueError as error:
        raise AddressError(f"not sent: {error}") from error


def _to(message: Message, redirect: str | None) -> str | None:
    """Return whom the mail is to; none for a file of an account without an address.

    Raises:
        AddressError: It is not for a folder, and cannot be sent.
    """
    try:
        return recipient_of(redirect or message.address)
    except AddressError:
        if redirect or message.channel != "folder":
            raise
        return None


def _with_ascii_domain(text: str) -> str:
    local, _, domain = text.rpartition("@")
    return f"{local}@{domain.encode('idna').decode()}"


def _envelope(
    content: Document, message: Message, *, sender: str, to: str | None
) -> EmailMessage:
    """Begin the mail with its headers."""
    invoice = content.invoice
    name = printable(str(invoice.seller["legal_name"]))[:_NAME_LIMIT]
    mail = EmailMessage(policy=SMTP)
    mail["Date"] = invoice.issued_at
    mail["From"] = header_address(sender, name)
    if to is None:
        # No To at all is valid, and nothing that picks up the file can send it astray.
        mail["X-Pgbill-Account"] = printable(message.address)
    else:
        mail["To"] = header_address(to)
    mail["Subject"] = _subject(content, name)
    domain = sender.rpartition("@")[2]
    digest = _digest(content, message)
    mail["Message-ID"] = f"<pgbill.{message.message_id}.{digest}@{domain}>"
    contact = str(invoice.seller.get("contact_email") or "")
    if contact != sender and _can_reply_to(contact):
        mail["Reply-To"] = header_address(contact)
    # No vacation notice is to come back.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Pgbill-Invoice"] = printable(invoice.number_text)
    return mail


def _subject(content: Document, seller: str) -> str:
    invoice = content.invoice
    words = wording.find(invoice.language)
    title = words.texts[invoice.kind]
    number = invoice.number_text
    subject = words.say("subject", title=title, number=number, seller=seller)
    if invoice.mode == "test":
        subject = f"[{words.texts['test_mark']}] {subject}"
    return printable(subject)


def header_address(checked: str, name: str = "") -> Address:
    """Write an address that was checked for a header."""
    local, _, domain = checked.rpartition("@")
    return Address(name, local, domain)


def _can_reply_to(text: str) -> bool:
    try:
        check_sender(text)
    except ValueError:
        return False
    return text.isascii()


def _digest(content: Document, message: Message) -> str:
    """Tell messages of different databases apart that have the same id."""
    invoice = content.invoice
    parts = (invoice.number_text, invoice.issued_at.isoformat(), message.address)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
