"""The amount of a line is the sum that the line says it is."""

import json
from decimal import Decimal

import pytest

from pgbill import breakdown
from pgbill.breakdown import Breakdown, Term

TIERS = [
    {"up_to": 1000, "unit_amount": 0.01, "flat_amount": 0},
    {"up_to": 10000, "unit_amount": 0.008, "flat_amount": 0},
    {"up_to": None, "unit_amount": 0.005, "flat_amount": 5},
]
BLOCKS = [
    {"up_to": 100, "unit_amount": 0, "flat_amount": 25},
    {"up_to": 1000, "unit_amount": 0, "flat_amount": 20},
]


def read(**given: object) -> Breakdown:
    """Read a rating input."""
    return breakdown.read(json.dumps(given))


def written(terms: list[Term]) -> str:
    return " + ".join(
        f"{each.amount}" if each.quantity is None else f"{each.quantity}*{each.amount}"
        for each in terms
    )


@pytest.mark.parametrize(
    ("model", "quantity", "expected"),
    [
        ("graduated", 0, ""),
        ("graduated", 1000, "1000*0.01"),
        ("graduated", 1001, "1000*0.01 + 1*0.008"),
        ("graduated", 12500, "1000*0.01 + 9000*0.008 + 5 + 2500*0.005"),
        ("graduated", -3, "-3*0.01"),
        ("volume", 1000, "1000*0.01"),
        ("volume", 10000, "10000*0.008"),
        ("volume", 12500, "5 + 12500*0.005"),
    ],
)
def test_tiers_divide_a_quantity(model: str, quantity: int, expected: str) -> None:
    terms = read(model=model, quantity=quantity, tiers=TIERS).terms

    assert written(terms) == expected


@pytest.mark.parametrize(
    ("model", "quantity", "expected"),
    [
        ("stairstep", 200, "20"),
        ("stairstep_cumulative", 200, "25 + 20"),
        ("stairstep_cumulative", 100, "25"),
        ("capacity", 0, ""),
    ],
)
def test_units_that_cost_nothing_are_in_the_flat_amount(
    model: str, quantity: int, expected: str
) -> None:
    terms = read(model=model, quantity=quantity, tiers=BLOCKS).terms

    assert written(terms) == expected


def test_a_capacity_costs_its_base_without_usage() -> None:
    terms = read(model="capacity", quantity=0, tiers=BLOCKS, bills_zero=True).terms

    assert written(terms) == "25"


@pytest.mark.parametrize(
    ("quantity", "expected"), [("150", "3*10"), ("120", "2*10"), ("60.5", "2*10")]
)
def test_packages_are_counted_up(quantity: str, expected: str) -> None:
    terms = breakdown.read(
        f'{{"model": "package", "quantity": {quantity}, "package_size": 60,'
        ' "unit_amount": 10}'
    ).terms

    assert written(terms) == expected


def test_free_units_are_taken_off_first() -> None:
    terms = read(
        model="package", quantity=150, package_size=60, free_quantity=50, unit_amount=10
    ).terms

    assert written(terms) == "2*10"


def test_a_percentage_is_a_share_and_amounts_for_records() -> None:
    terms = read(
        model="percentage",
        unit_amount=0.014,
        charged_amount=48230,
        charged_count=149,
        fixed_amount=2,
        record_minimum=1,
        minimum_count=3,
        record_maximum=9,
        maximum_count=0,
    ).terms

    assert written(terms) == "48230*0.014 + 149*2 + 3*1"
    assert [each.is_share for each in terms] == [True, False, False]


def test_what_earlier_lines_have_billed_is_broken_down_too() -> None:
    parts = read(
        model="graduated", quantity=1500, tiers=TIERS, before={"quantity": 900}
    )

    assert written(parts.terms) == "1000*0.01 + 500*0.008"
    assert written(parts.before) == "900*0.01"


def test_a_minimum_says_what_was_reached() -> None:
    parts = read(model="flat", quantity=1, unit_amount=500, reached=420)

    assert written(parts.terms) == "500"
    assert parts.reached == 420


def test_one_amount_for_each_unit_needs_no_breakdown() -> None:
    parts = read(model="per_unit", quantity=30, unit_amount=0.005, per_quantity=1000)

    assert parts.terms == []
    assert parts.per_quantity == 1000


@pytest.mark.parametrize(
    "names", [("part", "whole"), ("part_days", "whole_days")], ids=["now", "at first"]
)
def test_the_part_of_a_period_is_read(names: tuple[str, str]) -> None:
    parts = breakdown.read(json.dumps(dict(zip(names, (10, 31), strict=True))))

    assert (parts.part, parts.whole) == (10, 31)


def test_no_decimal_is_lost() -> None:
    amount = "0.1234567890123456789012345678901234567891"
    quantity = "1000000000000000000000001"

    (term,) = breakdown.read(
        f'{{"model": "per_unit", "unit_amount": {amount}, "quantity": {quantity},'
        f' "free_quantity": 1}}'
    ).terms

    assert term.amount == Decimal(amount)
    assert term.value == Decimal("123456789012345678901234.5678901234567891")
