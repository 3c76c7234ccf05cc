"""A price may have amounts for values of a dimension, and an end to its tiers.

There is a line for each value that the usage of a period has. Values without amounts of
their own, and records that say nothing, are billed at those of all others, if there are
any. What cannot be priced fails its account, with the reason, and bills nothing.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.builders import Tier
from tests.ledger import Ledger
from tests.shop import FEBRUARY, MARCH, books

pytestmark = pytest.mark.one_server

_BEGIN = date(2020, 1, 1)
_JANUARY_31, _FEBRUARY_28 = date(2026, 1, 31), date(2026, 2, 28)
_JANUARY = "2026-01-01..2026-01-31"
_TWO_TIERS: list[Tier] = [("10", "2"), (None, "1")]


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    builders.tax_rate(audited)
    return Ledger(audited)


def by_region(ledger: Ledger, *, tiers: list[Tier], **groups: list[Tier]) -> int:
    """Subscribe to a price by region, whose tiers for all others may be missing."""
    meter_id = builders.meter(ledger.conn)
    price = ledger.price(
        key="traffic",
        meter_id=meter_id,
        group_by="region",
        model="graduated",
        tiers=tiers,
        line_texts={"en": "Traffic"},
    )
    for value, own in groups.items():
        builders.add_tiers(ledger.conn, price.price_id, _BEGIN, own, value)
    ledger.subscribe(price)
    return meter_id


def use(ledger: Ledger, meter_id: int, **quantities: str) -> None:
    """Import usage of regions; `nowhere` is said of records without one."""
    for region, quantity in quantities.items():
        dimensions = None if region == "nowhere" else {"region": region}
        ledger.use(meter_id, quantity, dimensions=dimensions)


def test_each_value_has_its_amounts_or_those_of_all_others(ledger: Ledger) -> None:
    """In eu 10 at 2.00 and 5 at 1.00; in us 5.00 each; elsewhere 3.00 each."""
    meter_id = by_region(ledger, tiers=[(None, "3")], eu=_TWO_TIERS, us=[(None, "5")])
    use(ledger, meter_id, eu="15", us="4", ap="2", sa="1")

    ledger.bill(_JANUARY_31)

    assert ledger.entries(FEBRUARY) == [
        f"usage {_JANUARY} [ap]: 2 = 6.00",
        f"usage {_JANUARY} [eu]: 15 = 25.00",
        f"usage {_JANUARY} [sa]: 1 = 3.00",
        f"usage {_JANUARY} [us]: 4 = 20.00",
    ]
    assert ledger.states() == [f"{each}: billed" for each in ("15", "4", "2", "1")]


def test_each_value_begins_at_the_first_tier(ledger: Ledger) -> None:
    """12 in each of two regions: 10 at 2.00 and 2 at 1.00, twice."""
    meter_id = by_region(ledger, tiers=_TWO_TIERS)
    use(ledger, meter_id, eu="12", us="12")

    ledger.bill(_JANUARY_31)

    assert ledger.entries(FEBRUARY) == [
        f"usage {_JANUARY} [eu]: 12 = 22.00",
        f"usage {_JANUARY} [us]: 12 = 22.00",
    ]


def test_a_record_that_says_nothing_has_a_line_of_its_own(ledger: Ledger) -> None:
    """It is billed once, beside those that say something, in time and late."""
    meter_id = by_region(ledger, tiers=[(None, "3")], eu=[(None, "2")])
    use(ledger, meter_id, eu="4", nowhere="5")
    ledger.bill(_JANUARY_31)

    use(ledger, meter_id, nowhere="1")
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(FEBRUARY) == [
        f"usage {_JANUARY} [eu]: 4 = 8.00",
        f"usage {_JANUARY}: 5 = 15.00",
    ]
    assert ledger.entries(MARCH) == [f"late_usage {_JANUARY}: 1 = 3.00"]
    assert ledger.states() == ["4: billed", "5: billed", "1: billed"]


def test_a_line_is_named_after_its_value(ledger: Ledger) -> None:
    meter_id = by_region(ledger, tiers=[(None, "3")])
    use(ledger, meter_id, eu="4", nowhere="5")

    ledger.bill(_JANUARY_31)

    rows = ledger.conn.execute(
        "SELECT description, group_value FROM pgbill.invoice_line ORDER BY line_no"
    )
    assert rows.fetchall() == [("Traffic: eu", "eu"), ("Traffic", None)]


def test_a_minimum_without_usage_has_no_group(ledger: Ledger) -> None:
    meter_id = builders.meter(ledger.conn)
    ledger.subscribe(
        ledger.price(meter_id=meter_id, group_by="region", terms={"minimum_amount": 20})
    )

    ledger.bill(_JANUARY_31)

    assert ledger.entries(FEBRUARY) == [f"minimum {_JANUARY}: 1 = 20.00"]


def test_a_flat_amount_is_billed_for_each_value_that_is_there(ledger: Ledger) -> None:
    """5.00 for each region in use, and 1.00 for each unit."""
    meter_id = by_region(ledger, tiers=[(None, "1", "5")])
    use(ledger, meter_id, eu="3", us="1")

    ledger.bill(_JANUARY_31)

    assert [line.split(" = ")[1] for line in ledger.entries(FEBRUARY)] == [
        "8.00",
        "6.00",
    ]


def failed(ledger: Ledger) -> str | None:
    """Bill January in vain: nothing of the account is written."""
    before = books(ledger.conn, ledger.account).periods
    assert ledger.bill(_JANUARY_31)[-1] == "failed"
    after = books(ledger.conn, ledger.account)
    assert len(after.periods) <= len(before) + 1
    assert FEBRUARY not in after.periods
    return ledger.problem()


def test_a_value_without_an_amount_fails_the_account(ledger: Ledger) -> None:
    meter_id = by_region(ledger, tiers=[], eu=[(None, "2")])
    use(ledger, meter_id, eu="4", us="1")

    assert failed(ledger) == "price traffic has no amount on 2026-01-01 for us"


def test_a_record_that_says_nothing_fails_it_too(ledger: Ledger) -> None:
    meter_id = by_region(ledger, tiers=[], eu=[(None, "2")])
    use(ledger, meter_id, nowhere="1")

    assert failed(ledger) == "price traffic has no amount on 2026-01-01"


@pytest.mark.parametrize(
    ("model", "used", "beyond"),
    [
        ("graduated", "10", None),
        ("graduated", "10.5", "10.5"),
        ("volume", "11", "11"),
        ("stairstep", "10.0000001", "10.0000001"),
        ("graduated_percentage", "12.50", "12.5"),
    ],
)  # fmt: skip
def test_a_closed_last_tier_is_a_limit(
    ledger: Ledger, model: str, used: str, beyond: str | None
) -> None:
    """To the last digit: what it holds is billed, what is beyond it is not."""
    meter_id = builders.meter(ledger.conn)
    tiers: list[Tier] = [("5", "2"), ("10", "1")]
    ledger.subscribe(
        ledger.price(key="traffic", meter_id=meter_id, model=model, tiers=tiers)
    )
    ledger.use(meter_id, used)

    assert ledger.bill(_JANUARY_31)[-1] == ("failed" if beyond else "invoiced")
    assert ledger.problem() == (
        beyond and f"price traffic: {beyond} is more than its last tier holds (10)"
    )


def test_late_usage_beyond_the_last_tier_fails_the_account(ledger: Ledger) -> None:
    """8 were billed; 3 more of the same period are beyond 10."""
    tiers: list[Tier] = [("10", "1")]
    meter_id = ledger.metered(model="graduated", tiers=tiers, key="traffic")
    ledger.use(meter_id, "8")
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "3", on=date(2026, 1, 20))

    assert ledger.bill(_FEBRUARY_28) == ["failed"]
    assert ledger.problem() == (
        "price traffic: 11 is more than its last tier holds (10)"
    )
    assert ledger.states() == [
        "8: billed",
        "3: waiting, late, the next closing takes it",
    ]


def test_seats_beyond_the_last_tier_fail_the_account(ledger: Ledger) -> None:
    tiers: list[Tier] = [("10", "1")]
    ledger.subscribe((ledger.price(key="seats", model="volume", tiers=tiers), "11"))

    assert ledger.bill() == ["failed"]
    assert ledger.problem() == "price seats: 11 is more than its last tier holds (10)"


def test_usage_before_the_first_version_fails_the_account(ledger: Ledger) -> None:
    meter_id = ledger.metered(key="later", begins_on=FEBRUARY)
    ledger.use(meter_id, "1")

    assert failed(ledger) == "price later has no amount on 2026-01-01"


def test_a_charge_without_a_tax_rate_fails_the_account(ledger: Ledger) -> None:
    builders.charge(ledger.conn, ledger.account, tax_class="books")

    assert failed(ledger) == (
        "no tax rate for seller country DE, buyer country DE, business, class books"
        " on 2026-01-10"
    )


def test_an_account_that_failed_is_billed_once_it_is_mended(ledger: Ledger) -> None:
    """The same day, the same records, each once."""
    builders.charge(ledger.conn, ledger.account, tax_class="books")
    meter_id = ledger.metered()
    ledger.use(meter_id, "4")
    failed(ledger)

    builders.tax_rate(ledger.conn, rate="7", tax_class="books")

    assert ledger.bill(_FEBRUARY_28) == ["invoiced", "nothing_to_bill"]
    assert ledger.entries(FEBRUARY) == [
        f"usage {_JANUARY}: 4 = 4.00",
        "charge 2026-01-10..2026-01-10: 1 = 100.00",
    ]
