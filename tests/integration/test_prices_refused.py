"""A price that says something wrong is refused, with the place and the reason."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import catalog
from tests.catalogs import Table, apply, refused
from tests.inputs import refusals
from tests.integration.test_prices_declared import (
    BEGIN,
    MODELS,
    OPEN,
    STEPS,
    catalog_of,
)

pytestmark = pytest.mark.one_server


def upto(*ends: str | None) -> Table:
    """Return tiers that end there."""
    return {
        "tiers": [
            {"amount": "1"} if end is None else {"up_to": end, "amount": "1"}
            for end in ends
        ]
    }


AMOUNT = {"amount": "1"}


@pytest.mark.parametrize(
    ("model", "version", "told"),
    [
        (
            "graduated",
            upto("10", "10", None),
            "tiers[2].up_to: 10 is not more than 10, where the tier begins",
        ),
        (
            "volume",
            upto("10", "5", None),
            "tiers[2].up_to: 5 is not more than 10, where the tier begins",
        ),
        (
            "graduated",
            upto(None, "10"),
            "tiers[1].up_to: it is missing; only the last tier has no end",
        ),
        ("graduated", upto("0"), "tiers[1].up_to: '0' is not more than zero"),
        ("graduated", upto("-1"), "tiers[1].up_to: '-1' is negative"),
        ("graduated", {"tiers": []}, "tiers: it is not an array of 1 to 100 tiers"),
        (
            "graduated",
            upto(*map(str, range(1, 102))),
            "tiers: it is not an array of 1 to 100 tiers",
        ),
        ("graduated", {"tiers": ["1"]}, "tiers[1]: '1' is not a table"),
        (
            "graduated",
            {"tiers": [{"up_to": "1"}]},
            "tiers[1]: it has no amount and no flat",
        ),
        (
            "graduated",
            {"tiers": [{"from": "1", "amount": "1"}]},
            "tiers[1].from: there is no such key (the keys are up_to, amount, flat)",
        ),
        (
            "stairstep",
            {"tiers": [{"amount": "1"}]},
            "tiers[1].amount: there is no such key (the keys are up_to, flat)",
        ),
        ("graduated", {}, "tiers: it is missing"),
        (
            "graduated",
            {**upto(None), "amount": "1"},
            (
                "amount: a graduated price has no such key (the keys are begins_on,"
                " tiers, package_size, bills_zero, minimum, maximum)"
            ),
        ),
        (
            "flat",
            {**AMOUNT, **upto(None)},
            "tiers: a flat price has no such key (the keys are begins_on, amount)",
        ),
        (
            "per_unit",
            {**AMOUNT, "percent": "1"},
            "percent: a per_unit price has no such key",
        ),
        (
            "minimum",
            {**AMOUNT, "minimum": "1"},
            "minimum: a minimum price has no such key (the keys are begins_on, amount)",
        ),
        ("minimum", {"amount": "-100"}, "amount: '-100' is negative"),
        ("per_unit", {**AMOUNT, "minimum": "-1"}, "minimum: '-1' is negative"),
        (
            "per_unit",
            {**AMOUNT, "minimum": "10", "maximum": "9.99"},
            "maximum: 9.99 is less than the minimum, which is 10",
        ),
        (
            "percentage",
            {"percent": "1", "record_minimum": "2", "record_maximum": "1"},
            "record_maximum: 1 is less than the record_minimum, which is 2",
        ),
        ("per_unit", {**AMOUNT, "per": "0"}, "per: '0' is not more than zero"),
        ("package", AMOUNT, "package_size: it is missing"),
        (
            "package",
            {**AMOUNT, "package_size": "0"},
            "package_size: '0' is not more than zero",
        ),
        ("percentage", {"percent": "101"}, "percent: '101' is more than 100 percent"),
        (
            "percentage",
            {"percent": "1", "free_count": -1},
            "free_count: '-1' is not a whole number from 0 to 999999999",
        ),
        (
            "graduated_percentage",
            {"tiers": [{"percent": "100.1"}]},
            "tiers[1].percent: '100.1' is more than 100 percent",
        ),
        ("capacity", {**AMOUNT, "included": "10"}, "overage: it is missing"),
        (
            "volume",
            {"tiers": OPEN, "bills_zero": "yes"},
            "bills_zero: 'yes' is neither true nor false",
        ),
        (
            "per_unit",
            {**AMOUNT, "groups": {"eu": "1"}},
            "groups: without group_by there are no groups (the keys are begins_on,",
        ),
        (
            "flat",
            {"amount": "1", "begins_on": "2026"},
            "begins_on: '2026' is not a date",
        ),
    ],
)
def test_a_version_that_says_something_wrong_is_refused(
    conn: Connection[Any], tmp_path: Path, model: str, version: Table, told: str
) -> None:
    (line,) = refused(conn, tmp_path, catalog_of(model, version))

    assert line.startswith(f"prices.it.versions[1].{told}")


@pytest.mark.parametrize(
    ("model", "version", "told"),
    [
        ("per_unit", {"groups": {}}, "groups: write a value for each, as in"),
        ("per_unit", {"groups": "eu"}, "groups: write a value for each, as in"),
        ("per_unit", {"groups": {"eu": "x"}}, "groups.eu.amount: 'x' is not a number"),
        ("per_unit", {"groups": {"": "1"}}, "groups: a value has 1 to 200 printable"),
        (
            "per_unit",
            {"groups": {"eu": {"amount": "1", "minimum": "1"}}},
            "groups.eu.minimum: a group of a per_unit price has no such key",
        ),
        (
            "volume",
            {"groups": {"eu": {"tiers": upto("2", "1")["tiers"]}}},
            "groups.eu.tiers[2].up_to: 1 is not more than 2",
        ),
        (
            "capacity",
            {"groups": {"eu": "1"}},
            "groups.eu: '1' is not a table",
        ),
        (
            "capacity",
            {**AMOUNT, "groups": {"eu": MODELS["capacity"][0]}},
            "included: it is missing",
        ),
        ("per_unit", {}, "amount: it is missing"),
        (
            "graduated",
            {"bills_zero": True, "groups": {"eu": {"tiers": OPEN}}},
            ": what is billed without usage needs amounts besides those of groups",
        ),
        (
            "per_unit",
            {"minimum": "5", "groups": {"eu": "1"}},
            ": what is billed without usage needs amounts besides those of groups",
        ),
        (
            "percentage",
            {"percent": "1", "record_minimum": "1", "groups": {"eu": "2"}},
            "groups: where a record has a minimum or maximum, there is one percentage",
        ),
    ],
)
def test_a_group_that_says_something_wrong_is_refused(
    conn: Connection[Any], tmp_path: Path, model: str, version: Table, told: str
) -> None:
    lines = refused(conn, tmp_path, catalog_of(model, version, group_by="region"))

    place, _, reason = told.partition(": ")
    assert lines[0].startswith(
        f"prices.it.versions[1]{'.' * bool(place)}{place}: {reason}"
    )


@pytest.mark.parametrize(
    ("model", "columns", "told"),
    [
        ("minimum", {"meter": "gb"}, "meter: a minimum price has no meter"),
        (
            "maximum",
            {"timing": "advance"},
            "timing: a maximum is billed in arrears, when the rest is known",
        ),
        ("volume", {"timing": "advance"}, "timing: usage is billed in arrears"),
        (
            "flat",
            {"group_by": "region"},
            "group_by: only usage, which has a meter, has dimensions",
        ),
        (
            "per_unit",
            {"billing_interval": "yearly"},
            "billing_interval: usage is billed by the periods of its account",
        ),
        ("flat", {"billing_interval": "daily"}, "billing_interval: 'daily' is none of"),
        ("flat", {"tax_included": "no"}, "tax_included: 'no' is neither true nor"),
        ("volume", {"meter": "minutes"}, "meter: there is no meter minutes"),
    ],
)
def test_a_price_that_does_not_fit_its_model_is_refused(
    conn: Connection[Any], tmp_path: Path, model: str, columns: Table, told: str
) -> None:
    declared = catalog_of(model, MODELS[model][0])
    declared["prices"]["it"] |= columns

    (line,) = refused(conn, tmp_path, declared)

    assert line.startswith(f"prices.it.{told}")


def test_only_usage_has_a_minimum_for_a_period(
    conn: Connection[Any], tmp_path: Path
) -> None:
    version = {"tiers": OPEN, "minimum": "5"}
    declared = catalog_of("graduated", version, timing="advance")
    del declared["prices"]["it"]["meter"]

    (line,) = refused(conn, tmp_path, declared)

    assert line.startswith(
        "prices.it.versions[1].minimum: a graduated price without meter has no such key"
    )


def test_a_percentage_needs_the_amount_of_each_record(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = catalog_of("percentage", {"percent": "1"})
    declared["meters"]["gb"]["aggregation"] = "count"

    (line,) = refused(conn, tmp_path, declared)

    assert line.endswith("so its meter is a sum, not a count")


@pytest.mark.parametrize(
    ("model", "becomes", "told"),
    [
        ("per_unit", {"amount": "0.26"}, "amount: it is 0.25 in the version from"),
        ("per_unit", {"per": "1"}, "per: it is 1000 in the version from"),
        ("per_unit", {"minimum": "6"}, "minimum: it is 5 in the version from"),
        (
            "graduated",
            {"tiers": [OPEN[0], {"amount": "1.4", "flat": "3"}]},
            "tiers[2]: it is beyond: 1.5 + 3 in the version from",
        ),
        (
            "stairstep",
            {"tiers": [*STEPS, {"flat": "20"}]},
            "it is up to 10: 5, up to 20: 9 in the version from",
        ),
        ("percentage", {"percent": "1.3"}, "percent: it is 1.2 % in the version from"),
        ("percentage", {"free_count": 4}, "free_count: it is 3 in the version from"),
        (
            "capacity",
            {"overage": "0.2"},
            "versions[1]: it is 50 up to 1000, beyond: 0.10 in the version from",
        ),
    ],
)
def test_a_version_that_is_there_keeps_its_terms(
    conn: Connection[Any], tmp_path: Path, model: str, becomes: Table, told: str
) -> None:
    version = MODELS[model][0]
    apply(conn, tmp_path, catalog_of(model, version))

    (line,) = refused(conn, tmp_path, catalog_of(model, {**version, **becomes}))

    assert told in line
    assert line.endswith("is never edited: add a version with another begins_on")


def test_a_version_that_is_there_gets_no_other_groups(
    conn: Connection[Any], tmp_path: Path
) -> None:
    def grouped(**groups: str) -> Table:
        version = {"amount": "1", "groups": groups}
        return catalog_of("per_unit", version, group_by="region")

    apply(conn, tmp_path, grouped(eu="2"))

    (line,) = refused(conn, tmp_path, grouped(eu="2", us="3"))

    assert line.startswith("prices.it.versions[1].groups.us: it is not there in the")


@pytest.mark.parametrize(
    ("column", "becomes", "told"),
    [
        ("group_by", "region", "it is none"),
        ("tax_included", True, "it is false"),
        ("model", "volume", "it is graduated"),
    ],
)
def test_a_price_keeps_what_it_was_agreed_to_be(
    conn: Connection[Any], tmp_path: Path, column: str, becomes: object, told: str
) -> None:
    version = {"tiers": OPEN}
    apply(conn, tmp_path, catalog_of("graduated", version))

    changed = catalog_of("graduated", version)
    changed["prices"]["it"][column] = becomes

    assert refused(conn, tmp_path, changed) == [
        f"prices.it.{column}: {told}, and a price is never edited: make another price"
    ]


def test_two_versions_cannot_begin_at_once(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = catalog_of("flat", {"amount": "1"}, {"amount": "2"})

    assert refused(conn, tmp_path, declared) == [
        f"prices.it.versions[2]: {BEGIN} has a version already"
    ]


FILE = """\
[meters.gb]
name = "Transfer"
unit_code = "E34"
aggregation = "average"

[prices.transfer]
currency = "EUR"
model = "graduated"
timing = "arrears"
meter = "gb"
unit_code = "E34"
tax_class = "standard"
line_texts = { en = "Transfer" }
versions = [
    { begins_on = 2026-01-01, tiers = [
        { up_to = "10", amount = "2" },
        { up_to = "10", amount = "1" },
    ] },
]

[colours]
"""


def test_all_that_is_wrong_is_named_with_its_line_in_the_order_of_the_file(
    conn: Connection[Any], tmp_path: Path
) -> None:
    file = tmp_path / "catalog.toml"
    fixed = FILE.replace("currency", 'seller = "x"\ncurrency')

    def told(text: str) -> list[str]:
        file.write_text(text, encoding="utf-8")
        lines = refusals(catalog.apply, conn, str(file))
        return [line.partition(": ")[0] for line in lines]

    conn.execute("SELECT")
    assert told(FILE) == ["catalog.toml:4", "catalog.toml:6", "catalog.toml:21"]
    assert told(fixed)[1:3] == ["catalog.toml:7", "catalog.toml:18"]
