"""Numbers and dates are written as the account's language writes them."""

import tomllib
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbill import resources, wording

NO_BREAK = "\N{NO-BREAK SPACE}"
QUOTE = "\N{RIGHT SINGLE QUOTATION MARK}"


@pytest.mark.parametrize(
    ("tag", "written"),
    [
        ("en", f"EUR{NO_BREAK}1,234,567.50"),
        ("en-GB", f"EUR{NO_BREAK}1,234,567.50"),
        ("de", f"1.234.567,50{NO_BREAK}EUR"),
        ("de-AT", f"1.234.567,50{NO_BREAK}EUR"),
        ("de-CH", f"EUR{NO_BREAK}1{QUOTE}234{QUOTE}567.50"),
        ("fr", f"1\u202f234\u202f567,50{NO_BREAK}EUR"),
        ("xx", f"EUR{NO_BREAK}1,234,567.50"),
    ],
)
def test_an_amount_is_written_in_the_language(tag: str, written: str) -> None:
    words = wording.find(tag)

    assert words.money(Decimal("1234567.5"), currency="EUR", digits=2) == written


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [
        ("0", 2, "0.00"),
        ("0", 0, "0"),
        ("-0.5", 2, "\N{MINUS SIGN}0.50"),
        ("1000", 3, "1,000.000"),
        ("0.0125", 2, "0.0125"),
        ("12.500000", 2, "12.50"),
        ("1E+3", 0, "1,000"),
        ("999", 0, "999"),
    ],
)
def test_no_decimal_is_lost_and_none_invented(
    value: str, digits: int, written: str
) -> None:
    assert wording.find("en").number(Decimal(value), min_digits=digits) == written


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6))
def test_a_written_number_is_the_number(value: Decimal) -> None:
    written = wording.find("de").number(value, min_digits=2)

    plain = written.replace(".", "").replace(",", ".").replace("\N{MINUS SIGN}", "-")
    assert Decimal(plain) == value


@pytest.mark.parametrize(
    ("tag", "day", "in_full", "short"),
    [
        ("en", date(2026, 3, 1), "1 March 2026", "1 Mar 2026"),
        ("de", date(2026, 3, 1), "1. März 2026", "01.03.2026"),
        ("fr", date(2026, 3, 1), "1er mars 2026", "01/03/2026"),
        ("fr", date(2026, 12, 25), "25 décembre 2026", "25/12/2026"),
    ],
)
def test_a_date_is_written_in_the_language(
    tag: str, day: date, in_full: str, short: str
) -> None:
    words = wording.find(tag)

    assert (words.day(day), words.short_day(day)) == (in_full, short)


def test_a_period_of_one_day_is_that_day() -> None:
    words = wording.find("en")

    assert words.period(date(2026, 3, 1), date(2026, 3, 1)) == "1 Mar 2026"


@pytest.mark.parametrize(
    ("tag", "written"),
    [("en", "1,000/1,096 days"), ("de", "1.000/1.096 Tage")],
)
def test_a_part_does_not_wrap(tag: str, written: str) -> None:
    words = wording.find(tag)

    part = words.part("part", Decimal(1000), Decimal(1096))

    assert part == written.replace(" ", NO_BREAK)


def test_an_unknown_unit_is_its_code() -> None:
    assert wording.find("de").unit("X99") == "X99"


@pytest.mark.parametrize("tag", ["../en", "en.toml", "", "EN", "e"])
def test_a_tag_never_names_another_file(tag: str) -> None:
    assert wording.find(tag) is wording.find("en")


def test_each_language_has_all_the_texts() -> None:
    """A region has only some, and no other than its language."""
    folder = resources.path("templates", "mail")
    tables = {
        file.stem: tomllib.loads(file.read_text(encoding="utf-8"))
        for file in folder.glob("*.toml")
    }
    texts = {tag: set(table.get("texts", {})) for tag, table in tables.items()}
    units = {tag: set(table.get("units", {})) for tag, table in tables.items()}

    for tag in tables:
        if "-" in tag:
            assert texts[tag] <= texts["en"]
        else:
            assert (tag, texts[tag]) == (tag, texts["en"])
            assert (tag, units[tag]) == (tag, units["en"])
