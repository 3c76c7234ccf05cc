"""Import accounts, subscriptions and usage: all of a file, or nothing.

A file is streamed into a temporary table, checked there as a whole, and written in one
transaction. Importing it again changes nothing, since every record has its producer's
key; so whoever does not know whether an import went through starts it again. Imports
of one kind queue, and no run waits for them; but an account does not change in what its
invoice is made of while it is being invoiced.
"""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from pgbill import accounts as account_file
from pgbill import reading, staging
from pgbill import subscriptions as subscription_file
from pgbill import usage as usage_file
from pgbill.reading import Format
from pgbill.staging import OnProgress, Staged, Written


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a file.

    Attributes:
        read: Its records.
        new: What had not been there; of subscriptions, not of their rows.
        changed: What had been there otherwise.
        unchanged: What had been there, or stood in the file before.
    """

    read: int
    new: int
    changed: int
    unchanged: int


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
    with (
        reading.opened(file, format_=format_) as source,
        staging.loaded(conn, account_file.LAYOUT, source, on_progress) as staged,
    ):
        with conn.transaction():
            written = account_file.write(conn, staged)
        account_file.analyze(conn)
    return _report(staged, written)


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
    with (
        reading.opened(file, format_=format_) as source,
        staging.loaded(conn, subscription_file.LAYOUT, source, on_progress) as staged,
    ):
        with conn.transaction():
            written = subscription_file.write(conn, staged)
        subscription_file.analyze(conn)
    return _report(staged, written)


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


def _report(staged: Staged, written: Written) -> Report:
    return Report(
        staged.read_count,
        written.new_count,
        written.changed_count,
        written.unchanged_count,
    )
