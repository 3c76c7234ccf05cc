"""The figures of docs/prices.md are what its catalog is billed by."""

import re
import tomllib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import catalog, terms
from tests import builders
from tests.actors import bill_all
from tests.builders import Account, Price
from tests.shop import findings, value, values

pytestmark = pytest.mark.one_server

TEXT = (Path(__file__).parents[2] / "docs" / "prices.md").read_text(encoding="utf-8")
CATALOG = "\n".join(re.findall(r"^```toml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
FIGURES = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \| ([0-9. +]+) \|$", TEXT, re.MULTILINE)


@pytest.fixture
def shop(conn: Connection[Any], tmp_path: Path) -> dict[str, Price]:
    """Apply the catalog; return its prices by key."""
    file = tmp_path / "catalog.toml"
    file.write_text(CATALOG, encoding="utf-8")
    conn.execute("SELECT")
    catalog.apply(conn, str(file))
    found = conn.execute(
        "SELECT price_id, key, seller_id, currency, meter_id FROM pgbill.price"
    )
    return {row[1]: Price(*row) for row in found}


def use(conn: Connection[Any], account: Account, meter_id: int, quantity: str) -> None:
    """Import records, such as `100 eu`, a minute apart."""
    for number, record in enumerate(quantity.split(", ")):
        amount, _, region = record.partition(" ")
        at = datetime(2026, 1, 15, 12, tzinfo=UTC) + timedelta(minutes=number)
        builders.usage(
            conn,
            account,
            meter_id,
            amount,
            occurred_at=at,
            dimensions={"region": region} if region else None,
        )


@pytest.mark.parametrize("figure", FIGURES, ids=" | ".join)
def test_a_figure_is_what_is_billed(
    conn: Connection[Any], shop: dict[str, Price], figure: tuple[str, str, str]
) -> None:
    named, quantity, billed = figure
    prices = [shop[key] for key in re.findall(r"`([^`]+)`", named)]
    account = builders.account(conn, prices[0].seller_id)
    meter_id = prices[0].meter_id
    seats = quantity if meter_id is None else "1"
    builders.subscription(conn, account, *((price, seats) for price in prices))
    if meter_id is not None and quantity != "none":
        use(conn, account, meter_id, quantity)

    bill_all(conn, account, through_on=date(2026, 2, 1))

    amounts = values(conn, "SELECT net_amount FROM pgbill.invoice_line")
    assert sorted(amounts) == sorted(map(Decimal, billed.split(" + ")))
    assert findings(conn) == {}


def test_more_than_a_closed_tier_holds_fails_the_account(
    conn: Connection[Any], shop: dict[str, Price]
) -> None:
    (sentence,) = re.findall(r"`(price steps: [^`]+)`", TEXT)
    account = builders.account(conn, shop["steps"].seller_id)
    builders.subscription(conn, account, shop["steps"])
    use(conn, account, shop["steps"].meter_id or 0, "31")
    bill_all(conn, account)

    rated = "SELECT problem FROM pgbill.rate(ARRAY[%s], ARRAY[%s::bigint], %s, 3)"
    through_on = date(2026, 2, 1)

    assert (
        value(conn, rated, account.bucket, account.account_id, through_on) == sentence
    )


def test_every_model_has_a_figure() -> None:
    prices = tomllib.loads(CATALOG)["prices"]
    shown = {key for named, *_ in FIGURES for key in re.findall(r"`([^`]+)`", named)}

    assert shown == prices.keys()
    assert {price["model"] for price in prices.values()} == terms.MODELS.keys()
