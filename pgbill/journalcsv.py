"""Write an export as CSV: a line for each entry, for any ledger that reads tables.

Debit and credit stand in two columns, one of which is empty. Of each document they add
up to the same.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from pgbill import posting
from pgbill.posting import Accounts, Entry, Head

COLUMNS = (
    *("export", "number", "document", "issued_on", "payable_on", "account", "buyer"),
    *("customer_number", "entry", "kind", "ledger_account", "debit", "credit"),
    *("currency", "cost_centre", "tax_code", "tax_category", "tax_rate"),
    *("service_from", "service_through", "corrects"),
)


def render(conn: Connection[Any], head: Head, accounts: Accounts) -> Iterator[bytes]:
    """Yield the pieces of the file, in UTF-8."""
    yield _lines([COLUMNS])
    for entries in posting.documents(conn, head.export_id):
        yield _lines(_row(head, accounts, entry) for entry in entries)


def _row(head: Head, accounts: Accounts, entry: Entry) -> tuple[object, ...]:
    debit, credit = entry.amount, -entry.amount
    return (
        head.export_id,
        entry.number,
        entry.document_kind,
        entry.issued_on,
        entry.payable_on,
        entry.account,
        entry.buyer.get("legal_name"),
        entry.buyer.get("customer_number"),
        entry.entry_no,
        entry.kind,
        accounts.of(entry),
        f"{debit:f}" if debit >= 0 else None,
        f"{credit:f}" if debit < 0 else None,
        entry.currency,
        entry.cost_centre,
        entry.tax_code,
        entry.tax_category,
        None if entry.tax_rate is None else f"{entry.tax_rate:f}",
        entry.service_from,
        entry.service_through,
        entry.credited_number,
    )


def _lines(rows: Any) -> bytes:  # noqa: ANN401
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
