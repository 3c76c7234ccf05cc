"""A catalog that holds something wrong is refused as a whole, with all of it named."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import catalog
from pgbill.errors import InputError
from tests import builders
from tests.catalogs import apply, declaration, refused

pytestmark = pytest.mark.one_server


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
            ("sellers", "northlight", "country"),
            "XX",
            "sellers.northlight.country: XX is not a country of ISO 3166",
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
        (
            ("tax_rates", 1, "buyer_country"),
            ["FR", "UK"],
            "tax_rates[2].buyer_country: UK is not a country of ISO 3166",
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
