"""P4: an issued invoice never changes; it is corrected by another document.

Kept by a trigger on every table of what was issued, used, tried or told, which refuses
UPDATE, DELETE and TRUNCATE whoever asks. And by copies: an invoice carries what it says
of its seller, its buyer and its prices, so that later edits never alter it.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill import db, roles
from pgbill.errors import FrozenError
from tests import builders, by_hand, guards
from tests.actors import bill_all
from tests.builders import Account
from tests.shop import FEBRUARY, FIRST_DAY, Shop, run_sql, value

FROZEN = (
    "billing_period",
    "invoice",
    "invoice_line",
    "invoice_tax",
    "invoice_number",
    "invoice_cancellation",
    "tax_answer",
    "held_draft",
    "draft_decision",
    "seller_snapshot",
    "usage_record",
    "usage_watermark",
    "lease_event",
    "delivery_attempt",
    "delivery_outcome",
    "alert_digest",
    "alert_digest_outcome",
    "price_version",
    "price_tier",
    "policy",
    "charge",
    "prepaid_credit",
    "credit_application",
    "carried_line",
    "usage_retention",
    "payment",
    "unmatched_payment",
    "imported_invoice",
    "closed_month",
    "journal_export",
    "journal_entry",
    "journal_file",
)
_FROZEN = (*FROZEN, "usage_record_2026_01")
FOR_EVER = ("lease", "outbox_message", "billing_run", "alert", "discount")
"""They change, but their rows stay."""

_STATEMENTS = {
    "UPDATE": "UPDATE pgbill.{} SET {} = {}",
    "DELETE": "DELETE FROM pgbill.{}",
    "TRUNCATE": "TRUNCATE pgbill.{} CASCADE",
}


def _can_change(conn: Connection[Any], table: str, operation: str) -> bool:
    return by_hand.succeeds(conn, lambda: _change(conn, table, operation))


def _change(conn: Connection[Any], table: str, operation: str) -> None:
    column = value(
        conn,
        "SELECT attname::text FROM pg_catalog.pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum = 1",
        f"pgbill.{table}",
    )
    run_sql(conn, _STATEMENTS[operation].format(table, column, column))


def _billed_account(conn: Connection[Any]) -> Account:
    """Return an account with an invoice, usage and all that belongs to them."""
    shop = Shop.open(conn)
    account = shop.account(conn)
    shop.use(conn, account, "3", "4")
    bill_all(conn, account, through_on=date(2026, 1, 31))
    return account


def can_change_an_invoice(conn: Connection[Any]) -> bool:
    _billed_account(conn)
    return by_hand.succeeds(
        conn,
        lambda: run_sql(conn, "UPDATE pgbill.invoice SET payable_on = payable_on + 1"),
    )


def can_remove_a_line(conn: Connection[Any]) -> bool:
    _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: run_sql(conn, "DELETE FROM pgbill.invoice_line")
    )


@pytest.mark.parametrize("operation", _STATEMENTS)
def test_no_row_is_changed_or_removed(conn: Connection[Any], operation: str) -> None:
    _billed_account(conn)

    changed = [each for each in _FROZEN if _can_change(conn, each, operation)]

    assert changed == []


@pytest.mark.parametrize("operation", ["DELETE", "TRUNCATE"])
def test_leases_and_messages_stay(conn: Connection[Any], operation: str) -> None:
    _billed_account(conn)

    removed = [each for each in FOR_EVER if _can_change(conn, each, operation)]

    assert removed == []


def test_without_its_freeze_each_table_could_be_changed(
    conn: Connection[Any],
) -> None:
    _billed_account(conn)
    guards.without_trigger("_20_freeze", *_FROZEN)(conn)

    kept = [each for each in _FROZEN if not _can_change(conn, each, "UPDATE")]

    assert kept == []


def test_the_refusal_says_what_to_do(conn: Connection[Any]) -> None:
    with pytest.raises(FrozenError) as raised, db.refusals():
        conn.execute("DELETE FROM pgbill.invoice")

    assert raised.value.message == "invoice is insert-only: DELETE is refused"
    assert raised.value.hint == "Correct it by another document or row."


def test_a_superuser_is_refused_as_well(conn: Connection[Any]) -> None:
    _billed_account(conn)
    conn.execute("RESET ROLE")

    assert not can_change_an_invoice(conn)


def test_a_partition_is_frozen_from_its_first_moment(conn: Connection[Any]) -> None:
    conn.execute("SELECT pgbill.create_usage_partitions(ARRAY[date '2031-05-17'])")

    with pytest.raises(FrozenError), db.refusals():
        conn.execute("DELETE FROM pgbill.usage_record_2031_05")


def test_an_invoice_keeps_its_seller(conn: Connection[Any]) -> None:
    account = _billed_account(conn)
    conn.execute("UPDATE pgbill.seller SET legal_name = 'Renamed SE'")

    names = conn.execute("SELECT seller_name FROM pgbill.invoice_overview").fetchall()

    assert set(names) == {("Northlight Hosting GmbH",)}
    bill_all(conn, account, through_on=date(2026, 2, 28))
    newest = conn.execute(
        "SELECT seller_name FROM pgbill.invoice_overview"
        " ORDER BY period_end DESC LIMIT 1"
    ).fetchone()
    assert newest == ("Renamed SE",)


def test_an_invoice_keeps_its_buyer(conn: Connection[Any]) -> None:
    account = _billed_account(conn)
    conn.execute(
        "UPDATE pgbill.account SET legal_name = 'Renamed Ltd', city = 'Elsewhere',"
        """ recipients = '{"invoice": ["new@example.com"]}'"""
    )

    row = conn.execute(
        "SELECT DISTINCT buyer ->> 'legal_name', buyer ->> 'city', recipients"
        " FROM pgbill.invoice"
    ).fetchall()

    assert row == [
        (f"Example {account.key} GmbH", "Bremen", [f"{account.key}@example.com"])
    ]


def test_an_invoice_keeps_its_prices_and_tax(conn: Connection[Any]) -> None:
    _billed_account(conn)
    before = conn.execute("SELECT sum(gross_amount) FROM pgbill.invoice").fetchone()
    price_id = value(conn, "SELECT min(price_id) FROM pgbill.price")

    builders.version(conn, price_id, amount="99", begins_on=FIRST_DAY)
    conn.execute("UPDATE pgbill.tax_rate SET rate = 25")

    after = conn.execute("SELECT sum(gross_amount) FROM pgbill.invoice").fetchone()
    assert after == before
    assert value(conn, "SELECT count(*) FROM pgbill_audit.price_differs") == 0
    assert value(conn, "SELECT count(*) FROM pgbill_audit.tax_differs_from_lines") == 0


@pytest.mark.parametrize("role", [roles.WORKER, roles.READER])
def test_the_other_roles_do_not_even_get_there(
    conn: Connection[Any], role: str
) -> None:
    _billed_account(conn)
    db.set_role(conn, role)

    assert not value(
        conn, "SELECT has_table_privilege('pgbill.invoice', 'UPDATE, DELETE, TRUNCATE')"
    )


def test_a_correction_is_another_document(conn: Connection[Any]) -> None:
    account = _billed_account(conn)
    held = value(
        conn,
        "SELECT max(fencing_token) FROM pgbill.lease WHERE account_id = %s",
        account.account_id,
    )

    credit_note_id = by_hand.invoice(conn, account, held, kind="credit_note")
    by_hand.cancellation(conn, account, held, FEBRUARY, credit_note_id)

    states = conn.execute(
        "SELECT period_end, state FROM pgbill.invoice_overview"
        " WHERE kind = 'invoice' ORDER BY period_end"
    ).fetchall()
    assert states == [(FIRST_DAY, "issued"), (FEBRUARY, "cancelled")]
