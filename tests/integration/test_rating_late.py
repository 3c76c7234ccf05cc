"""Usage that is imported after its period was closed costs what it changes there.

Where amounts depend on each other (tiers, packages, a maximum, …) that is the
difference between what all of the period costs now and what was known before: it may
be nothing, or less than nothing. Each record is billed once, whatever it costs.
"""

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill.lease import Scope
from tests import builders
from tests.actors import Actor
from tests.builders import Tier
from tests.ledger import Ledger
from tests.shop import FEBRUARY, FIRST_DAY, MARCH

pytestmark = pytest.mark.one_server

APRIL = date(2026, 4, 1)
_JANUARY_31, _FEBRUARY_28, _MARCH_31 = (
    date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31)
)  # fmt: skip
_A_HUNDRED: list[Tier] = [("100", "1"), (None, "0.5")]
_BANDS: list[Tier] = [("10", "0", "20"), (None, "0", "50")]


@dataclass(frozen=True, slots=True)
class Story:
    """Usage of January in time and late, and what both are billed."""

    what: str
    in_time: str
    """Records of 15 January."""
    billed: str
    late: str
    """Records of 20 January; with an @ of the day that is named."""
    billed_late: str
    price: dict[str, Any] = field(default_factory=dict[str, Any])
    terms: dict[str, Any] = field(default_factory=dict[str, Any])
    meter: dict[str, Any] = field(default_factory=dict[str, Any])


