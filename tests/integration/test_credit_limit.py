"""An invoice is never credited with more than is left of it, whatever code writes.

A clerk's lease lets one at a time compute what is left; a worker that holds the account
goes first. The last guard is a trigger on credit notes, and one on their lines, which
lock the invoice, so that two who credit it at the same moment queue.
"""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection
from psycopg.types.range import DateRange

from pgbill import db, roles
from pgbill.errors import CorrectionError
from pgbill.lease import Scope
from tests import builders, by_hand
from tests.actors import (
    EXPIRED,
    Actor,
    Threads,
    bill_all,
    connect,
    is_blocked,
    wait_for,
)
from tests.builders import Account
from tests.clerk import Clerk
from tests.shop import FEBRUARY, FIRST_DAY, Shop, value

pytestmark = pytest.mark.one_server

_SCOPE = Scope(2, date(2026, 1, 31))


def _note(
    conn: Connection[Any],
    account: Account,
    token: int,
    amount: str,
    **columns: Any,  # noqa: ANN401
) -> int:
    """Write a credit note of the first invoice, without tax; return its id."""
    credited = value(
        conn,
        "SELECT min(invoice_id) FROM pgbill.invoice WHERE account_id = %s",
        account.account_id,
    )
    credit: dict[str, Any] = {
        "credited_invoice_id": credited,
        "net_amount": -Decimal(amount),
        "gross_amount": -Decimal(amount),
        "reason": "by hand",
        "issued_by": "somebody",
    }
    return by_hand.invoice(conn, account, token, **{**credit, **columns})


def _line(
    conn: Connection[Any],
    account: Account,
    token: int,
    amount: str,
    *,
    line_no: int = 1,
    **columns: Any,  # noqa: ANN401
) -> None:
    """Credit a line of the first invoice, on a credit note of nothing."""
    note_id = _note(conn, account, token, "0", **columns)
    builders.insert(
        conn,
        "invoice_line",
        "line_no",
        bucket=account.bucket,
        account_id=account.account_id,
        invoice_id=note_id,
        line_no=1,
        kind="credit",
        description="By hand",
        quantity=Decimal(-1),
        unit_code="C62",
        unit_amount=Decimal(amount),
        net_amount=-Decimal(amount),
        tax_category="Z",
        tax_rate=Decimal(0),
        service_period=DateRange(FIRST_DAY, FEBRUARY),
        rating_input={},
        credited_invoice_id=value(
            conn,
            "SELECT min(invoice_id) FROM pgbill.invoice WHERE account_id = %s",
            account.account_id,
        ),
        credited_line_no=line_no,
        fencing_token=token,
    )


def _held(conn: Connection[Any]) -> tuple[Account, int]:
    """Return an account with an invoice of 11.90, and the token of its lease."""
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    row = value(
        conn,
        "SELECT pgbill.claim_account(%s, %s, 'clerk', gen_random_uuid())",
        account.bucket,
        account.account_id,
    )
    return account, int(row)


def can_credit_too_much(conn: Connection[Any]) -> bool:
    account, token = _held(conn)
    _note(conn, account, token, "11.90")
    return by_hand.succeeds(conn, lambda: _note(conn, account, token, "0.01"))


def can_credit_a_line_twice(conn: Connection[Any]) -> bool:
    account, token = _held(conn)
    _line(conn, account, token, "6")
    return by_hand.succeeds(conn, lambda: _line(conn, account, token, "4.01"))


def can_correct_what_a_worker_holds(conn: Connection[Any]) -> bool:
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    clerk = Clerk(conn, account)
    number = clerk.number(FIRST_DAY)
    Actor(conn, "worker", _SCOPE).claim_one(account)
    return by_hand.succeeds(conn, lambda: clerk.credit(number))


def can_credit_at_the_same_moment(dsn: str) -> bool:
    """One has credited it and not committed yet; another credits it as well."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as first,
        connect(dsn, roles.OWNER) as second,
        connect(dsn, roles.OWNER) as observer,
    ):
        account, token = _held(observer)
        with first.transaction():
            _note(first, account, token, "6")
            answer = threads.start(
                by_hand.succeeds,
                second,
                lambda: _note(second, account, token, "6"),
            )
            while not (answer.done() or is_blocked(observer, second)):
                pass
        return bool(wait_for(answer))


def can_overtake_a_worker_before_its_commit(dsn: str) -> bool:
    """A worker whose lease has expired has written; a clerk corrects meanwhile."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as worker,
        connect(dsn, roles.OWNER) as clerks,
        connect(dsn, roles.OWNER) as observer,
    ):
        account = Shop.open(observer).account(observer)
        bill_all(observer, account)
        clerk = Clerk(clerks, account)
        number = clerk.number(FIRST_DAY)
        held = Actor(worker, scope=_SCOPE).claim_one(account, ttl_seconds=EXPIRED)
        with worker.transaction():
            by_hand.period(worker, account, held.fencing_token, FIRST_DAY, FEBRUARY)
            answer = threads.start(clerk.credit, number, amount="1")
            while not (answer.done() or is_blocked(observer, clerks)):
                pass
            is_overtaken = answer.done()
        wait_for(answer)
        return is_overtaken


def test_no_more_is_credited_than_there_is(conn: Connection[Any]) -> None:
    assert not can_credit_too_much(conn)


def test_no_more_is_credited_of_a_line_than_it_has(conn: Connection[Any]) -> None:
    assert not can_credit_a_line_twice(conn)


def test_no_more_is_credited_at_the_same_moment(dsn: str) -> None:
    assert not can_credit_at_the_same_moment(dsn)


def test_a_worker_that_holds_the_account_goes_first(conn: Connection[Any]) -> None:
    assert not can_correct_what_a_worker_holds(conn)


def test_a_worker_that_has_written_is_not_overtaken(dsn: str) -> None:
    assert not can_overtake_a_worker_before_its_commit(dsn)


def test_all_of_it_can_be_credited(conn: Connection[Any]) -> None:
    account, token = _held(conn)

    for amount in ("6", "5.90"):
        _note(conn, account, token, amount)
    for amount in ("6", "4"):
        _line(conn, account, token, amount)


@pytest.mark.parametrize(
    ("amount", "columns", "told"),
    [
        ("11.91", {}, "11.91 would be credited of document"),
        ("0", {"prepaid_amount": Decimal(-1)}, "0 would be credited of document"),
    ],
)
def test_the_refusal_names_the_document(
    conn: Connection[Any], amount: str, columns: dict[str, object], told: str
) -> None:
    account, token = _held(conn)

    with pytest.raises(CorrectionError, match=told), db.refusals():
        _note(conn, account, token, amount, **columns)


def test_a_credit_note_is_not_credited(conn: Connection[Any]) -> None:
    account, token = _held(conn)
    note_id = _note(conn, account, token, "1")

    with pytest.raises(CorrectionError, match="credit_note"), db.refusals():
        _note(conn, account, token, "0", credited_invoice_id=note_id)


@pytest.mark.parametrize("line_no", [2, 99])
def test_only_a_line_that_is_there_is_credited(
    conn: Connection[Any], line_no: int
) -> None:
    account, token = _held(conn)

    with pytest.raises(CorrectionError, match="no such line"), db.refusals():
        _line(conn, account, token, "1", line_no=line_no)


def test_only_a_line_of_the_credited_invoice_is_credited(
    conn: Connection[Any],
) -> None:
    account, token = _held(conn)

    with pytest.raises(CorrectionError, match="of line 1"), db.refusals():
        _line(
            conn,
            account,
            token,
            "1",
            credited_invoice_id=None,
            reason=None,
            issued_by=None,
        )
