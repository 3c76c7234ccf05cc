"""Import what accounts are, have agreed to, used and paid: all of a file, or nothing.

A file is streamed into a temporary table, checked there as a whole, and written in one
transaction. Importing it again changes nothing, since every record has its producer's
key; so whoever does not know whether an import went through starts it again. Imports
of one kind queue, and no run waits for them; but an account does not change in what its
invoice is made of while it is being invoiced.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from psycopg import Connection

from pgbill import accounts as account_file
from pgbill import charges as charge_file
from pgbill import discounts as discount_file
from pgbill import oldinvoices as old_invoice_file
from pgbill import payments as payment_file
from pgbill import prepaid as prepaid_file
from pgbill import reading, staging
from pgbill import subscriptions as subscription_file
from pgbill import usage as usage_file
from pgbill.reading import Format, Source
from pgbill.staging import Found, Layout, OnProgress, Staged, Written


class Kind(Protocol):
    """A module that knows a kind of file; usage takes one step more."""

    LAYOUT: Layout

    def write(self, conn: Connection[Any], staged: Staged) -> Written:
        """Check the file and write it, first in its transaction."""
        ...

    def analyze(self, conn: Connection[Any]) -> None:
        """Renew the statistics, after the commit."""
        ...


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a file.

    Attributes:
        read: Its records.
        new: What had not been there; of subscriptions, not of their rows.
        changed: What had been there otherwise.
        unchanged: What had been there, or stood in the file before.
        unmatched: Of payments, those that matched nothing and were let in.
        remarks: What a person should know of the file, each with its place.
    """

    read: int
    new: int
    changed: int
    unchanged: int
    unmatched: int = 0
    remarks: tuple[str, ...] = ()


def accounts(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import accounts; `conn` is in autocommit mode, as the owner of the schema.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
        LeaseHeldError: An account whose invoice would change is being invoiced.
    """
    return _import(conn, account_file, file, format_, on_progress)


def subscriptions(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import subscriptions; `conn` is in autocommit mode, as the owner of the schema.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
        LeaseHeldError: An account that the file touches is being invoiced.
    """
    return _import(conn, subscription_file, file, format_, on_progress)


def charges(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
    tax_by_table: bool = True,
) -> Report:
    """Import charges; `conn` is in autocommit mode, as the owner of the schema.

    Args:
        conn: The connection.
        file: As for all imports.
        format_: As for all imports.
        on_progress: As for all imports.
        tax_by_table: Remark tax classes that nothing knows; if false, a tax service
            may.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
    """
    with (
        reading.opened(file, format_=format_) as source,
        staging.loaded(conn, charge_file.LAYOUT, source, on_progress) as staged,
    ):
        with conn.transaction():
            written = charge_file.write(conn, staged)
        charge_file.analyze(conn)
        unknown = charge_file.unknown_tax_classes(conn) if tax_by_table else []
    return replace(_report(staged, written), remarks=_remarks(source, unknown))


def discounts(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import discounts; `conn` is in autocommit mode, as the owner of the schema.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
        LeaseHeldError: An account that the file touches is being invoiced.
    """
    return _import(conn, discount_file, file, format_, on_progress)


def prepaid(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import prepaid credits; `conn` is in autocommit mode, as the owner of the schema.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
    """
    return _import(conn, prepaid_file, file, format_, on_progress)


def invoices(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import invoices of a system before; `conn` as for all the others.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
    """
    return _import(conn, old_invoice_file, file, format_, on_progress)


def payments(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
    allow_unmatched: bool = False,
) -> Report:
    """Import payments; `conn` is in autocommit mode, as the owner of the schema.

    Args:
        conn: The connection.
        file: As for all imports.
        format_: As for all imports.
        on_progress: As for all imports.
        allow_unmatched: Keep what matches nothing, instead of refusing the file.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
    """
    with (
        reading.opened(file, format_=format_) as source,
        staging.loaded(conn, payment_file.LAYOUT, source, on_progress) as staged,
    ):
        with conn.transaction():
            done = payment_file.write(conn, staged, allow_unmatched=allow_unmatched)
        payment_file.analyze(conn)
    return replace(
        _report(staged, done.written),
        unmatched=done.unmatched_count,
        remarks=_remarks(source, done.unmatched),
    )


def usage(
    conn: Connection[Any],
    file: str,
    *,
    format_: Format | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Import usage records; `conn` is in autocommit mode, as the owner of the schema.

    Raises:
        BadInputError: The file holds something wrong; nothing was changed.
    """
    with (
        reading.opened(file, format_=format_) as source,
        staging.loaded(conn, usage_file.LAYOUT, source, on_progress) as staged,
    ):
        last_seq = usage_file.prepare(conn, staged)
        with conn.transaction():
            written = usage_file.write(conn, staged, last_seq=last_seq)
        usage_file.analyze(conn)
    return _report(staged, written)


def _remarks(source: Source, found: Sequence[Found]) -> tuple[str, ...]:
    """Write what a person should know, each with its place."""
    return tuple(
        f"{source.name}:{each.line}: {each.column_name}: {each.reason}"
        for each in found
    )


def _import(
    conn: Connection[Any],
    kind: Kind,
    file: str,
    format_: Format | None,
    on_progress: OnProgress | None,
) -> Report:
    with (
        reading.opened(file, format_=format_) as source,
        staging.loaded(conn, kind.LAYOUT, source, on_progress) as staged,
    ):
        with conn.transaction():
            written = kind.write(conn, staged)
        kind.analyze(conn)
    return _report(staged, written)


def _report(staged: Staged, written: Written) -> Report:
    return Report(
        staged.read_count,
        written.new_count,
        written.changed_count,
        written.unchanged_count,
    )
