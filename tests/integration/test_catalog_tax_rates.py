"""Only one tax rate holds on a day, and those of the past stay."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.catalogs import DECLARED, Table, apply, refused
from tests.shop import value

pytestmark = pytest.mark.one_server


def rate(begins_on: date, ends_on: date | None, percent: str = "20") -> Table:
    declared = {**DECLARED["tax_rates"][0], "begins_on": begins_on, "rate": percent}
    return declared | ({"ends_on": ends_on} if ends_on else {})


def test_only_one_tax_rate_holds_on_a_day(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)
    later = rate(date(2027, 1, 1), None)

    told = refused(conn, tmp_path, {"tax_rates": [later]})

    assert told[0] == (
        "tax_rates[1]: DE to DE, business, standard, from 2027-01-01, holds on days on"
        " which the one from 2021-01-01 does: end the earlier one"
    )
    ended = rate(date(2021, 1, 1), date(2027, 1, 1), "19")
    assert len(apply(conn, tmp_path, {"tax_rates": [later, ended]})) == 4
    assert apply(conn, tmp_path, {"tax_rates": [later, ended]}) == []


def test_a_tax_rate_of_the_future_may_change_and_one_of_the_past_not(
    conn: Connection[Any], tmp_path: Path
) -> None:
    tomorrow = value(conn, "SELECT (now() AT TIME ZONE 'UTC')::date") + timedelta(
        days=1
    )
    next_year = tomorrow + timedelta(days=365)
    apply(
        conn,
        tmp_path,
        {
            "tax_rates": [
                rate(date(2020, 1, 1), date(2021, 1, 1)),
                rate(date(2021, 1, 1), tomorrow),
                rate(tomorrow, next_year),
            ]
        },
    )

    assert apply(conn, tmp_path, {"tax_rates": [rate(tomorrow, next_year, "21")]})
    both = [rate(date(2021, 1, 1), next_year), rate(next_year, None)]
    assert "holds on days" in refused(conn, tmp_path, {"tax_rates": both})[0]
    assert "has begun" in (
        refused(conn, tmp_path, {"tax_rates": [rate(date(2021, 1, 1), tomorrow, "21")]})
    )[0]  # fmt: skip
    assert "has ended on 2021-01-01" in (
        refused(conn, tmp_path, {"tax_rates": [rate(date(2020, 1, 1), None)]})
    )[0]  # fmt: skip
