"""A catalog file is brought about as a whole, any number of times."""

import contextlib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import catalog, roles
from pgbill.difference import Change
from tests import builders
from tests.actors import Threads, bill_all, connect, wait_for, wait_until_blocked
from tests.catalogs import (
    DECLARED,
    TABLES,
    apply,
    declaration,
    refused,
    sentences,
)
from tests.inputs import rows
from tests.shop import findings, value, values

pytestmark = pytest.mark.one_server


def test_a_catalog_is_brought_about(conn: Connection[Any], tmp_path: Path) -> None:
    changes = apply(conn, tmp_path)

    assert sentences(changes) == [
        'seller northlight added: Northlight "Hosting" GmbH',
        "number series northlight invoice live added: prefix NL-",
        "number series northlight invoice test added: prefix TEST-NL-",
        "number series northlight credit_note live added: prefix NLC-",
        "number series northlight credit_note test added: prefix TEST-NLC-",
        "meter gb added: Transfer",
        "price fee added: 9.90 EUR from 2026-01-01",
        "price transfer added: 0.0115 EUR from 2026-01-01",
        "tax rate DE to DE, business, standard, from 2021-01-01 added: S 19 %",
        "tax rate DE to DE, consumer, standard, from 2021-01-01 added: S 19 %",
        "tax rate DE to FR, business, standard, from 2021-01-01 added: AE 0 %",
        "tax rate DE to IT, business, standard, from 2021-01-01 added: AE 0 %",
    ]
    (seller,) = rows(conn, "seller")
    assert seller["legal_footers"] == {"en": "One\nTwo"}
    assert len(rows(conn, "number_series")) == 4
    assert values(
        conn, "SELECT unit_amount::text FROM pgbill.price_tier ORDER BY unit_amount"
    ) == ["0.0115", "9.90"]
    assert len(rows(conn, "tax_rate")) == 4


def test_the_second_time_nothing_changes(conn: Connection[Any], tmp_path: Path) -> None:
    apply(conn, tmp_path)
    before = {table: rows(conn, table) for table in TABLES}

    assert apply(conn, tmp_path) == []
    assert {table: rows(conn, table) for table in TABLES} == before


def test_a_dry_run_tells_and_changes_nothing(
    conn: Connection[Any], tmp_path: Path
) -> None:
    changes = apply(conn, tmp_path, is_dry_run=True)

    assert len(changes) == 12
    assert all(rows(conn, table) == [] for table in TABLES)


