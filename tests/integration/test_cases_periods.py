"""Where periods begin and end, and what lies in them, in cases that others have had.

The table is `tests/cases/periods.toml`. Each is a story of an account: it is billed,
and its closings and invoices say which days and which usage they are for.
"""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.types.range import DateRange

from tests.casebook import Book, days, table
from tests.catalogs import Table
from tests.shop import lease_row, value, values

pytestmark = pytest.mark.one_server

_PERIODS = table("periods.toml")
_DAY = timedelta(days=1)
_PER_UNIT = {"model": "per_unit", "amount": "1"}


def _by_id(section: str) -> Any:  # noqa: ANN401
    cases = _PERIODS[section]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


@_by_id("anchor")
def test_periods_begin_where_the_anchor_says(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    begins: list[date] = case["begins"]
    book = Book(warm, tmp_path)
    book.fee("fee", "10", timing="advance")
    book.open(
        starts_on=begins[0], anchor_on=begins[0], billing_interval=case["interval"]
    )
    book.subscribe("fee")

    book.bill(begins[-1])

    lines = [invoice.lines[0] for invoice in book.invoices()]
    assert [line.first_on for line in lines] == begins
    assert [line.end_on for line in lines][:-1] == begins[1:]


@_by_id("anchor")
def test_boundaries_are_counted_from_the_anchor(
    warm: Connection[Any], case: Table
) -> None:
    begins: list[date] = case["begins"]

    counted = values(
        warm,
        "SELECT pgbill.boundary(%s, %s, number)"
        " FROM generate_series(0, %s - 1) AS number ORDER BY number",
        begins[0],
        case["interval"],
        len(begins),
    )

    assert counted == begins


@_by_id("membership")
def test_usage_belongs_to_the_period_of_its_instant(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    begin_on, end_on = days(case["period"])
    book = Book(warm, tmp_path)
    book.price("use", _PER_UNIT, meter=book.meter())
    book.open(starts_on=begin_on, anchor_on=begin_on, zone=case["zone"])
    book.subscribe("use")
    for at in case["before"] + case["after"]:
        book.use("1", at=at)

    book.bill(end_on + timedelta(days=40))

    quantities = {invoice.period_end: invoice.lines for invoice in book.invoices()}
    within = sum(line.quantity for line in quantities.pop(end_on, []))
    beyond = sum(line.quantity for lines in quantities.values() for line in lines)
    assert (within, beyond) == (len(case["before"]), len(case["after"]))
    assert case["ends_at"] == value(
        warm,
        "SELECT period_end_at FROM pgbill.billing_period WHERE period_end = %s",
        end_on,
    )


@_by_id("length")
def test_by_the_second_a_month_has_its_hours(
    warm: Connection[Any], case: Table
) -> None:
    month = DateRange(*days(case["period"]))

    lengths = [
        value(
            warm,
            "SELECT whole::integer FROM pgbill.proration(%s, %s, 'monthly', %s, %s)",
            month,
            month,
            policy,
            case["zone"],
        )
        for policy in ("second", "actual")
    ]

    assert lengths == [case["hours"] * 3600, case["days"]]


@_by_id("length")
def test_a_run_prorates_by_the_hours_of_the_month(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    """A price of 1.00 an hour, from the 20th on: no clock is changed after that."""
    begin_on, end_on = days(case["period"])
    book = Book(warm, tmp_path, policy={"proration": "second"})
    book.fee("fee", str(case["hours"]))
    book.open(starts_on=begin_on, anchor_on=begin_on, zone=case["zone"])
    book.subscribe("fee", starts_on=begin_on.replace(day=20))

    book.bill(end_on - _DAY)

    assert book.invoice().net_amount == (case["days"] - 19) * 24


@_by_id("late_run")
def test_a_late_run_bills_what_was_due_and_moves_nothing(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    book = Book(warm, tmp_path)
    book.fee("fee", "10", timing=case["timing"])
    book.open(starts_on=case["anchor"], anchor_on=case["anchor"])
    book.subscribe("fee")
    book.bill(case["billed_through"])
    before = len(book.invoices())

    book.bill(case["run_on"])

    billed = [invoice.lines[0].service for invoice in book.invoices()[before:]]
    assert billed == [days(period) for period in case["bills"]]
    assert lease_row(warm, book.account)["due_on"] == case["next_on"].isoformat()


@_by_id("weighted")
def test_a_level_counts_for_as_long_as_it_holds(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    begin_on, end_on = days(case["period"])
    book = Book(warm, tmp_path)
    book.meter("level", aggregation="time_weighted", quantity_digits=12)
    book.price("use", _PER_UNIT, meter="level")
    book.open(starts_on=begin_on, anchor_on=begin_on, zone=case["zone"])
    book.subscribe("use")
    for change in case["changes"]:
        book.use(change["by"], at=change["at"], meter="level")

    book.bill(end_on - _DAY)

    (line,) = book.invoice().lines
    assert line.quantity == Decimal(case["quantity"])
    assert [change["seconds_left"] for change in case["changes"]] == values(
        warm,
        "SELECT extract(EPOCH FROM usage_until_at - occurred_at)::integer"
        " FROM pgbill.invoice_line CROSS JOIN pgbill.usage_record"
        " ORDER BY occurred_at",
    )
