"""Every price model can be declared, and what is declared is what is stored."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.actors import bill_all
from tests.catalogs import Table, apply, declaration, refused, sentences
from tests.inputs import rows
from tests.shop import value

pytestmark = pytest.mark.one_server

BEGIN = date(2026, 1, 1)
OPEN = [{"up_to": "10", "amount": "2"}, {"amount": "1.5", "flat": "3"}]
STEPS = [{"up_to": "10", "flat": "5"}, {"up_to": "20", "flat": "9"}]
# model: its keys, the tiers (up_to, unit, flat) that it is stored as, and how it looks.
MODELS: dict[str, tuple[Table, list[tuple[str | None, str, str]], str]] = {
    "flat": ({"amount": "9.90"}, [(None, "9.90", "0")], "9.90 EUR"),
    "per_unit": (
        {"amount": "0.25", "per": "1000", "minimum": "5", "maximum": "50.00"},
        [(None, "0.25", "0")],
        "0.25 EUR, for 1000 units, at least 5, at most 50.00",
    ),
    "package": (
        {"amount": "100", "package_size": "10", "free_quantity": "20"},
        [(None, "100", "0")],
        "100 EUR, for each package of 10, 20 free",
    ),
    "graduated": (
        {"tiers": OPEN, "package_size": "5", "bills_zero": True},
        [("10", "2", "0"), (None, "1.5", "3")],
        ("up to 10: 2, beyond: 1.5 + 3 EUR, for each package of 5, also for nothing"),
    ),
    "volume": (
        {"tiers": OPEN},
        [("10", "2", "0"), (None, "1.5", "3")],
        "up to 10: 2, beyond: 1.5 + 3 EUR",
    ),
    "stairstep": (
        {"tiers": STEPS},
        [("10", "0", "5"), ("20", "0", "9")],
        "up to 10: 5, up to 20: 9 EUR",
    ),
    "stairstep_cumulative": (
        {"tiers": STEPS},
        [("10", "0", "5"), ("20", "0", "9")],
        "up to 10: 5, up to 20: 9 EUR",
    ),
    "capacity": (
        {"amount": "50", "included": "1000", "overage": "0.10"},
        [("1000", "0", "50"), (None, "0.10", "0")],
        "50 up to 1000, beyond: 0.10 EUR",
    ),
    "percentage": (
        {
            "percent": "1.2",
            "fixed": "0.10",
            "free_amount": "500",
            "free_count": 3,
            "record_minimum": "0.5",
            "record_maximum": "9",
        },
        [(None, "0.012", "0")],
        (
            "1.2 % (EUR), 0.10 for each record, the first 500 free, the first 3"
            " records free, a record at least 0.5, a record at most 9"
        ),
    ),
    "graduated_percentage": (
        {"tiers": [{"up_to": "1000", "percent": "1", "flat": "200"}, {"percent": "2"}]},
        [("1000", "0.01", "200"), (None, "0.02", "0")],
        "up to 1000: 1 % + 200, beyond: 2 % (EUR)",
    ),
    "minimum": ({"amount": "100"}, [(None, "100", "0")], "100 EUR"),
    "maximum": ({"amount": "900"}, [(None, "900", "0")], "900 EUR"),
}
WITHOUT_METER = ("flat", "minimum", "maximum")


def catalog_of(model: str, *versions: Table, **columns: object) -> Table:
    """Declare one price, of usage if the model takes any."""
    declared = declaration()
    price = {
        **declared["prices"]["transfer"],
        "model": model,
        "versions": [{"begins_on": BEGIN, **version} for version in versions],
        **columns,
    }
    if model in WITHOUT_METER:
        del price["meter"]
    declared["prices"] = {"it": price}
    return declared


def tiers(conn: Connection[Any]) -> list[tuple[str, str | None, str, str]]:
    return conn.execute(
        "SELECT group_value, up_to::text, unit_amount::text, flat_amount::text"
        " FROM pgbill.price_tier ORDER BY begins_on, group_value, tier_no"
    ).fetchall()


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_stored_as_it_is_declared(
    conn: Connection[Any], tmp_path: Path, model: str
) -> None:
    version, stored, looks = MODELS[model]

    changes = apply(conn, tmp_path, catalog_of(model, version))

    assert f"price it added: {looks} from 2026-01-01" in sentences(changes)
    assert tiers(conn) == [("", *tier) for tier in stored]
    assert apply(conn, tmp_path, catalog_of(model, version)) == []


def test_the_options_of_a_version_are_stored(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path, catalog_of("percentage", MODELS["percentage"][0]))

    (version,) = rows(conn, "price_version")
    del version["price_id"]
    assert {name: str(it) for name, it in version.items() if it is not None} == {
        "begins_on": "2026-01-01",
        "per_quantity": "1",
        "free_quantity": "0",
        "fixed_amount": "0.1",
        "free_amount": "500",
        "free_count": "3",
        "record_minimum": "0.5",
        "record_maximum": "9",
        "bills_zero": "False",
    }


@pytest.mark.parametrize("model", ["graduated", "volume", "package", "capacity"])
def test_what_a_subscription_has_many_of_is_priced_without_a_meter(
    conn: Connection[Any], tmp_path: Path, model: str
) -> None:
    declared = catalog_of(model, MODELS[model][0], timing="advance")
    del declared["prices"]["it"]["meter"]

    apply(conn, tmp_path, declared)

    assert [row["meter_id"] for row in rows(conn, "price")] == [None]


def test_a_percentage_is_stored_exactly(conn: Connection[Any], tmp_path: Path) -> None:
    percent = "2.900000000000000001"

    apply(conn, tmp_path, catalog_of("percentage", {"percent": percent}))

    assert value(conn, "SELECT unit_amount FROM pgbill.price_tier") == Decimal(
        "0.02900000000000000001"
    )


def test_values_of_a_dimension_have_amounts_of_their_own(
    conn: Connection[Any], tmp_path: Path
) -> None:
    groups = {"eu": "0.12", "us": {"amount": "0.10"}}
    version = {"amount": "0.2", "groups": groups}
    declared = catalog_of("per_unit", version, group_by="region")

    changes = apply(conn, tmp_path, declared)

    assert sentences(changes)[6] == (
        "price it added: us: 0.10; eu: 0.12; others: 0.2 EUR from 2026-01-01"
    )
    assert tiers(conn) == [
        ("", None, "0.2", "0"),
        ("eu", None, "0.12", "0"),
        ("us", None, "0.10", "0"),
    ]
    assert apply(conn, tmp_path, declared) == []


def test_values_of_a_dimension_may_be_all_that_has_amounts(
    conn: Connection[Any], tmp_path: Path
) -> None:
    version = {"groups": {"eu": {"tiers": OPEN}}}

    apply(conn, tmp_path, catalog_of("graduated", version, group_by="region"))

    assert tiers(conn) == [("eu", "10", "2", "0"), ("eu", None, "1.5", "3")]


def test_what_a_price_is_besides_its_amounts_is_stored(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = catalog_of("flat", {"amount": "1"}, tax_included=True)
    declared["prices"]["it"]["billing_interval"] = "yearly"

    apply(conn, tmp_path, declared)

    (price,) = rows(conn, "price")
    assert (price["tax_included"], price["billing_interval"]) == (True, "yearly")
    assert apply(conn, tmp_path, declared) == []


def test_another_version_begins_at_a_stated_date(
    conn: Connection[Any], tmp_path: Path
) -> None:
    first, later = {"tiers": OPEN}, {"begins_on": date(2027, 1, 1), "tiers": STEPS}
    later["tiers"] = [{"amount": "3"}]
    apply(conn, tmp_path, catalog_of("graduated", first))

    changes = apply(conn, tmp_path, catalog_of("graduated", first, later))

    assert sentences(changes) == ["price it new version: beyond: 3 EUR from 2027-01-01"]
    assert len(tiers(conn)) == 3


def billed(conn: Connection[Any], tmp_path: Path, model: str, **columns: str) -> Table:
    """Bill an account for a price up to 1 March; return the catalog."""
    declared = catalog_of(model, {"amount": "1"}, **columns)
    apply(conn, tmp_path, declared)
    seller_id, price_id, meter_id = conn.execute(
        "SELECT seller_id, price_id, meter_id FROM pgbill.price"
    ).fetchone() or (0, 0, 0)
    account = builders.account(conn, seller_id)
    price = builders.Price(price_id, "it", seller_id, "EUR", meter_id)
    builders.subscription(conn, account, price)
    bill_all(conn, account, through_on=date(2026, 3, 1))
    return declared


@pytest.mark.parametrize(
    ("timing", "begins_on"),
    [("advance", date(2026, 3, 2)), ("arrears", date(2026, 3, 1))],
)
def test_what_is_billed_gets_no_other_version(
    conn: Connection[Any], tmp_path: Path, timing: str, begins_on: date
) -> None:
    """At a boundary an advance fee is billed for what begins there."""
    declared = billed(conn, tmp_path, "flat", timing=timing)
    version: Table = {"begins_on": begins_on - timedelta(days=1), "amount": "2"}
    declared["prices"]["it"]["versions"].append(version)

    (told,) = refused(conn, tmp_path, declared)

    assert told == (
        f"prices.it.versions[2].begins_on: service that begins before {begins_on} is"
        " billed already: begin then, or later"
    )
    version["begins_on"] = begins_on
    assert len(apply(conn, tmp_path, declared)) == 1


def test_usage_is_billed_where_its_period_ends(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = billed(conn, tmp_path, "per_unit")
    version = {"begins_on": date(2026, 3, 1), "amount": "2"}
    declared["prices"]["it"]["versions"].append(version)

    assert len(apply(conn, tmp_path, declared)) == 1


def test_a_version_may_be_added_before_the_first(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """Service that had no amount yet has never been billed."""
    declared = billed(conn, tmp_path, "flat", timing="advance")
    earlier = {"begins_on": date(2025, 1, 1), "amount": "2"}
    declared["prices"]["it"]["versions"].append(earlier)

    assert len(apply(conn, tmp_path, declared)) == 1
