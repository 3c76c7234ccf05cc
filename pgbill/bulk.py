"""Correct many invoices, which a file names, one after the other.

The file is checked before anything is done: a number that nobody has, or that stands
there twice, refuses all of it. Then each invoice is corrected in a transaction of its
own; one that cannot be is told with the reason, and the others go on. A command that
was killed is given again: what it has done is passed by.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from pgbill import column, invoice, reading
from pgbill.column import Column
from pgbill.correction import Correction
from pgbill.errors import CorrectionError, InputError, LeaseHeldError, UsageError
from pgbill.invoice import Header
from pgbill.problem import Problems
from pgbill.tax import TaxAwayError, TaxError

COLUMNS = (
    Column("number", column.key, is_required=True),
    Column("seller", column.key),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of one of them."""

    number: str
    state: str
    """done, done before, refused, or what may pass: busy (a worker holds its account)
    or put off (the tax service is away)."""
    reason: str | None
    correction: Correction | None


def read(conn: Connection[Any], file: str) -> list[Header]:
    """Return the invoices that a CSV or JSON-lines file names.

    Raises:
        InputError: Something is wrong with the file; all of it is told.
    """
    with reading.opened(file, hint="Call it .csv or .jsonl.") as source:
        problems = Problems(source.name)
        found = list(_found(conn, reading.records(source, COLUMNS, problems), problems))
    problems.refuse()
    if not found:
        raise InputError(f"{file} names no invoice.")
    return found


def _found(
    conn: Connection[Any],
    records: Iterable[tuple[int, reading.Row | None]],
    problems: Problems,
) -> Iterator[Header]:
    lines: dict[tuple[int, int, int], int] = {}
    for line, row in records:
        if row is None or row[0] is None:
            continue
        try:
            head = invoice.header(conn, row[0], seller=row[1])
        except UsageError as error:
            problems.add(line, "number", error.message.rstrip("."))
            continue
        key = head.bucket, head.account_id, head.invoice_id
        if key in lines:
            reason = f"{head.number} stands on line {lines[key]} already"
            problems.add(line, "number", reason)
        lines.setdefault(key, line)
        yield head


def correct(
    heads: Sequence[Header],
    act: Callable[[Header], Correction],
    *,
    is_done: Callable[[Header], bool],
) -> Iterator[Outcome]:
    """Correct one after the other, and tell of each when it is done.

    `is_done` looks at the invoice as it is now, not as it was when the file was read.
    """
    for head in heads:
        yield _correct(head, act, is_done)


def _correct(
    head: Header,
    act: Callable[[Header], Correction],
    is_done: Callable[[Header], bool],
) -> Outcome:
    if is_done(head):
        return Outcome(head.number, "done before", None, None)
    try:
        done = act(head)
    except LeaseHeldError as error:
        return Outcome(head.number, "busy", error.message, None)
    except TaxAwayError as error:
        return Outcome(head.number, "put off", error.message, None)
    except (CorrectionError, TaxError) as error:
        # Another command may have done it in this moment.
        if is_done(head):
            return Outcome(head.number, "done before", None, None)
        return Outcome(head.number, "refused", error.message, None)
    return Outcome(head.number, "done", None, done)
