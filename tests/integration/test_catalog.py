"""A catalog file is brought about as a whole, any number of times, or refused."""

import contextlib
import copy
import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg import Connection

from pgbill import catalog, roles
from pgbill.difference import Change
from pgbill.errors import InputError
from tests import builders
from tests.actors import Threads, bill_all, connect, wait_for, wait_until_blocked
from tests.inputs import refusals, rows
from tests.shop import findings, value, values

Table = dict[str, Any]


@pytest.fixture(autouse=True)
def _in_a_transaction(conn: Connection[Any]) -> None:
    """Let what `apply` takes for its transaction be a part of the test's."""
    conn.execute("SELECT")


TABLES = (
    "seller",
    "seller_snapshot",
    "number_series",
    "meter",
    "price",
    "price_version",
    "price_tier",
    "tax_rate",
)
DECLARED: Table = {
    "sellers": {
        "northlight": {
            "legal_name": 'Northlight "Hosting" GmbH',
            "street": "Am Wall 1",
            "postal_code": "28195",
            "city": "Bremen",
            "country": "DE",
            "vat_id": "DE123456789",
            "home_currency": "EUR",
            "zone": "Europe/Berlin",
            "mail_from": "invoices@northlight.example.com",
            "number_series": {"invoice": "NL-", "credit_note": "NLC-"},
            "bank_accounts": {"EUR": {"iban": "DE89370400440532013000"}},
            "legal_footers": {"en": "One\nTwo"},
        }
    },
    "meters": {"gb": {"name": "Transfer", "unit_code": "E34"}},
    "prices": {
        "fee": {
            "seller": "northlight",
            "currency": "EUR",
            "model": "flat",
            "timing": "advance",
            "unit_code": "MON",
            "tax_class": "standard",
            "revenue_account": "4400",
            "line_texts": {"en": "Fee", "de": "Gebühr"},
            "versions": [{"begins_on": date(2026, 1, 1), "amount": "9.90"}],
        },
        "transfer": {
            "seller": "northlight",
            "currency": "EUR",
            "model": "per_unit",
            "timing": "arrears",
            "meter": "gb",
            "unit_code": "E34",
            "tax_class": "standard",
            "line_texts": {"en": "Transfer"},
            "versions": [{"begins_on": date(2026, 1, 1), "amount": "0.0115"}],
        },
    },
    "tax_rates": [
        {
            "seller_country": "DE",
            "buyer_country": "DE",
            "buyer_status": ["business", "consumer"],
            "tax_class": "standard",
            "category": "S",
            "rate": "19",
            "begins_on": date(2021, 1, 1),
        },
        {
            "seller_country": "DE",
            "buyer_country": ["FR", "IT"],
            "buyer_status": "business",
            "tax_class": "standard",
            "category": "AE",
            "rate": "0",
            "begins_on": date(2021, 1, 1),
            "legal_text": "Reverse charge.",
        },
    ],
}


