"""Two accounts that buy all that a seller may offer, and whom it treats by its policy.

`varied` has seats that change, usage by region in tiers with a minimum, a discount, a
charge, prepaid credit; late usage and a correction; a first month that waits, and a
month below zero, which is a credit note. `frugal` has a month of zero, which is
skipped, and then one that waits for an invoice. All of it is in order.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from psycopg import Connection

from tests import builders
from tests.actors import bill_all
from tests.builders import Account, Price

_FIRST_DAY, _JANUARY_31, _FEBRUARY_28 = (
    date(2026, 1, 1), date(2026, 1, 31), date(2026, 2, 28)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Varied:
    """What refers to the two accounts."""

    varied: Account
    frugal: Account


def build(conn: Connection[Any]) -> Varied:
    """Let everything happen up to 1 March. The caller owns the transaction."""
    policy_id = builders.policy(
        conn,
        zero_invoice="skip",
        negative_total="credit_note",
        minimum_invoice={"EUR": "50"},
    )
    seller_id = builders.seller(conn, policy_id=policy_id)
    # Its numbers are told apart from those of other sellers.
    conn.execute(
        "UPDATE pgbill.number_series SET prefix = 'V-' || prefix WHERE seller_id = %s",
        [seller_id],
    )
    both = Varied(
        builders.account(conn, seller_id, key="varied"),
        builders.account(conn, seller_id, key="frugal"),
    )
    _buy_everything(conn, both.varied)
    _buy_little(conn, both.frugal)
    return both


def _buy_everything(conn: Connection[Any], account: Account) -> None:
    meter_id = builders.meter(conn)
    seats = builders.price(conn, account.seller_id, amount="30")
    traffic = builders.price(
        conn,
        account.seller_id,
        meter_id=meter_id,
        model="graduated",
        group_by="region",
        tiers=[("10", "2"), (None, "1.5")],
        terms={"minimum_amount": 40},
    )
    subscription_id = builders.subscription(conn, account, seats, traffic)
    builders.discount(conn, account, percent="10", price_id=seats.price_id)
    builders.charge(conn, account)
    builders.prepaid_credit(conn, account, "20.00")
    bill_all(conn, account, through_on=_FIRST_DAY)

    for region, quantity in (("eu", "12"), ("us", "3"), (None, "1")):
        _use(conn, account, meter_id, quantity, region, key=f"january-{region}")
    bill_all(conn, account, through_on=_JANUARY_31)

    _use(conn, account, meter_id, "4", "eu")
    _use(conn, account, meter_id, "-2", "us", corrects="january-us")
    _double(conn, account, subscription_id, seats)
    credit = Decimal(-500)
    builders.charge(
        conn, account, unit_amount=credit, service_on=date(2026, 2, 10), key="credit"
    )
    bill_all(conn, account, through_on=_FEBRUARY_28)
    _use(conn, account, meter_id, "1", "ap")


def _double(
    conn: Connection[Any], account: Account, subscription_id: int, seats: Price
) -> None:
    changed_on = date(2026, 2, 11)
    builders.end_segment(conn, account, subscription_id, seats, changed_on)
    builders.segment(
        conn, account, subscription_id, seats, quantity="2", starts_on=changed_on
    )


def _buy_little(conn: Connection[Any], account: Account) -> None:
    meter_id = builders.meter(conn)
    prices = (
        builders.price(conn, account.seller_id, amount="0"),
        builders.price(conn, account.seller_id, amount="1", meter_id=meter_id),
    )
    builders.subscription(conn, account, *prices)
    bill_all(conn, account, through_on=_FIRST_DAY)
    _use(conn, account, meter_id, "5", None)
    bill_all(conn, account, through_on=_JANUARY_31)


def _use(
    conn: Connection[Any],
    account: Account,
    meter_id: int,
    quantity: str,
    region: str | None,
    **columns: Any,  # noqa: ANN401
) -> None:
    builders.usage(
        conn,
        account,
        meter_id,
        quantity,
        occurred_at=datetime(2026, 1, 15, tzinfo=UTC),
        dimensions={"region": region} if region else None,
        **columns,
    )
