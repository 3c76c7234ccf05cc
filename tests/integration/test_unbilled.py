"""What is earned by the end of a day, in figures that can be computed by hand."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection

from pgbill import db, roles, unbilled
from pgbill.errors import UsageError
from tests import builders
from tests.actors import bill_all
from tests.builders import Account, Price
from tests.integration.test_closed_month import dated
from tests.payers import credit
from tests.shop import run_sql

pytestmark = pytest.mark.one_server

FIRST, MIDDLE = date(2026, 1, 1), date(2026, 1, 15)
LAST, FEBRUARY = date(2026, 1, 31), date(2026, 2, 1)


class Books:
    """A seller, one account, and the accruals of a day."""

    def __init__(self, conn: Connection[Any]) -> None:
        """Open an account; nothing is closed yet."""
        self.conn = conn
        self.seller_id = builders.seller(conn, key="north")
        builders.tax_rate(conn)
        self.account: Account = builders.account(conn, self.seller_id, key="a-1")

    def price(self, amount: str, account: str = "4400", **columns: Any) -> Price:  # noqa: ANN401
        """Add a price with a revenue account."""
        columns.setdefault("timing", "arrears")
        return builders.price(
            self.conn,
            self.seller_id,
            amount=amount,
            revenue_account=account,
            **columns,
        )

    def subscribe(self, *prices: Price, **dates: Any) -> int:  # noqa: ANN401
        """Subscribe the account."""
        return builders.subscription(self.conn, self.account, *prices, **dates)

    def bill(self, through: date, issue_on: date) -> None:
        """Close what has ended by a day, with invoices of a date."""
        bill_all(self.conn, self.account, through_on=through, policy=dated(issue_on))

    def told(self, as_of: date) -> list[str]:
        """Return each row: revenue account, accrued, deferred."""
        rows = self.conn.execute(
            "SELECT revenue_account, currency, sum(accrued_amount),"
            " sum(deferred_amount) FROM pgbill.unbilled_at(%s) WHERE problem IS NULL"
            " GROUP BY revenue_account, currency"
            " HAVING sum(accrued_amount) <> 0 OR sum(deferred_amount) <> 0"
            " ORDER BY revenue_account",
            [as_of],
        )
        return [
            f"{name} {currency} {_plain(accrued)} {_plain(deferred)}"
            for name, currency, accrued, deferred in rows
        ]


def _plain(amount: Decimal) -> str:
    return f"{amount:.2f}"


@pytest.fixture
def books(conn: Connection[Any]) -> Books:
    return Books(conn)


def test_the_figures_of_the_documentation(conn: Connection[Any], books: Books) -> None:
    """In the middle of January, 15 of 31 days are earned."""
    meter = builders.meter(conn)
    books.subscribe(
        books.price("31", "4400"),
        books.price("62", "4401", timing="advance"),
        books.price("0.50", "4402", meter_id=meter),
    )
    early, late = datetime(2026, 1, 10, tzinfo=UTC), datetime(2026, 1, 20, tzinfo=UTC)
    builders.usage(conn, books.account, meter, "100", occurred_at=early)
    builders.usage(conn, books.account, meter, "7", occurred_at=late)
    books.bill(FIRST, FIRST)

    assert books.told(MIDDLE) == [
        "4400 EUR 15.00 0.00",
        "4401 EUR 0.00 32.00",
        "4402 EUR 50.00 0.00",
    ]
    assert books.told(LAST) == ["4400 EUR 31.00 0.00", "4402 EUR 53.50 0.00"]


def test_the_end_of_a_month_is_the_same_after_its_run(books: Books) -> None:
    books.subscribe(
        books.price("31", "4400"), books.price("62", "4401", timing="advance")
    )
    books.bill(FIRST, FIRST)
    before = books.told(LAST)

    books.bill(LAST, FEBRUARY)

    assert books.told(LAST) == before == ["4400 EUR 31.00 0.00"]
    assert books.told(FEBRUARY) == ["4400 EUR 1.11 0.00", "4401 EUR 0.00 59.79"]


def test_several_periods_may_be_open(books: Books) -> None:
    """What was never billed is earned from the first day on, fees in advance too."""
    books.subscribe(
        books.price("31", "4400"), books.price("62", "4401", timing="advance")
    )

    assert books.told(date(2026, 2, 14)) == [
        "4400 EUR 46.50 0.00",
        "4401 EUR 93.00 0.00",
    ]
    assert books.told(date(2025, 12, 31)) == []


def test_a_fee_that_begins_in_the_period_is_earned(books: Books) -> None:
    books.bill(FIRST, FIRST)
    books.subscribe(books.price("31", timing="advance"), starts_on=date(2026, 1, 11))

    assert books.told(MIDDLE) == ["4400 EUR 5.00 0.00"]


def test_what_is_given_back_lowers_both(books: Books) -> None:
    """A year's fee that ends: days up to now are a credit, the rest was deferred."""
    yearly = books.price("365", timing="advance", billing_interval="yearly")
    subscription_id = books.subscribe(yearly)
    books.bill(FIRST, FIRST)
    before = books.told(MIDDLE)

    builders.end_segment(
        books.conn, books.account, subscription_id, yearly, date(2026, 1, 11)
    )

    assert before == ["4400 EUR 0.00 350.00"]
    assert books.told(MIDDLE) == ["4400 EUR -5.00 0.00"]