STORIES = [
    Story("each unit is told alone", "100", "100 = 50.00", "7", "7 = 3.50",
          price={"unit_amount": "0.5"}),
    Story("a price for a thousand", "1500", "1500 = 3.00", "250", "250 = 0.50",
          price={"unit_amount": "2"}, terms={"per_quantity": 1000}),
    # 130 cost 100 + 15; 80 cost 80.
    Story("the next tier is reached", "80", "80 = 80.00", "50", "50 = 35.00",
          price={"model": "graduated", "tiers": _A_HUNDRED}),
    # 120 cost 60; 80 cost 80.
    Story("all of it gets cheaper", "80", "80 = 80.00", "40", "40 = -20.00",
          price={"model": "volume", "tiers": _A_HUNDRED}),
    # 16 are two packages of 10, as 11 are; 21 are three.
    Story("the package has room", "11", "11 = 10.00", "5", "5 = 0.00",
          price={"model": "package", "unit_amount": "5"}, terms={"package_size": 10}),
    Story("a package more", "11", "11 = 10.00", "10", "10 = 5.00",
          price={"model": "package", "unit_amount": "5"}, terms={"package_size": 10}),
    # 11 less 6 free are one package, 17 less 6 are two.
    Story("a package after free units", "11", "11 = 5.00", "6", "6 = 5.00",
          price={"model": "package", "unit_amount": "5"},
          terms={"package_size": 10, "free_quantity": 6}),
    Story("free units are used up", "8", "8 = 0.00", "5", "5 = 3.00",
          terms={"free_quantity": 10}),
    Story("the next band", "8", "8 = 20.00", "5", "5 = 30.00",
          price={"model": "stairstep", "tiers": _BANDS}),
    Story("the next band on top", "8", "8 = 20.00", "5", "5 = 50.00",
          price={"model": "stairstep_cumulative", "tiers": _BANDS}),
    # 30.00 include 100; 10 more cost 0.5 each.
    Story("more than is included", "90", "90 = 30.00", "20", "20 = 5.00",
          price={"model": "capacity", "tiers": [("100", "0", "30"), (None, "0.5")]},
          terms={"bills_zero": True}),
    # Two are free: 1 % of 300 and 0.10; then 1 % of 50 and 0.10.
    Story("a record after the free ones", "100 200 300", "600 = 3.10",
          "50", "50 = 0.60",
          price={"model": "percentage", "unit_amount": "0.01"},
          terms={"free_count": 2, "fixed_amount": 0.1}),
    # 50 and 100 are free now; 1 % of 200 and 300, and 0.20, are 5.20.
    Story("a record before the free ones", "100 200 300", "600 = 3.10",
          "50@10", "50 = 2.10",
          price={"model": "percentage", "unit_amount": "0.01"},
          terms={"free_count": 2, "fixed_amount": 0.1}),
    # At least 0.50, at most 2.00: 0.50 + 1.00 + 2.00, and then 2.00 once more.
    Story("records within limits", "10 100 900", "1010 = 3.50", "400", "400 = 2.00",
          price={"model": "percentage", "unit_amount": "0.01"},
          terms={"record_minimum": 0.5, "record_maximum": 2}),
    # 1200 cost 20 + 2; 800 cost 16.
    Story("a smaller percentage", "800", "800 = 16.00", "400", "400 = 6.00",
          price={"model": "graduated_percentage",
                 "tiers": [("1000", "0.02"), (None, "0.01")]}),
    Story("a higher maximum", "5 3", "5 = 10.00", "8", "3 = 6.00",
          price={"unit_amount": "2"}, meter={"aggregation": "maximum"}),
    Story("no higher maximum", "5 3", "5 = 10.00", "4", "0 = 0.00",
          price={"unit_amount": "2"}, meter={"aggregation": "maximum"}),
    Story("records are counted", "9 9 9", "3 = 6.00", "9 9", "2 = 4.00",
          price={"unit_amount": "2"}, meter={"aggregation": "count"}),
    Story("a newer last one", "5 3", "3 = 6.00", "7", "4 = 8.00",
          price={"unit_amount": "2"}, meter={"aggregation": "last"}),
    Story("an older one than the last", "5 3", "3 = 6.00", "7@10", "0 = 0.00",
          price={"unit_amount": "2"}, meter={"aggregation": "last"}),
    # 31 from noon (UTC) of the 15th on are 16 days and 11 hours of 31 days: 16.4583.
    # From noon of the 20th on they are gone: 11 days and 11 hours less, 11.4583.
    Story("a level that falls", "31", "16.4583 = 16.46", "-31", "-11.4583 = -11.46",
          meter={"aggregation": "time_weighted", "quantity_digits": 4}),
    # 1.2 are rounded up to 2; so are 1.5.
    Story("a quantity that is rounded", "1.2", "2 = 10.00", "0.3", "0 = 0.00",
          price={"unit_amount": "5"},
          meter={"quantity_digits": 0, "quantity_rounding": "up"}),
    # 50.00 are the least: 20.00 were added to 30, which are missing no longer.
    Story("within the minimum", "30", "30 = 30.00; minimum 1 = 20.00",
          "10", "10 = 10.00 - 10.00 minimum = 0.00", terms={"minimum_amount": 50}),
    Story("beyond the minimum", "30", "30 = 30.00; minimum 1 = 20.00",
          "30", "30 = 30.00 - 20.00 minimum = 10.00", terms={"minimum_amount": 50}),
    Story("the first of a minimum", "", "minimum 1 = 50.00",
          "60", "60 = 60.00 - 50.00 minimum = 10.00", terms={"minimum_amount": 50}),
    Story("up to the maximum", "40", "40 = 40.00",
          "30", "30 = 30.00 - 20.00 maximum = 10.00", terms={"maximum_amount": 50}),
    Story("beyond the maximum", "60", "60 = 60.00 - 10.00 maximum = 50.00",
          "5", "5 = 5.00 - 5.00 maximum = 0.00", terms={"maximum_amount": 50}),
    # 80 and 200 cost 80.00 and 150.00; 140.00 are the most.
    Story("tiers within a maximum", "80", "80 = 80.00",
          "120", "120 = 70.00 - 10.00 maximum = 60.00",
          price={"model": "graduated", "tiers": _A_HUNDRED},
          terms={"maximum_amount": 140}),
]  # fmt: skip


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    """Return the ledger of an account to which totals below zero are told."""
    builders.tax_rate(audited)
    return Ledger(audited, policy={"negative_total": "credit_note"})


def import_all(ledger: Ledger, meter_id: int, records: str, day: int) -> None:
    for record in records.split():
        quantity, _, own_day = record.partition("@")
        ledger.use(meter_id, quantity, on=date(2026, 1, int(own_day or day)))
        day += 1