def test_what_will_change_is_told_first(conn: Connection[Any], tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def announce(changes: list[Change]) -> None:
        seen.append((len(changes), len(rows(conn, "seller"))))

    apply(conn, tmp_path, announce=announce)

    assert seen == [(12, 0)]


def test_what_the_file_does_not_name_stays(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)

    assert apply(conn, tmp_path, {"meters": DECLARED["meters"]}) == []
    assert apply(conn, tmp_path, {}) == []
    assert len(rows(conn, "price")) == 2


@pytest.mark.parametrize(
    ("path", "becomes", "change"),
    [
        (
            ("sellers", "northlight", "city"),
            "Verden",
            "seller northlight changed: city: Bremen → Verden",
        ),
        (
            ("sellers", "northlight", "vat_id"),
            None,
            "seller northlight changed: vat_id: DE123456789 → none",
        ),
        (("meters", "gb", "name"), "Data", "meter gb changed: name: Transfer → Data"),
        (
            ("prices", "fee", "revenue_account"),
            "4401",
            "price fee changed: revenue_account: 4400 → 4401",
        ),
        (
            ("tax_rates", 1, "legal_text"),
            "VAT reversed.",
            (
                "tax rate DE to FR, business, standard, from 2021-01-01 changed:"
                " legal_text: Reverse charge. → VAT reversed."
            ),
        ),
        (
            ("tax_rates", 0, "ends_on"),
            date(2027, 1, 1),
            (
                "tax rate DE to DE, business, standard, from 2021-01-01 changed:"
                " ends_on: none → 2027-01-01"
            ),
        ),
        (
            ("prices", "fee", "versions"),
            [
                {"begins_on": date(2026, 1, 1), "amount": "9.9"},
                {"begins_on": date(2027, 1, 1), "amount": "10.90"},
            ],
            "price fee new version: 10.90 EUR from 2027-01-01",
        ),
        (
            ("sellers", "northlight", "number_series", "digits"),
            8,
            "number series northlight invoice live changed: digits: 6 → 8",
        ),
        (
            ("sellers", "northlight", "number_series", "invoice"),
            "N-",
            "number series northlight invoice live changed: prefix: NL- → N-",
        ),
    ],
)
def test_what_may_change_changes(
    conn: Connection[Any],
    tmp_path: Path,
    path: tuple[str | int, ...],
    becomes: object,
    change: str,
) -> None:
    apply(conn, tmp_path)
    changed = declaration(*path, becomes=becomes)

    assert sentences(apply(conn, tmp_path, changed))[0] == change
    assert apply(conn, tmp_path, changed) == []


def test_a_prefix_stays_once_a_number_was_issued(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)
    seller_id = value(conn, "SELECT seller_id FROM pgbill.seller")
    account = builders.account(conn, seller_id)
    builders.subscription(conn, account, builders.price(conn, seller_id))
    bill_all(conn, account)
    path = ("sellers", "northlight", "number_series")

    assert refused(conn, tmp_path, declaration(*path, "invoice", becomes="N-")) == [
        (
            "sellers.northlight.number_series.invoice: the live series has issued"
            " numbers with the prefix NL-, so it stays"
        )
    ]
    assert len(apply(conn, tmp_path, declaration(*path, "digits", becomes=8))) == 4
    changed = declaration(*path, "credit_note", becomes="C-")
    changed["sellers"]["northlight"]["number_series"]["digits"] = 8
    assert len(apply(conn, tmp_path, changed)) == 2


def test_an_issued_invoice_keeps_its_seller(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)
    seller_id = value(conn, "SELECT seller_id FROM pgbill.seller")
    account = builders.account(conn, seller_id)
    builders.subscription(conn, account, builders.price(conn, seller_id))
    bill_all(conn, account)

    moved = declaration("sellers", "northlight", "city", becomes="Verden")
    apply(conn, tmp_path, moved)

    assert value(
        conn,
        "SELECT content ->> 'city' FROM pgbill.invoice"
        " INNER JOIN pgbill.seller_snapshot USING (seller_snapshot_id)",
    ) == "Bremen"  # fmt: skip
    assert findings(conn) == {}


def test_two_applies_queue(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "2").mkdir()
    renamed = declaration("meters", "gb", "name", becomes="Data")
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as first,
        contextlib.closing(connect(dsn, roles.OWNER)) as second,
        contextlib.closing(connect(dsn, roles.OWNER)) as observer,
        Threads() as threads,
    ):
        with first.transaction():
            apply(first, tmp_path)
            waiting = threads.start(apply, second, tmp_path / "2", renamed)
            wait_until_blocked(observer, second)

        assert sentences(wait_for(waiting)) == [
            "meter gb changed: name: Transfer → Data"
        ]


def test_nothing_is_applied_if_the_end_fails(
    conn: Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(catalog, "_write_tax_rates", fail)

    with pytest.raises(RuntimeError):
        apply(conn, tmp_path)

    assert all(rows(conn, table) == [] for table in TABLES)


def test_a_price_issues_with_the_amount_of_the_day(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """From its first day a new version counts for service that begins then."""
    apply(conn, tmp_path)
    later = {"begins_on": date(2026, 2, 1), "amount": "12"}
    versions = [*DECLARED["prices"]["fee"]["versions"], later]
    apply(conn, tmp_path, declaration("prices", "fee", "versions", becomes=versions))
    seller_id = value(conn, "SELECT seller_id FROM pgbill.seller")
    fee = builders.Price(
        value(conn, "SELECT price_id FROM pgbill.price WHERE key = 'fee'"),
        "fee",
        seller_id,
        "EUR",
        None,
    )
    account = builders.account(conn, seller_id)
    builders.subscription(conn, account, fee)

    bill_all(conn, account, through_on=date(2026, 2, 1))

    assert values(
        conn, "SELECT net_amount::text FROM pgbill.invoice ORDER BY period_end"
    ) == ["9.90", "12.00"]
