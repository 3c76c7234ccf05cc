"""A prepaid credit is spent once, whatever code applies it.

Kept by a trigger on what is applied, which refuses more than the credit has, and less
than nothing. It locks the credit, so that two who apply it at the same moment queue.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill import db, roles
from pgbill.errors import OverspentError
from pgbill.lease import Scope
from tests import by_hand
from tests.actors import (
    Actor,
    Threads,
    bill_all,
    connect,
    is_blocked,
    wait_for,
)
from tests.builders import Account
from tests.shop import Shop

_SCOPE = Scope(2, date(2026, 1, 31))


def _apply(
    conn: Connection[Any], account: Account, token: int, credit_id: int, amount: str
) -> None:
    """Write a credit note, and apply so much of a credit to it."""
    invoice_id = by_hand.invoice(conn, account, token)
    by_hand.application(conn, account, token, invoice_id, credit_id, amount=amount)


def _held(conn: Connection[Any], amount: str) -> tuple[Account, int, int]:
    """Return an account with a credit, the token of its lease, and the credit."""
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    credit_id = by_hand.credit(conn, account, amount)
    token = Actor(conn, scope=_SCOPE).claim_one(account).fencing_token
    return account, token, credit_id


def can_spend_a_credit_twice(conn: Connection[Any]) -> bool:
    account, token, credit_id = _held(conn, "10")
    _apply(conn, account, token, credit_id, "6")
    return by_hand.succeeds(
        conn, lambda: _apply(conn, account, token, credit_id, "4.01")
    )


def can_spend_a_credit_at_the_same_moment(dsn: str) -> bool:
    """One applies it and has not committed yet; another applies it as well."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as first,
        connect(dsn, roles.OWNER) as second,
        connect(dsn, roles.OWNER) as observer,
    ):
        account, token, credit_id = _held(observer, "10")
        with first.transaction():
            _apply(first, account, token, credit_id, "6")
            answer = threads.start(
                by_hand.succeeds,
                second,
                lambda: _apply(second, account, token, credit_id, "6"),
            )
            while not (answer.done() or is_blocked(observer, second)):
                pass
        return bool(wait_for(answer))


def test_a_credit_is_not_spent_twice(conn: Connection[Any]) -> None:
    assert not can_spend_a_credit_twice(conn)


def test_a_credit_is_not_spent_twice_at_the_same_moment(dsn: str) -> None:
    assert not can_spend_a_credit_at_the_same_moment(dsn)


def test_all_of_it_can_be_spent_and_given_back(conn: Connection[Any]) -> None:
    account, token, credit_id = _held(conn, "10")

    for amount in ("6", "4", "-10", "10"):
        _apply(conn, account, token, credit_id, amount)


@pytest.mark.parametrize(
    ("before", "amount", "told"),
    [
        ("6", "4.01", "10.01 would be taken from prepaid credit pack, which has 10"),
        ("6", "-6.01", "-0.01 would be taken from prepaid credit pack, which has 10"),
    ],
)
def test_the_refusal_names_the_credit(
    conn: Connection[Any], before: str, amount: str, told: str
) -> None:
    account, token, credit_id = _held(conn, "10")
    _apply(conn, account, token, credit_id, before)

    with pytest.raises(OverspentError) as raised, db.refusals():
        _apply(conn, account, token, credit_id, amount)

    assert raised.value.message == f"account {account.account_id}: {told}"