def told(lines: list[str]) -> str:
    """Leave out what is the same everywhere: the kind of usage, and January."""
    for word in ("late_usage ", "usage ", "2026-01-01..2026-01-31: "):
        lines = [line.replace(word, "") for line in lines]
    return "; ".join(lines)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.what)
def test_late_usage_costs_what_it_changes(ledger: Ledger, story: Story) -> None:
    meter_id = ledger.metered(meter=story.meter, terms=story.terms, **story.price)
    import_all(ledger, meter_id, story.in_time, day=15)
    ledger.bill(_JANUARY_31)

    import_all(ledger, meter_id, story.late, day=20)
    ledger.bill(_MARCH_31)

    assert told(ledger.entries(FEBRUARY)) == story.billed
    late = [line for line in ledger.entries(MARCH) if line.startswith("late_usage")]
    assert told(late) == story.billed_late
    assert not [line for line in ledger.entries(APRIL) if "late_usage" in line]
    assert all(": billed" in state for state in ledger.states())


def test_each_late_import_is_compared_with_the_one_before(ledger: Ledger) -> None:
    """January has 80, 130 and 150 units: 80.00, then 115.00, then 125.00."""
    meter_id = ledger.metered(model="graduated", tiers=_A_HUNDRED)
    for records, through_on in (
        ("80", _JANUARY_31), ("50", _FEBRUARY_28), ("20", _MARCH_31)
    ):  # fmt: skip
        import_all(ledger, meter_id, records, day=15)
        ledger.bill(through_on)

    assert ledger.entries(MARCH) == ["late_usage 2026-01-01..2026-01-31: 50 = 35.00"]
    assert ledger.entries(APRIL) == ["late_usage 2026-01-01..2026-01-31: 20 = 10.00"]


def test_late_usage_of_two_periods_has_a_line_for_each(ledger: Ledger) -> None:
    """120 in January are 110.00; 120 in February too; 10 units in March."""
    meter_id = ledger.metered(model="graduated", tiers=_A_HUNDRED)
    for month in (1, 2):
        ledger.use(meter_id, "90", on=date(2026, month, 5))
    ledger.bill(_FEBRUARY_28)

    for month, quantity in ((1, "30"), (2, "30"), (3, "10")):
        ledger.use(meter_id, quantity, on=date(2026, month, 20))
    ledger.bill(_MARCH_31)

    assert ledger.entries(APRIL) == [
        "usage 2026-03-01..2026-03-31: 10 = 10.00",
        "late_usage 2026-01-01..2026-01-31: 30 = 20.00",
        "late_usage 2026-02-01..2026-02-28: 30 = 20.00",
    ]


def test_different_values_are_counted_once_in_a_period(ledger: Ledger) -> None:
    """Two users were seen in January, and then a third, and one of them again."""
    meter_id = ledger.metered(
        "4", meter={"aggregation": "unique_count", "unique_dimension": "user"}
    )
    for user in ("ada", "bob", "ada"):
        ledger.use(meter_id, dimensions={"user": user})
    ledger.bill(_JANUARY_31)

    for user in ("ada", "eve"):
        ledger.use(meter_id, dimensions={"user": user})
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(FEBRUARY) == ["usage 2026-01-01..2026-01-31: 2 = 8.00"]
    assert ledger.entries(MARCH) == ["late_usage 2026-01-01..2026-01-31: 1 = 4.00"]
    assert ledger.states() == ["1: billed"] * 5


