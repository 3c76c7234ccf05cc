"""A record that corrects another counts with it, before the closing and after it.

The two are one record to a meter that counts, or takes the largest, the last, or each
different one: corrected to nothing, it is not there. What a correction takes off a
closed period is given back by the next closing.
"""

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.builders import Tier
from tests.ledger import Ledger
from tests.shop import FEBRUARY, MARCH, amount

pytestmark = pytest.mark.one_server

_JANUARY_31, _FEBRUARY_28 = date(2026, 1, 31), date(2026, 2, 28)
_A_HUNDRED: list[Tier] = [("100", "1"), (None, "0.5")]


@dataclass(frozen=True, slots=True)
class Story:
    """Records of January, and what the second of them is corrected by."""

    what: str
    records: str
    correction: str
    corrected: str
    """The line, if it was corrected before the closing."""
    billed: str
    given_back: str
    """The lines, if it was corrected after it."""
    price: dict[str, Any] = field(default_factory=dict[str, Any])
    terms: dict[str, Any] = field(default_factory=dict[str, Any])
    meter: dict[str, Any] = field(default_factory=dict[str, Any])


STORIES = [
    Story("a sum", "100 50", "-20",
          "130 = 65.00", "150 = 75.00", "-20 = -10.00", price={"unit_amount": "0.5"}),
    # 110 cost 105.00, 140 cost 120.00; 90 cost 90.00.
    Story("tiers", "90 50", "-30", "110 = 105.00", "140 = 120.00", "-30 = -15.00",
          price={"model": "graduated", "tiers": _A_HUNDRED}),
    Story("back to the tier before", "90 50", "-50",
          "90 = 90.00", "140 = 120.00", "-50 = -30.00",
          price={"model": "graduated", "tiers": _A_HUNDRED}),
    # 140 cost 70.00 in all, 90 cost 90.00: what is taken off makes it dearer.
    Story("volume", "90 50", "-50", "90 = 90.00", "140 = 70.00", "-50 = 20.00",
          price={"model": "volume", "tiers": _A_HUNDRED}),
    Story("a package less", "8 4", "-2", "10 = 5.00", "12 = 10.00", "-2 = -5.00",
          price={"model": "package", "unit_amount": "5"}, terms={"package_size": 10}),
    # 1 % and 0.10 for each: of 100 and 200, then of 100 and 150.
    Story("a percentage of less", "100 200", "-50",
          "250 = 2.70", "300 = 3.20", "-50 = -0.50",
          price={"model": "percentage", "unit_amount": "0.01"},
          terms={"fixed_amount": 0.1}),
    # Corrected to nothing it costs no fixed amount either.
    Story("a percentage of nothing", "100 200", "-200",
          "100 = 1.10", "300 = 3.20", "-200 = -2.10",
          price={"model": "percentage", "unit_amount": "0.01"},
          terms={"fixed_amount": 0.1}),
    # One is free: the first. Of two that are left one is.
    Story("a record that was free", "100 200 300", "-200",
          "400 = 3.10", "600 = 5.20", "-200 = -2.10",
          price={"model": "percentage", "unit_amount": "0.01"},
          terms={"fixed_amount": 0.1, "free_count": 1}),
    Story("the largest", "5 8", "-6", "5 = 5.00", "8 = 8.00", "-3 = -3.00",
          meter={"aggregation": "maximum"}),
    Story("the largest, but not by much", "5 8", "-1",
          "7 = 7.00", "8 = 8.00", "-1 = -1.00", meter={"aggregation": "maximum"}),
    Story("not the largest", "8 5", "-5", "8 = 8.00", "8 = 8.00", "0 = 0.00",
          meter={"aggregation": "maximum"}),
    Story("the last", "5 8", "-6", "2 = 2.00", "8 = 8.00", "-6 = -6.00",
          meter={"aggregation": "last"}),
    Story("the last is not there", "5 8", "-8", "5 = 5.00", "8 = 8.00", "-3 = -3.00",
          meter={"aggregation": "last"}),
    Story("one that counts", "5 8 1", "-8", "2 = 2.00", "3 = 3.00", "-1 = -1.00",
          meter={"aggregation": "count"}),
    Story("one that still counts", "5 8 1", "-7", "3 = 3.00", "3 = 3.00", "0 = 0.00",
          meter={"aggregation": "count"}),
    # 50.00 are the least: of 60.00 only 10.00 are given back.
    Story("down to the minimum", "20 40", "-20",
          "40 = 40.00; minimum 1 = 10.00", "60 = 60.00", "-20 = -20.00 - -10.00 minimum"
          " = -10.00", terms={"minimum_amount": 50}),
    Story("below the minimum", "20 20", "-20",
          "20 = 20.00; minimum 1 = 30.00", "40 = 40.00; minimum 1 = 10.00",
          "-20 = -20.00 - -20.00 minimum = 0.00", terms={"minimum_amount": 50}),
    # 50.00 are the most: of the 20.00 beyond it 15.00 were never billed.
    Story("down to the maximum", "20 45", "-20",
          "45 = 45.00", "65 = 65.00 - 15.00 maximum = 50.00",
          "-20 = -20.00 - -15.00 maximum = -5.00", terms={"maximum_amount": 50}),
]  # fmt: skip


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    """Return the ledger of an account to which totals below zero are told."""
    builders.tax_rate(audited)
    return Ledger(audited, policy={"negative_total": "credit_note"})