def toml(value: object) -> str:
    """Write a value as TOML, all in one line."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        text = ", ".join(f"{json.dumps(key)} = {toml(it)}" for key, it in members)
        return f"{{ {text} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, cast('list[object]', value)))}]"
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)


def declaration(*path: str | int, becomes: object = None) -> Table:
    """Return a copy of what is declared, with one value replaced or taken away."""
    declared = copy.deepcopy(DECLARED)
    place: Any = declared
    for step in path[:-1]:
        place = place[step]
    if path and becomes is None:
        del place[path[-1]]
    elif path:
        place[path[-1]] = becomes
    return declared


def apply(
    conn: Connection[Any],
    folder: Path,
    declared: Table = DECLARED,
    **options: Any,  # noqa: ANN401
) -> list[Change]:
    file = folder / "catalog.toml"
    text = "".join(f"{name} = {toml(it)}\n" for name, it in declared.items())
    file.write_text(text, encoding="utf-8")
    return catalog.apply(conn, str(file), **options)


def refused(conn: Connection[Any], folder: Path, declared: Table) -> list[str]:
    before = {table: rows(conn, table) for table in TABLES}
    told = refusals(apply, conn, folder, declared)
    assert {table: rows(conn, table) for table in TABLES} == before
    return [re.sub(r"^catalog\.toml:\d+: ", "", line) for line in told]


def sentences(changes: list[Change]) -> list[str]:
    return [f"{it.what} {it.key} {it.change}: {it.detail}" for it in changes]


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


@pytest.mark.parametrize(
    ("path", "becomes", "told"),
    [
        (
            ("prices", "fee", "versions", 0, "amount"),
            "9.95",
            (
                "prices.fee.versions[1].amount: it is 9.90 in the version from"
                " 2026-01-01, and a price is never edited: add a version with another"
                " begins_on"
            ),
        ),
        (
            ("prices", "fee", "currency"),
            "USD",
            ("prices.fee.currency: it is EUR, and a price is never edited: make"
            " another price"),
        ),
        (
            ("prices", "fee", "timing"),
            "arrears",
            ("prices.fee.timing: it is advance, and a price is never edited: make"
            " another price"),
        ),
        (
            ("prices", "transfer", "meter"),
            "hours",
            ("prices.transfer.meter: it is gb, and a price is never edited: make"
            " another price"),
        ),
        (
            ("prices", "fee", "seller"),
            "other",
            ("prices.fee.seller: it is northlight, and a price is never edited: make"
            " another price"),
        ),
        (
            ("meters", "gb", "unit_code"),
            "C62",
            ("meters.gb.unit_code: it is E34, and usage was counted so: make another"
            " meter"),
        ),
        (
            ("tax_rates", 1, "category"),
            "K",
            ("tax_rates[2]: DE to FR, business, standard, from 2021-01-01, is AE 0 %,"
            " and has begun: end it, and add another"),
        ),
    ],
)  # fmt: skip
def test_what_somebody_relies_on_stays(
    conn: Connection[Any],
    tmp_path: Path,
    path: tuple[str | int, ...],
    becomes: object,
    told: str,
) -> None:
    builders.seller(conn, "other")
    builders.meter(conn, "hours")
    apply(conn, tmp_path)

    assert refused(conn, tmp_path, declaration(*path, becomes=becomes))[0] == told


def test_a_price_keeps_its_model(conn: Connection[Any], tmp_path: Path) -> None:
    apply(conn, tmp_path)
    declared = declaration("prices", "fee", "model", becomes="per_unit")
    declared["prices"]["fee"] |= {"meter": "gb", "timing": "arrears"}

    told = refused(conn, tmp_path, declared)

    assert [line.split(":")[0] for line in told] == [
        "prices.fee.model",
        "prices.fee.timing",
        "prices.fee.meter",
    ]


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


def test_prefixes_do_not_change_places(conn: Connection[Any], tmp_path: Path) -> None:
    apply(conn, tmp_path)
    swapped = declaration(
        "sellers",
        "northlight",
        "number_series",
        becomes={"invoice": "NLC-", "credit_note": "NL-"},
    )

    assert refused(conn, tmp_path, swapped)[0] == (
        "sellers.northlight.number_series.invoice: another series has the prefix NLC-"
        " now"
    )


@pytest.mark.parametrize(
    ("path", "becomes", "told"),
    [
        (
            ("sellers", "northlight", "phone"),
            "1",
            "sellers.northlight.phone: there is no such key (the keys are legal_name,",
        ),
        (
            ("sellers", "northlight", "city"),
            None,
            "sellers.northlight.city: it is missing",
        ),
        (
            ("sellers", "northlight", "city"),
            5,
            "sellers.northlight.city: 5 is not a text",
        ),
        (
            ("sellers", "northlight", "country"),
            "Germany",
            "sellers.northlight.country: 'Germany' is not a country code such as DE",
        ),
        (
            ("sellers", "northlight", "zone"),
            "Europe/Berln",
            "sellers.northlight.zone: there is no time zone Europe/Berln",
        ),
        (
            ("sellers", "northlight", "home_currency"),
            "EUX",
            "sellers.northlight: there is no currency EUX",
        ),
        (
            ("sellers", "northlight", "mail_from"),
            "Billing <a@example.com>",
            "sellers.northlight.mail_from: an address holds no spaces",
        ),
        (
            ("sellers", "northlight", "bank_accounts", "EUR", "iba"),
            "x",
            "sellers.northlight.bank_accounts: bank account.iba: there is no such key",
        ),
        (
            ("sellers", "northlight", "legal_footers", "english"),
            "x",
            "sellers.northlight.legal_footers: 'english' is not a language such as en",
        ),
        (
            ("sellers", "northlight", "number_series", "credit_note"),
            "NL-",
            "sellers.northlight.number_series: invoices and credit notes need prefixes",
        ),
        (
            ("sellers", "northlight", "number_series", "digits"),
            0,
            "sellers.northlight.number_series.digits: '0' is not a whole number from 1",
        ),
        (
            ("prices", "fee", "seller"),
            "x",
            "prices.fee.seller: there is no seller x",
        ),
        (
            ("prices", "fee", "currency"),
            "EUX",
            "prices.fee.currency: there is no currency EUX",
        ),
        (
            ("prices", "transfer", "meter"),
            "x",
            "prices.transfer.meter: there is no meter x",
        ),
        (
            ("prices", "transfer", "timing"),
            "advance",
            "prices.transfer.timing: usage is billed in arrears",
        ),
        (
            ("prices", "transfer", "meter"),
            None,
            "prices.transfer.meter: a per_unit price needs the meter that it is for",
        ),
        (
            ("prices", "fee", "meter"),
            "gb",
            "prices.fee.meter: a flat price has no meter",
        ),
        (("prices", "fee", "model"), "tiered", "prices.fee.model: 'tiered' is none of"),
        (("prices", "fee", "line_texts"), {}, "prices.fee.line_texts: there is none"),
        (
            ("prices", "fee", "versions"),
            [],
            "prices.fee.versions: it is not an array with at least one version",
        ),
        (
            ("prices", "fee", "versions", 0, "amount"),
            9.9,
            (
                "prices.fee.versions[1].amount: numbers are written in quotes, as in"
                ' "9.9", since a float loses decimals'
            ),
        ),
        (
            ("prices", "fee", "versions", 0, "amount"),
            10,
            "prices.fee.versions[1].amount: numbers are written in quotes",
        ),
        (
            ("prices", "fee", "versions", 0, "amount"),
            "-1",
            "prices.fee.versions[1].amount: '-1' is negative",
        ),
        (
            ("prices", "fee", "versions", 0, "begins_on"),
            "2026-01-01",
            "prices.fee.versions[1].begins_on: '2026-01-01' is not a date such as",
        ),
        (
            ("tax_rates", 0, "rate"),
            19.0,
            "tax_rates[1].rate: numbers are written in quotes",
        ),
        (
            ("tax_rates", 0, "rate"),
            "190",
            "tax_rates[1].rate: 190 is more than 100 percent",
        ),
        (
            ("tax_rates", 1, "rate"),
            "5",
            "tax_rates[2].rate: category AE has the rate 0",
        ),
        (
            ("tax_rates", 1, "legal_text"),
            None,
            "tax_rates[2].legal_text: category AE needs the sentence",
        ),
        (
            ("tax_rates", 0, "ends_on"),
            date(2021, 1, 1),
            "tax_rates[1].ends_on: it is not after begins_on",
        ),
        (
            ("tax_rates", 1, "buyer_country"),
            ["FR", "FR"],
            (
                "tax_rates[2]: DE to FR, business, standard, from 2021-01-01, stands in"
                " the file already"
            ),
        ),
        (
            ("tax_rates", 1, "buyer_country"),
            "France",
            "tax_rates[2].buyer_country: 'France' is not a country code such as DE",
        ),
        (("taxes",), {}, "taxes: there is no such table"),
        (("meters", "gb"), "x", "meters.gb: 'x' is not a table"),
        (("prices",), [], "prices: write a table for each, as in [prices.a-key]"),
        (("tax_rates",), {}, "tax_rates: write [[tax_rates]] before each"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any],
    tmp_path: Path,
    path: tuple[str | int, ...],
    becomes: object,
    told: str,
) -> None:
    told_lines = refused(conn, tmp_path, declaration(*path, becomes=becomes))

    assert len(told_lines) == 1
    assert told_lines[0].startswith(told)


def test_all_that_is_wrong_is_named_at_once(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = declaration("sellers", "northlight", "zone", becomes="x")
    declared["prices"]["fee"]["currency"] = "EUX"
    declared["meters"]["gb"]["nam"] = "x"

    assert len(refused(conn, tmp_path, declared)) == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a = ", "is not valid TOML: Invalid value (at end of document)."),
        (b'\xef\xbb\xbfa = 1\nb = "\xfc"', ":2: the file is not UTF-8."),
        (b"a = " + b"[" * 10_000, "is nested too deeply."),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    conn: Connection[Any], tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "c.toml").write_bytes(content)

    with pytest.raises(InputError, match=r"c\.toml") as raised:
        catalog.apply(conn, str(tmp_path / "c.toml"))

    assert str(raised.value).endswith(sentence)


def test_a_file_that_is_missing_is_one_sentence(conn: Connection[Any]) -> None:
    with pytest.raises(InputError, match="No such file or directory") as raised:
        catalog.apply(conn, "absent.toml")

    assert raised.value.exit_code == 2


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