@pytest.mark.parametrize(
    ("price", "late"),
    [
        ({}, ["[ap]: 2 = 2.00", "[us]: 40 = 40.00"]),
        # In us 60 units cost 50 + 5, of which 20.00 were billed.
        (
            {"model": "graduated", "tiers": [("50", "1"), (None, "0.5")]},
            ["[ap]: 2 = 2.00", "[us]: 40 = 35.00"],
        ),
    ],
)
def test_each_group_is_compared_with_itself(
    ledger: Ledger, price: dict[str, Any], late: list[str]
) -> None:
    meter_id = ledger.metered(group_by="region", **price)
    for region, quantity in (("eu", "10"), ("us", "20")):
        ledger.use(meter_id, quantity, dimensions={"region": region})
    ledger.bill(_JANUARY_31)

    for region, quantity in (("us", "40"), ("ap", "2")):
        ledger.use(meter_id, quantity, dimensions={"region": region})
    ledger.bill(_FEBRUARY_28)

    assert told(ledger.entries(FEBRUARY)) == (
        "2026-01-01..2026-01-31 [eu]: 10 = 10.00;"
        " 2026-01-01..2026-01-31 [us]: 20 = 20.00"
    )
    assert ledger.entries(MARCH) == [
        f"late_usage 2026-01-01..2026-01-31 {each}" for each in late
    ]
    assert ledger.states() == [f"{each}: billed" for each in ("10", "20", "40", "2")]


def test_groups_share_a_minimum_with_what_is_late(ledger: Ledger) -> None:
    """10 in eu are less than 50.00: 40.00 are added. 60 in us make 70.00 of it.

    So 20.00 of the 60.00 are new. February has a minimum of its own.
    """
    meter_id = ledger.metered(group_by="region", terms={"minimum_amount": 50})
    ledger.use(meter_id, "10", dimensions={"region": "eu"})
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "60", dimensions={"region": "us"})
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(FEBRUARY) == [
        "usage 2026-01-01..2026-01-31 [eu]: 10 = 10.00",
        "minimum 2026-01-01..2026-01-31: 1 = 40.00",
    ]
    assert ledger.entries(MARCH) == [
        "late_usage 2026-01-01..2026-01-31 [us]: 60 = 60.00 - 40.00 minimum = 20.00",
        "minimum 2026-02-01..2026-02-28: 1 = 50.00",
    ]


def test_one_statement_bills_them_all(audited: Connection[Any]) -> None:
    """Accounts that have nothing in common get what each gets alone."""
    builders.tax_rate(audited)
    policy: dict[str, object] = {"negative_total": "credit_note"}
    ledgers = [Ledger(audited, policy=policy) for _ in STORIES]
    meters = [
        ledger.metered(meter=story.meter, terms=story.terms, **story.price)
        for ledger, story in zip(ledgers, STORIES, strict=True)
    ]
    for ledger, meter_id, story in zip(ledgers, meters, STORIES, strict=True):
        import_all(ledger, meter_id, story.in_time, day=15)
    bill_together(audited, ledgers, FIRST_DAY, _JANUARY_31)
    for ledger, meter_id, story in zip(ledgers, meters, STORIES, strict=True):
        import_all(ledger, meter_id, story.late, day=20)

    bill_together(audited, ledgers, _FEBRUARY_28)

    for ledger, story in zip(ledgers, STORIES, strict=True):
        late = [line for line in ledger.entries(MARCH) if line.startswith("late_")]
        assert (told(ledger.entries(FEBRUARY)), told(late)) == (
            story.billed,
            story.billed_late,
        )


def bill_together(conn: Connection[Any], ledgers: list[Ledger], *through: date) -> None:
    """Bill a period of each account after the other, all accounts at once."""
    for run_id, through_on in enumerate(through, start=1):
        clerk = Actor(conn, "clerk", Scope(run_id, through_on))
        leases = [clerk.claim_one(ledger.account) for ledger in ledgers]
        assert len(clerk.bill(*leases)) == len(ledgers)


def test_usage_that_is_late_for_who_has_left_is_billed(ledger: Ledger) -> None:
    """The subscription ended with 20 January; usage of the 21st has no price."""
    meter_id = builders.meter(ledger.conn)
    unit = ledger.price("1", meter_id=meter_id)
    ledger.subscribe(unit, ends_on=date(2026, 1, 21))
    ledger.bill(_FEBRUARY_28)

    for day in (20, 21):
        ledger.use(meter_id, str(day), on=date(2026, 1, day))
    ledger.bill(_MARCH_31)

    assert ledger.entries(APRIL) == ["late_usage 2026-01-01..2026-01-20: 20 = 20.00"]
    assert ledger.states() == [
        "20: billed",
        "21: rejected, no price of the account covers the meter at that time",
    ]