def begin(ledger: Ledger, story: Story) -> int:
    """Import the records of the story; the second one has a key."""
    meter_id = ledger.metered(meter=story.meter, terms=story.terms, **story.price)
    for number, quantity in enumerate(story.records.split(), start=1):
        ledger.use(meter_id, quantity, on=date(2026, 1, number), key=f"u-{number}")
    return meter_id


def correct(ledger: Ledger, meter_id: int, story: Story) -> None:
    on = date(2026, 1, 2)
    ledger.use(meter_id, story.correction, on=on, key="c-1", corrects="u-2")


def told(lines: list[str]) -> str:
    """Leave out what is the same everywhere: the kind of usage, and January."""
    for word in ("late_usage ", "usage ", "2026-01-01..2026-01-31: "):
        lines = [line.replace(word, "") for line in lines]
    return "; ".join(lines)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.what)
def test_a_correction_before_the_closing_is_one_with_its_record(
    ledger: Ledger, story: Story
) -> None:
    correct(ledger, begin(ledger, story), story)

    ledger.bill(_JANUARY_31)

    assert told(ledger.entries(FEBRUARY)) == story.corrected
    assert all(": billed" in state for state in ledger.states())


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.what)
def test_a_correction_after_the_closing_bills_what_it_changes(
    ledger: Ledger, story: Story
) -> None:
    meter_id = begin(ledger, story)
    ledger.bill(_JANUARY_31)

    correct(ledger, meter_id, story)
    ledger.bill(_FEBRUARY_28)

    late = [line for line in ledger.entries(MARCH) if line.startswith("late_usage")]
    assert told(ledger.entries(FEBRUARY)) == story.billed
    assert told(late) == story.given_back
    assert all(": billed" in state for state in ledger.states())


def test_a_correction_belongs_to_the_group_of_its_record(ledger: Ledger) -> None:
    """In eu 60 units are left of 140, which costs 60.00 instead of 120.00."""
    meter_id = ledger.metered(group_by="region", model="graduated", tiers=_A_HUNDRED)
    for region in ("eu", "us"):
        ledger.use(meter_id, "140", dimensions={"region": region}, key=region)
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "-80", dimensions={"region": "eu"}, corrects="eu")
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(MARCH) == [
        "late_usage 2026-01-01..2026-01-31 [eu]: -80 = -60.00"
    ]
    assert ledger.states() == ["140: billed", "140: billed", "-80: billed"]


def test_a_value_that_was_seen_by_mistake_counts_no_more(ledger: Ledger) -> None:
    meter_id = ledger.metered(
        "4", meter={"aggregation": "unique_count", "unique_dimension": "user"}
    )
    for user in ("ada", "bob"):
        ledger.use(meter_id, dimensions={"user": user}, key=user)
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "-1", dimensions={"user": "bob"}, corrects="bob")
    ledger.bill(_FEBRUARY_28)

    assert ledger.entries(FEBRUARY) == ["usage 2026-01-01..2026-01-31: 2 = 8.00"]
    assert ledger.entries(MARCH) == ["late_usage 2026-01-01..2026-01-31: -1 = -4.00"]


def test_what_a_correction_gives_back_is_taxed_as_it_was(ledger: Ledger) -> None:
    """19 % of the 20.00 that are given back are 3.80."""
    meter_id = ledger.metered()
    ledger.use(meter_id, "100", key="u-1")
    ledger.bill(_JANUARY_31)

    ledger.use(meter_id, "-20", corrects="u-1")
    ledger.bill(_FEBRUARY_28)

    assert ledger.totals(FEBRUARY)[2] == amount("119.00")
    assert ledger.totals(MARCH) == (
        amount("-20.00"), amount("-3.80"), amount("-23.80")
    )  # fmt: skip
