"""A file of prepaid credits is taken over as a whole, repeatedly, or refused."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing
from pgbill.importing import Report
from tests import builders
from tests.inputs import Row, refusals, rows, write_csv
from tests.shop import findings, value

pytestmark = pytest.mark.one_server

PACK: Row = {
    "key": "p-1",
    "account": "a-1",
    "description": "Credit pack",
    "amount": "500",
    "available_on": "2026-01-10",
}


@pytest.fixture(autouse=True)
def _shop(conn: Connection[Any]) -> None:
    seller_id = builders.seller(conn)
    for number, currency in enumerate(("EUR", "JPY", "KWD"), start=1):
        builders.account(conn, seller_id, key=f"a-{number}", currency=currency)


def load(conn: Connection[Any], folder: Path, *packs: Row) -> Report:
    return importing.prepaid(conn, write_csv(folder / "p.csv", packs))


def refused(conn: Connection[Any], folder: Path, *packs: Row) -> list[str]:
    before = rows(conn, "prepaid_credit")
    told = refusals(load, conn, folder, *packs)
    assert rows(conn, "prepaid_credit") == before
    return [line.removeprefix("p.csv:") for line in told]


def test_a_credit_is_taken_once(conn: Connection[Any], tmp_path: Path) -> None:
    assert load(conn, tmp_path, PACK, PACK | {"account": "a-2"}) == Report(2, 2, 0, 0)

    assert load(conn, tmp_path, PACK, PACK | {"amount": "500.00"}) == Report(2, 0, 0, 2)
    assert value(conn, "SELECT sum(amount) FROM pgbill.prepaid_credit") == 1000
    assert findings(conn) == {}


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"amount": "501"}, "amount"),
        ({"description": "Pack", "available_on": "2026-02-01"}, "available_on, desc"),
    ],
)
def test_a_key_with_other_data_is_refused(
    conn: Connection[Any], tmp_path: Path, changes: Row, other: str
) -> None:
    (in_file,) = refused(conn, tmp_path, PACK, PACK | changes)
    load(conn, tmp_path, PACK)
    (imported,) = refused(conn, tmp_path, PACK | changes)

    assert in_file.startswith(
        f"3: key: p-1 stands in line 2 already, with another {other}"
    )
    assert imported.startswith(f"2: key: p-1 was imported before with another {other}")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"account": "a-9"}, "account: there is no account a-9"),
        ({"amount": "0"}, "amount: 0 is not above zero"),
        ({"amount": "-5"}, "amount: '-5' is negative"),
        ({"amount": "0.001"}, "amount: 0.001 has more decimals than EUR, which has 2"),
        (
            {"amount": "0.1", "account": "a-2"},
            "amount: 0.1 has more decimals than JPY, which has 0",
        ),
        ({"available_on": ""}, "available_on: the value is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    assert refused(conn, tmp_path, PACK, PACK | {"key": "bad"} | changes) == [
        f"3: {told}"
    ]


def test_a_currency_may_have_three_digits(
    conn: Connection[Any], tmp_path: Path
) -> None:
    assert load(conn, tmp_path, PACK | {"account": "a-3", "amount": "0.125"}).new == 1
