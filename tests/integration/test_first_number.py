"""A series may begin above 1, if the numbers before were given by another system."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.actors import bill_all
from tests.catalogs import Table, apply, declaration, refused, sentences
from tests.shop import findings, run_sql, value, values

pytestmark = pytest.mark.one_server

_SERIES = ("sellers", "northlight", "number_series")


def from_number(first: object, **changes: object) -> Table:
    series = {"invoice": "NL-", "credit_note": "NLC-", "first_number": first}
    return declaration(*_SERIES, becomes={**series, **changes})


def bill(conn: Connection[Any], count: int) -> None:
    seller_id = value(conn, "SELECT seller_id FROM pgbill.seller")
    fee = builders.price(conn, seller_id)
    for _ in range(count):
        account = builders.account(conn, seller_id)
        builders.subscription(conn, account, fee)
        bill_all(conn, account)


def numbers(conn: Connection[Any]) -> list[str]:
    return values(
        conn, "SELECT number_text FROM pgbill.invoice_number ORDER BY series_id, number"
    )


def test_a_series_begins_with_its_first_number(
    conn: Connection[Any], tmp_path: Path
) -> None:
    changes = apply(conn, tmp_path, from_number(5001))

    bill(conn, 2)

    assert "number series northlight invoice live added: prefix NL-, from 5001" in (
        sentences(changes)
    )
    assert numbers(conn) == ["NL-005001", "NL-005002"]
    assert apply(conn, tmp_path, from_number(5001)) == []
    assert apply(conn, tmp_path) == []
    assert findings(conn) == {}


def test_each_kind_has_its_own(conn: Connection[Any], tmp_path: Path) -> None:
    apply(conn, tmp_path, from_number({"invoice": 20, "credit_note": 7}))

    found = conn.execute(
        "SELECT prefix, first_number, last_number FROM pgbill.number_series"
        " ORDER BY prefix"
    ).fetchall()

    assert found == [
        ("NL-", 20, 19),
        ("NLC-", 7, 6),
        ("TEST-NL-", 1, 0),
        ("TEST-NLC-", 1, 0),
    ]
    assert findings(conn) == {}


def test_it_may_be_set_until_a_number_was_given(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)
    changes = apply(conn, tmp_path, from_number(5001))
    bill(conn, 1)

    told = refused(conn, tmp_path, from_number(6001))

    assert sentences(changes) == [
        "number series northlight invoice live changed: first_number: 1 → 5001"
    ]
    assert told == [
        (
            "sellers.northlight.number_series.first_number: the live series of invoices"
            " has begun with 5001, so it stays"
        )
    ]
    assert len(apply(conn, tmp_path, from_number(5001, digits=8))) == 4
    bill(conn, 1)
    assert numbers(conn) == ["NL-005001", "NL-00005002"]
    assert findings(conn) == {}


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (0, "'0' is not a whole number from 1 to 999999999"),
        ("5001", "'5001' is not a whole number from 1 to 999999999"),
        ({"credit": 5}, "first_number.credit: there is no such key"),
    ],
)
def test_what_is_no_number_is_refused(
    conn: Connection[Any], tmp_path: Path, first: object, told: str
) -> None:
    (line,) = refused(conn, tmp_path, from_number(first))

    assert told in line


def test_a_gap_after_the_first_number_is_found(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path, from_number(5001))
    run_sql(
        conn,
        "UPDATE pgbill.number_series SET last_number = 5001 WHERE prefix = 'NL-'",
    )
    bill(conn, 1)

    assert findings(conn) == {"p5_number_gap": 1}
