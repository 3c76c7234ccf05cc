"""The numbers of each series are counted, and what is wrong with them is told."""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill import numbering
from tests.actors import bill_all
from tests.integration.test_closed_month import dated
from tests.payers import credit
from tests.shop import Shop, run_sql
from tests.world import lawless

pytestmark = pytest.mark.one_server

_JUNE, _JULY = date(2026, 6, 1), date(2026, 7, 1)


@pytest.fixture(autouse=True)
def _shop(conn: Connection[Any]) -> None:
    shop = Shop.open(conn, key="north")
    run_sql(conn, "UPDATE pgbill.number_series SET first_number = 41, last_number = 40")
    for day in (_JUNE, _JUNE, _JULY):
        bill_all(conn, shop.account(conn), policy=dated(day))


def told(conn: Connection[Any]) -> list[str]:
    """Return each series that has given numbers, in words."""
    return [
        f"{it.prefix} {it.lowest}-{it.highest}: {it.document_count}, {it.findings}"
        for it in numbering.look(conn)
        if it.document_count
    ]


def test_a_series_is_counted(conn: Connection[Any]) -> None:
    credit(conn, "NL-000041", "1.19")

    series = numbering.look(conn)

    assert told(conn) == ["NL- 41-43: 3, []", "NLC- 41-41: 1, []"]
    assert [(it.kind, it.mode) for it in series] == [
        *(("invoice", "live"), ("credit_note", "live")),
        *(("invoice", "test"), ("credit_note", "test")),
    ]
    assert (series[0].first_on, series[0].last_on) == (_JUNE, _JULY)


@pytest.mark.parametrize(
    ("crime", "finding"),
    [
        ("DELETE FROM pgbill.invoice_number WHERE number = 42", "1 missing"),
        ("DELETE FROM pgbill.invoice_number WHERE number = 41", "1 missing"),
        (
            "UPDATE pgbill.invoice_number SET issued_on = '2026-5-1' WHERE number > 42",
            "1 dated back",
        ),
        (
            "UPDATE pgbill.invoice_number SET number = 42 WHERE number = 43",
            "1 given twice', 'does not stand at its last number",
        ),
        (
            "DELETE FROM pgbill.invoice_number WHERE number = 43",
            "does not stand at its last number",
        ),
    ],
)
def test_what_is_wrong_is_told(conn: Connection[Any], crime: str, finding: str) -> None:
    with lawless(conn, "invoice_number"):
        run_sql(conn, crime)

    (line,) = told(conn)
    assert line.endswith(f", ['{finding}']")
