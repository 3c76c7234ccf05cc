"""What somebody writes past the protocol: plain inserts, with whatever token they have.

Rows are as complete as the tables want them, so that only what a test is about can
refuse them.
"""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.types.range import DateRange

from pgbill import db
from pgbill.errors import RefusalError
from tests import builders, shop
from tests.builders import Account

_DAY = date(2026, 6, 1)


def succeeds(conn: Connection[Any], act: Callable[[], object]) -> bool:
    """Try to write something: false if a trigger or a constraint refuses it."""
    try:
        with conn.transaction(), db.refusals():
            act()
    except (RefusalError, psycopg.IntegrityError):
        return False
    return True


def period(
    conn: Connection[Any], account: Account, token: int, starts_on: date, ends_on: date
) -> None:
    """Close a period with nothing to bill."""
    builders.insert(
        conn,
        "billing_period",
        "bucket",
        bucket=account.bucket,
        account_id=account.account_id,
        period_start=starts_on,
        period_end=ends_on,
        period_end_at=ends_on,
        zone="Europe/Berlin",
        outcome="nothing_to_bill",
        usage_seq=0,
        fencing_token=token,
    )


def invoice(
    conn: Connection[Any],
    account: Account,
    token: int,
    period_end: date | None = None,
    **columns: object,
) -> int:
    """Write an invoice of a period that is empty, or a credit note; return its id."""
    defaults: dict[str, object] = {
        "bucket": account.bucket,
        "account_id": account.account_id,
        "kind": "credit_note" if period_end is None else "invoice",
        "period_start": period_end,
        "period_end": period_end,
        "series_id": series_of(conn, account),
        "issued_on": _DAY,
        "tax_point_on": _DAY,
        "payable_on": _DAY,
        "currency": "EUR",
        "net_amount": Decimal(0),
        "tax_amount": Decimal(0),
        "gross_amount": Decimal(0),
        "seller_snapshot_id": 1,
        "buyer": {},
        "language": "en",
        "delivery_channel": "email",
        "recipients": ["ap@example.com"],
        "fencing_token": token,
    }
    invoice_id: int = builders.insert(
        conn, "invoice", "invoice_id", **{**defaults, **columns}
    )
    return invoice_id


def line(conn: Connection[Any], account: Account, token: int, invoice_id: int) -> None:
    """Add a line to an invoice."""
    builders.insert(
        conn,
        "invoice_line",
        "line_no",
        bucket=account.bucket,
        account_id=account.account_id,
        invoice_id=invoice_id,
        line_no=99,
        kind="arrears",
        description="By hand",
        quantity=Decimal(1),
        unit_code="C62",
        unit_amount=Decimal(0),
        net_amount=Decimal(0),
        tax_category="Z",
        tax_rate=Decimal(0),
        service_period=DateRange(_DAY, None),
        rating_input={},
        fencing_token=token,
    )


def tax(conn: Connection[Any], account: Account, token: int, invoice_id: int) -> None:
    """Add a tax to an invoice."""
    builders.insert(
        conn,
        "invoice_tax",
        "tax_rate",
        bucket=account.bucket,
        account_id=account.account_id,
        invoice_id=invoice_id,
        tax_category="Z",
        tax_rate=Decimal(0),
        taxable_amount=Decimal(0),
        tax_amount=Decimal(0),
        fencing_token=token,
    )


def cancellation(
    conn: Connection[Any],
    account: Account,
    token: int,
    period_end: date,
    credit_note_id: int,
) -> None:
    """Cancel the first invoice of a period."""
    builders.insert(
        conn,
        "invoice_cancellation",
        "revision",
        bucket=account.bucket,
        account_id=account.account_id,
        period_end=period_end,
        revision=1,
        credit_note_id=credit_note_id,
        reason="by hand",
        cancelled_by="somebody",
        fencing_token=token,
    )


def tax_answer(
    conn: Connection[Any], account: Account, token: int, period_end: date
) -> None:
    """Keep an answer of a tax service."""
    builders.insert(
        conn,
        "tax_answer",
        "period_end",
        bucket=account.bucket,
        account_id=account.account_id,
        period_end=period_end,
        question_hash="by hand",
        question={},
        answer={},
        provider="nobody",
        fencing_token=token,
    )


def carried_line(
    conn: Connection[Any], account: Account, token: int, period_end: date
) -> None:
    """Let a line of a closing wait for the next invoice."""
    builders.insert(
        conn,
        "carried_line",
        "line_no",
        bucket=account.bucket,
        account_id=account.account_id,
        period_end=period_end,
        line_no=99,
        line={},
        fencing_token=token,
    )


def credit(conn: Connection[Any], account: Account, amount: str = "10") -> int:
    """Write a prepaid credit, as an import does; return its id."""
    credit_id: int = builders.insert(
        conn,
        "prepaid_credit",
        "prepaid_credit_id",
        bucket=account.bucket,
        account_id=account.account_id,
        key="pack",
        description="Credit pack",
        amount=Decimal(amount),
        available_on=_DAY,
    )
    return credit_id


def application(
    conn: Connection[Any],
    account: Account,
    token: int,
    invoice_id: int,
    credit_id: int,
    *,
    amount: str = "1",
) -> None:
    """Apply a prepaid credit to an invoice."""
    builders.insert(
        conn,
        "credit_application",
        "invoice_id",
        bucket=account.bucket,
        account_id=account.account_id,
        prepaid_credit_id=credit_id,
        invoice_id=invoice_id,
        amount=Decimal(amount),
        fencing_token=token,
    )


def held_draft(
    conn: Connection[Any], account: Account, token: int, period_end: date
) -> None:
    """Hold back a draft of nothing."""
    builders.insert(
        conn,
        "held_draft",
        "held_draft_id",
        bucket=account.bucket,
        account_id=account.account_id,
        period_start=period_end,
        period_end=period_end,
        run_id=1,
        reasons=["by hand"],
        currency="EUR",
        net_amount=Decimal(0),
        tax_amount=Decimal(0),
        gross_amount=Decimal(0),
        draft={},
        digest="by hand",
        fencing_token=token,
    )


def number(
    conn: Connection[Any], account: Account, invoice_id: int, number: int
) -> None:
    """Number an invoice."""
    builders.insert(
        conn,
        "invoice_number",
        "number",
        series_id=series_of(conn, account),
        number=number,
        bucket=account.bucket,
        account_id=account.account_id,
        invoice_id=invoice_id,
        number_text=f"NL-{number:06}",
        issued_on=_DAY,
        issued_at=_DAY,
    )


def series_of(conn: Connection[Any], account: Account) -> int:
    """Return the series of the account's live invoices."""
    series_id: int = shop.value(
        conn,
        "SELECT series_id FROM pgbill.number_series"
        " WHERE seller_id = %s AND kind = 'invoice' AND mode = 'live'",
        account.seller_id,
    )
    return series_id
