"""Say in a sentence what a row of an account's history means.

One function for each table. A sentence names who did it, with which fencing token, and
how long it took where that is known; the numbers are repeated as facts, for programs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pgbill.history import (
    Account,
    Alert,
    Attempt,
    Cancellation,
    Closing,
    Event,
    Invoice,
    Message,
)

_MINUTE = 60
_HOUR = 3_600


_WITHOUT_INVOICE = {
    "nothing_to_bill": ": nothing to bill.",
    "carried_forward": ": its lines wait for the next invoice.",
}
_ACTS = {
    "parked": "The account was parked",
    "unparked": "The account was unparked",
    "retried": "The account was made due again",
    "approved": "The draft was approved",
    "discarded": "The draft was discarded",
}
"""What a person does to an account; parking, a worker may do as well."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened."""

    at: datetime
    kind: str
    text: str
    facts: dict[str, object] = field(default_factory=dict[str, object])


def duration(length: timedelta) -> str:
    """Write a length of time in the two units that matter."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"


def situation(account: Account) -> str:
    """Say how an account stands now."""
    due = f"its next period ends on {account.due_on}"
    if account.parked_at is not None:
        return (
            f"parked since {account.parked_at:%Y-%m-%d %H:%M:%S} UTC"
            f" ({account.detail}); {due}."
        )
    if account.draft_at is not None:
        return (
            f"a draft waits for review since {account.draft_at:%Y-%m-%d %H:%M:%S} UTC"
            f" ({account.detail}); {due}."
        )
    if account.retry_at is not None:
        again = f"{account.retry_at:%Y-%m-%d %H:%M:%S} UTC ({account.detail})"
        return f"it failed and is tried again at {again}; {due}."
    if account.holder is None or account.claimed_at is None:
        return f"nobody works on it; {due}."
    held = duration(account.asked_at - account.claimed_at)
    over = account.expires_at is not None and account.expires_at <= account.asked_at
    expired = ", and the lease has expired" if over else ""
    return (
        f"{account.holder} has held it for {held} with token"
        f" {account.fencing_token}{expired}; {due}."
    )


def event(told: Event, claim: Event | None) -> Entry:
    """Tell what happened to the lease; `claim` is the one that it is about."""
    who = told.holder or "Somebody"
    took = f" after {duration(told.occurred_at - claim.occurred_at)}" if claim else ""
    by = f" by {told.acted_by}" if told.acted_by else ""
    because = f": {told.detail}" if told.detail else ""
    token = f"token {told.fencing_token}"
    match told.kind, told.outcome:
        case "claimed", _:
            text = f"{who} claimed {_claimed(told)} ({token})"
        case "expired", _:
            text = f"The lease of {who} expired{took} ({token}){because}"
        case "abandoned", _:
            text = f"{who} noticed that its lease was lost{took} and dropped the work"
            text += f" ({token}){because}"
        case _, "invoiced" | "nothing_to_bill" | "carried_forward" | "corrected":
            text = f"{who} was done{took} and released the lease ({token})"
        case _, "given_back":
            text = f"{who} gave the account back{took} ({token}){because}"
        case _, "failed":
            text = f"{who} could not invoice it{took} ({token}){because}"
        case _, "held":
            text = f"The draft was held back for review{took} ({token}){because}"
        case _, outcome if outcome in _ACTS:
            text = f"{_ACTS[outcome]}{by}{because}"
        case _, "revoked":
            text = f"The lease was taken from {who}{took} ({token}){because}"
        case _:
            text = f"The lease was released{took} ({token}){because}"
    facts: dict[str, object] = {
        "fencing_token": told.fencing_token,
        "holder": told.holder,
        "run_id": told.run_id,
        "due_on": told.due_on,
        "outcome": told.outcome,
        "detail": told.detail,
        "acted_by": told.acted_by,
    }
    return Entry(told.occurred_at, told.kind, f"{text}.", facts)


def _claimed(told: Event) -> str:
    if told.run_id is None:
        return "the account, to correct a document"
    if told.run_id == 0:
        return f"the period that ends on {told.due_on}, to ask for its tax"
    return f"the period that ends on {told.due_on}, for run {told.run_id}"


def closing(told: Closing, invoice: Invoice | None) -> Entry:
    """Tell what was closed, with the invoice that came of it."""
    if told.period_start == told.period_end:
        text = f"The first day, {told.period_end}, was opened"
    else:
        text = f"The period {told.period_start} to {told.period_end} was closed"
    if told.zone_before not in (None, told.zone):
        text += f" in the zone {told.zone}, not {told.zone_before} any more"
    if told.usage_seq:
        text += f", with usage up to import {told.usage_seq}"
    facts: dict[str, object] = {
        "period_start": told.period_start,
        "period_end": told.period_end,
        "zone": told.zone,
        "outcome": told.outcome,
        "usage_seq": told.usage_seq,
        "fencing_token": told.fencing_token,
    }
    if invoice is None:
        text += _WITHOUT_INVOICE.get(told.outcome, ", but its invoice is missing!")
    else:
        text += f": {_issued(invoice)}"
        facts |= _document_facts(invoice)
    return Entry(told.closed_at, "closed", text, facts)


def document(told: Invoice, invoices: Mapping[int, Invoice]) -> Entry:
    """Tell of a document that closed no period: a reissue, a credit note."""
    at = told.issued_at or datetime.max.replace(tzinfo=UTC)
    facts = _document_facts(told)
    text = _issued(told)
    if told.issued_by is not None:
        text = f"{text.removesuffix('.')}, by {told.issued_by}: {told.reason}."
        facts |= {"reason": told.reason, "issued_by": told.issued_by}
    if told.credited_invoice_id is not None:
        credited = invoices.get(told.credited_invoice_id)
        text = text.replace(" was issued", f" was issued for {_name(credited)}", 1)
        facts["credits"] = credited.number_text if credited else None
    return Entry(at, "issued", text[0].upper() + text[1:], facts)


def _issued(invoice: Invoice) -> str:
    lines = "1 line" if invoice.line_count == 1 else f"{invoice.line_count} lines"
    again = f", revision {invoice.revision}," if invoice.revision > 1 else ""
    by = f", payable by {invoice.payable_on}" if invoice.kind == "invoice" else ""
    return (
        f"{_name(invoice)}{again} of {invoice.gross_amount} {invoice.currency} was"
        f" issued with {lines}, dated {invoice.issued_on}{by}."
    )


def _name(invoice: Invoice | None) -> str:
    if invoice is None:
        return "a document that is missing"
    what = "credit note" if invoice.kind == "credit_note" else "invoice"
    test = "test " if invoice.mode == "test" else ""
    return f"{test}{what} {invoice.number_text or '(without a number)'}"


def _document_facts(invoice: Invoice) -> dict[str, object]:
    return {
        "number": invoice.number_text,
        "revision": invoice.revision,
        "gross_amount": invoice.gross_amount,
        "currency": invoice.currency,
        "issued_on": invoice.issued_on,
        "payable_on": invoice.payable_on,
    }


def cancellation(told: Cancellation, invoices: Mapping[int, Invoice]) -> Entry:
    """Tell which invoice was cancelled, by whom and why."""
    invoice = next(
        each
        for each in invoices.values()
        if (each.period_end, each.revision) == (told.period_end, told.revision)
    )
    note = invoices.get(told.credit_note_id)
    text = (
        f"{told.cancelled_by} cancelled {_name(invoice)} by {_name(note)}:"
        f" {told.reason}."
    )
    facts: dict[str, object] = {
        "number": invoice.number_text,
        "credit_note": note.number_text if note else None,
        "reason": told.reason,
    }
    return Entry(told.cancelled_at, "cancelled", text, facts)


def message(told: Message, invoice: Invoice | None) -> Entry:
    """Tell what is to be delivered, and to whom."""
    what = f"Message {told.message_id}"
    if told.retry_of is None:
        text = (
            f"{what}, with {_name(invoice)} to {told.address}, was put in the outbox."
        )
    else:
        text = (
            f"{told.retried_by} put message {told.message_id} to {told.address} in"
            f" place of message {told.retry_of}, which had failed: {told.retry_reason}."
        )
    facts: dict[str, object] = {
        "message_id": told.message_id,
        "number": invoice.number_text if invoice else None,
        "address": told.address,
        "retry_of": told.retry_of,
    }
    return Entry(told.created_at, "message", text, facts)


def attempt(told: Attempt, of: Message, now: datetime) -> Iterator[Entry]:
    """Tell of an attempt, and of its outcome."""
    facts: dict[str, object] = {
        "message_id": told.message_id,
        "attempt_no": told.attempt_no,
        "sent_to": told.sent_to,
        "holder": told.holder,
    }
    text = (
        f"{told.holder} began attempt {told.attempt_no} to deliver message"
        f" {told.message_id} to {told.sent_to}"
    )
    if told.recorded_at is not None:
        yield Entry(told.begun_at, "attempt", f"{text}.", facts)
        yield _outcome(told, facts)
    elif of.expires_at is not None and of.expires_at > now:
        yield Entry(told.begun_at, "attempt", f"{text}; it is under way.", facts)
    else:
        text += "; it is not known whether it was taken, so it is not sent again."
        yield Entry(told.begun_at, "attempt", text, {**facts, "uncertain": True})


def _outcome(told: Attempt, facts: dict[str, object]) -> Entry:
    assert told.recorded_at is not None
    took = duration(told.recorded_at - told.begun_at)
    by = f", said {told.recorded_by}" if told.recorded_by != told.holder else ""
    reply = " ".join(
        str(part) for part in (told.reply_code, told.reply_text) if part is not None
    )
    did = {
        "accepted": "was accepted",
        "deferred": "was deferred, and will be tried again,",
        "failed": "failed for good",
    }
    text = (
        f"Attempt {told.attempt_no} of message {told.message_id}"
        f" {did[told.outcome or 'failed']} after {took}{by}: {reply}."
    )
    facts = {**facts, "outcome": told.outcome, "reply": reply}
    return Entry(told.recorded_at, told.outcome or "failed", text, facts)


def alert(told: Alert) -> Iterator[Entry]:
    """Tell of an alert, and of who has looked at it."""
    facts: dict[str, object] = {"alert_id": told.alert_id, "alert_kind": told.kind}
    still = "" if told.acked_at else " Nobody has acknowledged it yet."
    text = f"Alert {told.alert_id}: {told.summary.rstrip('.')}.{still}"
    yield Entry(told.raised_at, "alert", text, facts)
    if told.acked_at is not None:
        text = f"{told.acked_by} acknowledged alert {told.alert_id}."
        yield Entry(told.acked_at, "acknowledged", text, facts)
