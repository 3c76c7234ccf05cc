"""Read and write the prices that the database has, with their versions and tiers.

Prices are written by `catalog apply` alone. What a version says is inserted and never
updated: an issued invoice can be computed again from what it was made by.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from pgbill import db
from pgbill.pricing import Price
from pgbill.terms import Tier, Version

_QUERIES = db.Queries("pricelist")


@dataclass(frozen=True, slots=True)
class _StoredPrice:
    key: str
    seller: str
    currency: str
    model: str
    timing: str
    meter: str | None
    group_by: str | None
    tax_included: bool
    billing_interval: str | None
    unit_code: str
    tax_class: str
    revenue_account: str | None
    line_texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class _StoredVersion:
    key: str
    begins_on: date
    per_quantity: Decimal
    package_size: Decimal | None
    free_quantity: Decimal
    fixed_amount: Decimal
    free_amount: Decimal | None
    free_count: int | None
    record_minimum: Decimal | None
    record_maximum: Decimal | None
    bills_zero: bool
    minimum_amount: Decimal | None
    maximum_amount: Decimal | None


@dataclass(frozen=True, slots=True)
class _StoredTier:
    key: str
    begins_on: date
    group_value: str
    up_to: Decimal | None
    unit_amount: Decimal
    flat_amount: Decimal


@dataclass(frozen=True, slots=True)
class _Billed:
    key: str
    until: date


_VERSION_COLUMNS = [
    each.name for each in fields(Version) if each.name not in ("tiers", "place")
]


def load(conn: Connection[Any]) -> dict[str, Price]:
    """Return all prices by key, as a file would declare them."""
    versions: dict[str, dict[date, Version]] = {}
    for row in db.fetch_all(conn, _QUERIES["versions"], _StoredVersion):
        columns = {name: getattr(row, name) for name in _VERSION_COLUMNS}
        version = Version(tiers={}, **columns)
        versions.setdefault(row.key, {})[row.begins_on] = version
    for row in db.fetch_all(conn, _QUERIES["tiers"], _StoredTier):
        tiers = versions[row.key][row.begins_on].tiers
        tier = Tier(row.up_to, row.unit_amount, row.flat_amount)
        tiers[row.group_value] = (*tiers.get(row.group_value, ()), tier)
    prices = db.fetch_all(conn, _QUERIES["prices"], _StoredPrice)
    return {
        it.key: Price(versions=versions.get(it.key, {}), **asdict(it)) for it in prices
    }


def billed_until(conn: Connection[Any], keys: Iterable[str]) -> dict[str, date]:
    """Return of each price the first day from which no service is billed yet.

    A bound, not a search through all lines: a price has it if an account that pays it
    has been billed, up to the account's last boundary.
    """
    found = db.fetch_all(conn, _QUERIES["billed_until"], _Billed, keys=list(keys))
    return {each.key: each.until for each in found}


def write(conn: Connection[Any], price: Price, known: Price | None) -> None:
    """Write what is new about a price; what its versions say is never touched."""
    columns = {each.name: getattr(price, each.name) for each in fields(_StoredPrice)}
    if any(getattr(known, name, None) != value for name, value in columns.items()):
        columns["line_texts"] = Jsonb(price.line_texts)
        db.execute(conn, _QUERIES["write_price"], **columns)
    for begins_on, version in sorted(price.versions.items()):
        if known is None or begins_on not in known.versions:
            _write_version(conn, price.key, version)


def _write_version(conn: Connection[Any], key: str, version: Version) -> None:
    columns = {name: getattr(version, name) for name in _VERSION_COLUMNS}
    db.execute(conn, _QUERIES["write_version"], key=key, **columns)
    for group, tiers in version.tiers.items():
        for number, tier in enumerate(tiers, start=1):
            db.execute(
                conn,
                _QUERIES["write_tier"],
                key=key,
                begins_on=version.begins_on,
                group_value=group,
                tier_no=number,
                **asdict(tier),
            )