def test_a_longer_period_in_arrears_is_earned_by_days(books: Books) -> None:
    books.subscribe(books.price("365", billing_interval="yearly"))
    books.bill(LAST, FEBRUARY)

    assert books.told(MIDDLE) == ["4400 EUR 15.00 0.00"]
    assert books.told(date(2026, 3, 1)) == ["4400 EUR 60.00 0.00"]


def test_a_charge_is_earned_on_its_day(conn: Connection[Any], books: Books) -> None:
    builders.charge(
        conn, books.account, service_on=date(2026, 1, 10), revenue_account="4500"
    )

    assert books.told(date(2026, 1, 9)) == []
    assert books.told(date(2026, 1, 10)) == ["4500 EUR 100.00 0.00"]
    books.bill(LAST, FEBRUARY)
    assert books.told(date(2026, 1, 10)) == ["4500 EUR 100.00 0.00"]
    assert books.told(FEBRUARY) == []


def test_a_credit_note_takes_back_what_was_deferred(
    conn: Connection[Any], books: Books
) -> None:
    """It is dated today; what it takes back of days to come is not deferred."""
    books.subscribe(books.price("365", timing="advance", billing_interval="yearly"))
    books.bill(FIRST, FIRST)
    far = date(2026, 12, 30)

    assert books.told(far) == ["4400 EUR 0.00 1.00"]
    credit(conn, "NL-000001")
    assert books.told(far) == []


def test_a_line_and_its_credits_are_rounded_as_one(
    conn: Connection[Any], books: Books
) -> None:
    """99.98 x 17/31 is 54.83; in eleven parts, each rounded, it would be 54.78."""
    books.subscribe(books.price("99.98", timing="advance"))
    books.bill(FIRST, FIRST)
    for _ in range(10):
        credit(conn, "NL-000001", "10.82")
    credit(conn, "NL-000001")

    assert books.told(date(2026, 1, 17)) == ["4400 EUR -54.83 45.15"]


def test_a_day_to_come_is_refused(conn: Connection[Any]) -> None:
    with pytest.raises(UsageError, match="9999-01-01 is still to come"):
        unbilled.report(conn, date(9999, 1, 1))


def test_late_usage_is_earned(conn: Connection[Any], books: Books) -> None:
    meter = builders.meter(conn)
    books.subscribe(books.price("0.50", meter_id=meter))
    books.bill(LAST, FEBRUARY)
    late = datetime(2026, 1, 10, tzinfo=UTC)
    builders.usage(conn, books.account, meter, "10", occurred_at=late)

    assert books.told(LAST) == ["4400 EUR 5.00 0.00"]
    assert books.told(FEBRUARY) == ["4400 EUR 5.00 0.00"]


def test_discounts_and_tax_are_not_revenue(conn: Connection[Any], books: Books) -> None:
    builders.discount(conn, books.account, percent="10")
    books.subscribe(books.price("119", tax_included=True))
    books.bill(FIRST, FIRST)

    assert books.told(LAST) == ["4400 EUR 90.00 0.00"]


def test_lines_that_are_carried_forward_wait(conn: Connection[Any]) -> None:
    books = Books(conn)
    policy_id = builders.policy(conn, minimum_invoice={"EUR": "50"})
    run_sql(conn, "UPDATE pgbill.seller SET policy_id = %s", policy_id)
    books.subscribe(books.price("10"))
    books.bill(LAST, FEBRUARY)

    assert books.told(LAST) == ["4400 EUR 10.00 0.00"]
    assert books.told(FEBRUARY) == ["4400 EUR 10.36 0.00"]


def test_an_account_that_cannot_be_rated_is_named(
    conn: Connection[Any], books: Books
) -> None:
    books.subscribe(books.price("1", begins_on=date(2030, 1, 1)))

    problems = conn.execute(
        "SELECT problem FROM pgbill.unbilled_at(%s) WHERE problem IS NOT NULL", [MIDDLE]
    ).fetchall()

    ((problem,),) = problems
    assert "has no amount on 2026-01-01" in problem


def test_a_worker_may_ask(conn: Connection[Any], books: Books) -> None:
    books.subscribe(books.price("31"))
    db.set_role(conn, roles.WORKER)

    assert books.told(MIDDLE) == ["4400 EUR 15.00 0.00"]
