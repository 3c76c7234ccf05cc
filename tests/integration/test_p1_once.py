"""P1: an account is invoiced once for a billing period.

Kept by keys, whatever code writes: the closed periods of an account form one chain
without gap, fork or second beginning; an invoice belongs to a closed period; a second
one needs the cancellation of the first.
"""

from datetime import date
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from pgbill.lease import Scope
from tests import by_hand
from tests.actors import Actor, bill_all
from tests.builders import Account
from tests.shop import FEBRUARY, FIRST_DAY, MARCH, Shop, books, findings, numbers

_THROUGH_FEBRUARY = date(2026, 2, 28)


def _billed_account(conn: Connection[Any]) -> tuple[Account, int]:
    """Return an account with its first period invoiced, and its newest token."""
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    held = Actor(conn, scope=Scope(2, _THROUGH_FEBRUARY)).claim_one(account)
    return account, held.fencing_token


def can_invoice_a_period_twice(conn: Connection[Any]) -> bool:
    account, token = _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: by_hand.invoice(conn, account, token, FIRST_DAY)
    )


def can_reissue_what_is_not_cancelled(conn: Connection[Any]) -> bool:
    account, token = _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: by_hand.invoice(conn, account, token, FIRST_DAY, revision=2)
    )


def can_invoice_what_is_not_closed(conn: Connection[Any]) -> bool:
    account, token = _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: by_hand.invoice(conn, account, token, FEBRUARY)
    )


def can_close_days_twice(conn: Connection[Any]) -> bool:
    """A period that begins where another, which ended later, began."""
    account, token = _billed_account(conn)
    by_hand.period(conn, account, token, FIRST_DAY, FEBRUARY)
    return by_hand.succeeds(
        conn,
        lambda: by_hand.period(conn, account, token, FIRST_DAY, date(2026, 1, 20)),
    )


def can_begin_twice(conn: Connection[Any]) -> bool:
    account, token = _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: by_hand.period(conn, account, token, MARCH, MARCH)
    )


def can_leave_days_out(conn: Connection[Any]) -> bool:
    account, token = _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: by_hand.period(conn, account, token, FEBRUARY, MARCH)
    )


def test_a_period_is_invoiced_once(conn: Connection[Any]) -> None:
    assert not can_invoice_a_period_twice(conn)


def test_a_reissue_needs_a_cancellation(conn: Connection[Any]) -> None:
    assert not can_reissue_what_is_not_cancelled(conn)


def test_a_cancelled_invoice_is_reissued_once(conn: Connection[Any]) -> None:
    account, token = _billed_account(conn)
    credit_note_id = by_hand.invoice(conn, account, token, kind="credit_note")
    by_hand.cancellation(conn, account, token, FIRST_DAY, credit_note_id)

    by_hand.invoice(conn, account, token, FIRST_DAY, revision=2)

    for revision in (1, 2, 3):
        with pytest.raises(psycopg.IntegrityError), conn.transaction():
            by_hand.invoice(conn, account, token, FIRST_DAY, revision=revision)


def test_an_invoice_belongs_to_a_closed_period(conn: Connection[Any]) -> None:
    assert not can_invoice_what_is_not_closed(conn)


def test_periods_do_not_overlap(conn: Connection[Any]) -> None:
    assert not can_close_days_twice(conn)


def test_an_account_begins_once(conn: Connection[Any]) -> None:
    assert not can_begin_twice(conn)


def test_periods_leave_no_gap(conn: Connection[Any]) -> None:
    assert not can_leave_days_out(conn)


def test_a_period_does_not_run_backwards(conn: Connection[Any]) -> None:
    account, token = _billed_account(conn)
    by_hand.period(conn, account, token, FIRST_DAY, FEBRUARY)

    with pytest.raises(psycopg.errors.CheckViolation):
        by_hand.period(conn, account, token, FEBRUARY, FIRST_DAY)


def test_each_period_that_is_due_is_invoiced_in_its_turn(
    conn: Connection[Any],
) -> None:
    shop = Shop.open(conn)
    account = shop.account(conn)

    outcomes = bill_all(conn, account, through_on=_THROUGH_FEBRUARY)

    assert outcomes == ["invoiced"] * 3
    assert books(conn, account).invoiced == [FIRST_DAY, FEBRUARY, MARCH]
    assert books(conn, account).messages == 3
    assert numbers(conn, shop.seller_id) == [1, 2, 3]
    assert findings(conn) == {}


def test_the_second_time_there_is_nothing_to_do(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)

    outcomes = bill_all(conn, account)

    assert outcomes == []
    assert books(conn, account).invoiced == [FIRST_DAY]


def can_invoice_without_a_period(conn: Connection[Any]) -> bool:
    """The key on account and period would not bind it: there could be any number."""
    account, token = _billed_account(conn)
    return by_hand.succeeds(
        conn, lambda: by_hand.invoice(conn, account, token, kind="invoice")
    )


def test_an_invoice_is_for_a_period(conn: Connection[Any]) -> None:
    assert not can_invoice_without_a_period(conn)
