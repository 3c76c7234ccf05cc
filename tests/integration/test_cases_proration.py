"""What a part of a period costs, in figures that others have published.

The table is `tests/cases/proration.toml`. Parts are billed by a run, with the account's
periods, the price's own, and the policy of proration as a catalog has them.
"""

from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.types.range import DateRange

from tests.casebook import Book, days, table
from tests.catalogs import Table

pytestmark = pytest.mark.one_server

_PRORATION = table("proration.toml")
_DAY = timedelta(days=1)


def _by_id(section: str) -> Any:  # noqa: ANN401
    cases = _PRORATION[section]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


@_by_id("part")
def test_a_part_costs_its_share(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    (begin_on, end_on), service = days(case["period"]), days(case["service"])
    book = Book(warm, tmp_path)
    by = {"billing_interval": case["price_by"]} if "price_by" in case else {}
    book.fee("fee", case["price"], **by)
    book.open(
        starts_on=begin_on,
        anchor_on=begin_on,
        billing_interval=case.get("interval", "monthly"),
    )
    book.subscribe("fee", starts_on=service[0], ends_on=service[1])

    book.bill(end_on - _DAY)

    (line,) = book.invoice().lines
    assert str(line.net_amount) == case["amount"]
    assert line.service == service
    told = line.rating_input
    assert Fraction(told["part"], told["whole"]) == Fraction(case["share"])


@_by_id("ratio")
@pytest.mark.parametrize("policy", ["actual", "actual_30", "30_360"])
def test_each_policy_has_its_ratio(
    warm: Connection[Any], case: Table, policy: str
) -> None:
    service, month = DateRange(*days(case["service"])), DateRange(*days(case["month"]))

    row = warm.execute(
        "SELECT part::integer, whole::integer"
        " FROM pgbill.proration(%s, %s, 'monthly', %s, 'UTC')",
        [service, month, policy],
    ).fetchone()

    assert row is not None
    assert Fraction(*row) == Fraction(case[policy])


@pytest.mark.parametrize("case", _PRORATION["ratio"][:2], ids=lambda case: case["id"])
@pytest.mark.parametrize("policy", ["actual", "actual_30", "30_360"])
def test_a_run_prorates_by_the_policy_of_that_name(
    warm: Connection[Any], tmp_path: Path, case: Table, policy: str
) -> None:
    """A price of as many whole units as the ratio divides by."""
    (begin_on, end_on), service = days(case["month"]), days(case["service"])
    book = Book(warm, tmp_path, policy={"proration": policy})
    price = case[policy].split("/")[1]
    book.fee("fee", price)
    book.open(starts_on=begin_on, anchor_on=begin_on)
    book.subscribe("fee", starts_on=service[0])

    book.bill(end_on - _DAY)

    assert book.invoice().net_amount == Fraction(case[policy]) * int(price)


@_by_id("change")
def test_a_change_of_price_gives_back_the_unused_and_charges_the_rest(
    warm: Connection[Any], tmp_path: Path, case: Table
) -> None:
    begin_on, end_on = days(case["period"])
    changed_on: date = case["on"]
    book = Book(warm, tmp_path)
    for key in ("old", "new"):
        book.fee(key, case[key], timing="advance")
    book.open(
        starts_on=begin_on,
        anchor_on=begin_on,
        billing_interval=case.get("interval", "monthly"),
    )
    subscription_id = book.subscribe("old")
    book.bill(begin_on)
    book.change(subscription_id, old="old", new="new", on=changed_on)

    book.bill(end_on - _DAY)

    _, changed = book.invoices()
    rest = [line for line in changed.lines if line.service == (changed_on, end_on)]
    assert {line.kind: str(line.net_amount) for line in rest} == {
        "unused_advance": case["credit"],
        "advance": case["charge"],
    }
    assert str(sum(line.net_amount for line in rest)) == case["net"]
