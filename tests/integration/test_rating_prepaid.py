"""Prepaid credit pays what is left to pay after tax, the oldest first, once.

It changes no tax and no total, and an invoice never takes more than there is, or less
than nothing. Two workers cannot spend it twice: what it pays is written under the same
fence as the invoice.
"""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection

from pgbill import roles
from pgbill.lease import Scope
from tests import builders
from tests.actors import EXPIRED, Actor, connect, expire, on_duty
from tests.builders import Account
from tests.ledger import Ledger
from tests.shop import FIRST_DAY, Shop, amount, findings, value, values

_JANUARY_31, _MARCH_31 = (
    date(2026, 1, 31), date(2026, 3, 31)
)  # fmt: skip


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    """Return the ledger of an account that pays 119.00 a month, with tax."""
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    ledger.subscribe(ledger.price("100"))
    return ledger


def credit(ledger: Ledger, key: str, amount_: str, **columns: Any) -> None:  # noqa: ANN401
    builders.prepaid_credit(ledger.conn, ledger.account, amount_, key=key, **columns)


def payable(ledger: Ledger) -> list[str]:
    return values(
        ledger.conn,
        "SELECT payable_amount::text FROM pgbill.invoice ORDER BY invoice_id",
    )


@pytest.mark.one_server
def test_it_pays_a_part_of_an_invoice_after_tax(ledger: Ledger) -> None:
    """19.00 are due on 100.00, whoever has paid 50.00 of it."""
    credit(ledger, "pack", "50.00")

    ledger.bill()

    assert ledger.totals(FIRST_DAY) == (
        amount("100.00"), amount("19.00"), amount("119.00")
    )  # fmt: skip
    assert ledger.prepaid() == ["119.00: 50.00 pack"]
    assert payable(ledger) == ["69.00"]


@pytest.mark.one_server
def test_the_oldest_is_used_first_over_several_invoices(ledger: Ledger) -> None:
    """119.00 a month, out of 310.00 in all: 47.00 of the third are left to pay."""
    credit(ledger, "third", "60.00", available_on=date(2026, 1, 3))
    credit(ledger, "first", "100.00")
    credit(ledger, "second", "150.00", available_on=date(2026, 1, 2))

    ledger.bill(_MARCH_31)

    assert ledger.prepaid() == [
        "119.00: 100.00 first, 19.00 second",
        "119.00: 119.00 second",
        "119.00: 12.00 second, 60.00 third",
        "119.00: nothing",
    ]
    assert payable(ledger) == ["0.00", "0.00", "47.00", "119.00"]


@pytest.mark.one_server
def test_of_two_of_the_same_day_the_one_that_came_first_is_older(
    ledger: Ledger,
) -> None:
    credit(ledger, "b", "100.00")
    credit(ledger, "a", "100.00")

    ledger.bill()

    assert ledger.prepaid() == ["119.00: 100.00 b, 19.00 a"]


@pytest.mark.one_server
def test_it_pays_invoices_that_are_dated_from_its_day_on(ledger: Ledger) -> None:
    """By the date of the invoice, not by what is billed with it."""
    credit(ledger, "pack", "200.00", available_on=date(2026, 2, 2))

    ledger.bill(FIRST_DAY, issue_on=date(2026, 2, 1))
    ledger.bill(_JANUARY_31, issue_on=date(2026, 2, 2))

    assert ledger.prepaid() == ["119.00: nothing", "119.00: 119.00 pack"]


@pytest.mark.one_server
def test_there_is_nothing_to_pay_of_less_than_nothing(
    audited: Connection[Any],
) -> None:
    """Not of a credit note, nor of an invoice of zero."""
    builders.tax_rate(audited)
    ledger = Ledger(audited, policy={"negative_total": "credit_note"})
    credit(ledger, "pack", "200.00")
    ledger.subscribe(ledger.price("0"))
    builders.charge(audited, ledger.account, unit_amount=Decimal(-10))

    ledger.bill(_JANUARY_31)

    assert ledger.prepaid() == ["0.00: nothing", "-11.90: nothing"]


@pytest.mark.one_server
def test_each_account_has_its_own(ledger: Ledger) -> None:
    other = builders.account(ledger.conn, ledger.seller_id)
    builders.prepaid_credit(ledger.conn, other, "100")

    ledger.bill()

    assert ledger.prepaid() == ["119.00: nothing"]


@pytest.mark.one_server
def test_it_has_the_digits_of_its_currency(audited: Connection[Any]) -> None:
    """1.000 and 19 % in KWD: the last fils is paid by the second."""
    builders.tax_rate(audited)
    ledger = Ledger(audited, currency="KWD")
    ledger.subscribe(ledger.price("1"))
    credit(ledger, "a", "1.189")
    credit(ledger, "b", "5.00")

    ledger.bill()

    assert ledger.prepaid() == ["1.190: 1.189 a, 0.001 b"]


def prepaid_account(conn: Connection[Any], amount_: str) -> Account:
    """Open an account of which each closing comes to 11.90."""
    account = Shop.open(conn).account(conn)
    builders.prepaid_credit(conn, account, amount_)
    return account


def test_a_worker_that_lost_its_lease_spends_nothing(dsn: str) -> None:
    """It rates and issues what another worker is billing: only that one's counts."""
    with (
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "sleeper") as sleeper,
        on_duty(dsn, "successor") as successor,
    ):
        account = prepaid_account(owner, "20")
        lost = sleeper.claim_one(account, ttl_seconds=EXPIRED)
        held = successor.claim_one(account)

        assert successor.outcomes(held) == ["invoiced"]
        assert sleeper.outcomes(lost) == []

        assert value(owner, "SELECT sum(amount) FROM pgbill.credit_application") == (
            amount("11.90")
        )
        assert findings(owner) == {}


def test_a_worker_that_wakes_up_between_two_closings_spends_nothing(dsn: str) -> None:
    """Its period is closed; the next one has what is left: 8.10 of 20.00."""
    with (
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "sleeper") as sleeper,
        on_duty(dsn, "successor") as successor,
    ):
        account = prepaid_account(owner, "20")
        lost = sleeper.claim_one(account)
        expire(owner, account)
        later = Actor(successor.conn, "successor", Scope(2, _JANUARY_31))
        for _ in range(2):
            assert later.outcomes(later.claim_one(account)) == ["invoiced"]

        assert sleeper.outcomes(lost) == []

        assert values(
            owner,
            "SELECT prepaid_amount FROM pgbill.invoice ORDER BY period_end",
        ) == [amount("11.90"), amount("8.10")]
        assert findings(owner) == {}
