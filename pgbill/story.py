"""Tell the whole story of an account, in order.

Whatever happened to it can be told afterwards (P10): `history` reads the rows,
`telling` makes sentences of them, and here they are put in order of time, by the clock
of the database. What follows from two rows, such as how long a claim took, or that an
attempt has no outcome, is found here and stored nowhere.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from typing import Any

from psycopg import Connection

from pgbill import history, telling
from pgbill.errors import UsageError
from pgbill.history import History
from pgbill.telling import Entry


@dataclass(frozen=True, slots=True)
class Story:
    """What happened to an account, or to one of its billing periods."""

    account: str
    legal_name: str
    zone: str
    periods: list[str]
    """The ends of the periods that it is about; empty: the whole life."""
    now: str
    entries: list[Entry]


def tell(conn: Connection[Any], key: str, period: str | None = None) -> Story:
    """Tell the story of an account, or what concerns one period of it.

    Args:
        conn: As the role pgbill_reader, or any that may read.
        key: The account's key.
        period: A month (2026-10), for the periods that begin in it, or the day on which
            a period ends (2026-11-01); none: everything.

    Raises:
        UsageError: There is no such account, or it has no such period.
    """
    facts = history.read(conn, key)
    if facts is None:
        raise UsageError(f"there is no account {key}.")
    ends = _ends(facts, period) if period else set[date]()
    chosen = _choose(facts, ends) if period else facts
    return Story(
        account=facts.account.key,
        legal_name=facts.account.legal_name,
        zone=facts.account.zone,
        periods=[str(end) for end in sorted(ends)],
        now=telling.situation(facts.account),
        entries=_entries(chosen),
    )


def _ends(known: History, period: str) -> set[date]:
    """Return the ends of the periods that are meant, the open one among them."""
    starts = {each.period_end: each.period_start for each in known.closings}
    newest = max(starts, default=known.account.first_period_on)
    starts.setdefault(known.account.due_on, newest)
    if re.fullmatch(r"\d{4}-\d{2}", period):
        ends = {end for end, start in starts.items() if f"{start:%Y-%m}" == period}
    else:
        ends = {end for end in starts if str(end) == period}
    if not ends:
        days = sorted(starts)
        raise UsageError(
            f"account {known.account.key} has no billing period {period}.",
            hint=f"Its periods end on days from {days[0]} to {days[-1]}: give such a"
            " day, or the month in which the period begins, as 2026-10.",
        )
    return ends


def _choose(known: History, ends: set[date]) -> History:
    """Keep what is about these periods; alerts, which name none, are told by time."""
    numbers = {each.invoice_id for each in known.invoices if each.period_end in ends}
    cancellations = [each for each in known.cancellations if each.period_end in ends]
    numbers |= {each.credit_note_id for each in cancellations}
    numbers |= {
        e.invoice_id for e in known.invoices if e.credited_invoice_id in numbers
    }
    messages = [each for each in known.messages if each.invoice_id in numbers]
    message_ids = {each.message_id for each in messages}
    events = [each for each in known.events if each.due_on in ends]
    attempts = [each for each in known.attempts if each.message_id in message_ids]
    times = [each.occurred_at for each in events] + [
        time for each in attempts for time in (each.begun_at, each.recorded_at) if time
    ]
    return History(
        account=known.account,
        events=events,
        closings=[each for each in known.closings if each.period_end in ends],
        invoices=[each for each in known.invoices if each.invoice_id in numbers],
        cancellations=cancellations,
        messages=messages,
        attempts=attempts,
        alerts=[each for each in known.alerts if _within(each.raised_at, times)],
    )


def _within(time: datetime, times: list[datetime]) -> bool:
    return bool(times) and min(times) <= time <= max(times)


def _entries(known: History) -> list[Entry]:
    """Put everything in order of time."""
    claims = {e.fencing_token: e for e in known.events if e.kind == "claimed"}
    invoices = {each.invoice_id: each for each in known.invoices}
    first = {e.period_end: e for e in known.invoices if e.revision == 1}
    messages = {each.message_id: each for each in known.messages}
    now = known.account.asked_at
    told = chain(
        (telling.event(each, claims.get(each.fencing_token)) for each in known.events),
        (telling.closing(e, first.get(e.period_end)) for e in known.closings),
        (
            telling.document(each, invoices)
            for each in known.invoices
            if each.period_end is None or each.revision > 1
        ),
        (telling.cancellation(each, invoices) for each in known.cancellations),
        (telling.message(e, invoices.get(e.invoice_id)) for e in known.messages),
        (
            entry
            for each in known.attempts
            for entry in telling.attempt(each, messages[each.message_id], now)
        ),
        (entry for each in known.alerts for entry in telling.alert(each)),
    )
    return sorted(told, key=lambda entry: entry.at)
