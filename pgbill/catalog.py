"""Apply a catalog file: bring sellers, meters, prices and tax rates to what it says.

What would change is told first, then it is written, in one transaction; the second time
nothing changes. Applies queue behind an advisory lock, so each compares with what the
one before it has written. Runs go on meanwhile: they read each thing by itself, and
issued invoices keep their copies.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.types.json import Jsonb

from pgbill import db, declaration, difference, lines
from pgbill.declaration import Declaration, Meter, Price, Seller
from pgbill.difference import Change, Stored, StoredSeries
from pgbill.errors import TemporaryError
from pgbill.problem import LIMIT, BadInputError
from pgbill.taxrate import TaxRate

_QUERIES = db.Queries("catalog")

# Only catalogs use this number: the letters of the word.
_ADVISORY_LOCK = int.from_bytes(b"catalog", "big")


@dataclass(frozen=True, slots=True)
class _Name:
    name: str


@dataclass(frozen=True, slots=True)
class _Today:
    today: date


@dataclass(frozen=True, slots=True)
class _StoredSeller:
    key: str
    content: dict[str, object]


@dataclass(frozen=True, slots=True)
class _StoredPrice:
    key: str
    seller: str
    currency: str
    model: str
    timing: str
    meter: str | None
    unit_code: str
    tax_class: str
    revenue_account: str | None
    line_texts: dict[str, str]
    amounts: dict[str, str] | None

    def price(self) -> Price:
        """Return it as a file would declare it."""
        columns: dict[str, Any] = asdict(self)
        columns["amounts"] = {
            date.fromisoformat(on): Decimal(amount)
            for on, amount in (self.amounts or {}).items()
        }
        return Price(**columns)


def apply(
    conn: Connection[Any],
    file: str,
    *,
    is_dry_run: bool = False,
    announce: Callable[[list[Change]], None] | None = None,
) -> list[Change]:
    """Apply a file: all of it, or nothing.

    Args:
        conn: In autocommit mode, as the owner of the schema.
        file: The TOML file.
        is_dry_run: Only find out what would change.
        announce: Is told what will change, before anything is written.

    Returns:
        What has changed; empty if all was so already.

    Raises:
        BadInputError: The file holds something wrong, or changes what never changes.
    """
    declared = declaration.read(file)
    with conn.transaction():
        db.execute(conn, _QUERIES["lock"], key=_ADVISORY_LOCK)
        stored = _load(conn, declared)
        changes = difference.find(declared, stored)
        _refuse(declared)
        if announce is not None:
            announce(changes)
        if changes and not is_dry_run:
            _write(conn, declared, stored)
    return changes


def _refuse(declared: Declaration) -> None:
    found = declared.places.found
    if found:
        places = lines.find(declared.text)
        located = sorted(
            ((lines.line_of(places, each.place), each) for each in found),
            key=lambda pair: pair[0],
        )
        told = [f"{declared.source}:{line}: {each}" for line, each in located[:LIMIT]]
        raise BadInputError(declared.source, told, count=len(found))


def _load(conn: Connection[Any], declared: Declaration) -> Stored:
    today = db.fetch_one(conn, _QUERIES["today"], _Today)
    assert today is not None
    zones = [str(seller.columns["zone"]) for seller in declared.sellers.values()]
    sellers = db.fetch_all(conn, _QUERIES["sellers"], _StoredSeller)
    prices = db.fetch_all(conn, _QUERIES["prices"], _StoredPrice)
    meters = db.fetch_all(conn, _QUERIES["meters"], Meter)
    currencies = db.fetch_all(conn, _QUERIES["currencies"], _Name)
    known_zones = db.fetch_all(conn, _QUERIES["zones"], _Name, names=zones)
    return Stored(
        today=today.today,
        currencies={each.name for each in currencies},
        zones={each.name for each in known_zones},
        sellers={each.key: each.content for each in sellers},
        series=db.fetch_all(conn, _QUERIES["series"], StoredSeries),
        meters={each.key: each for each in meters},
        prices={each.key: each.price() for each in prices},
        tax_rates=db.fetch_all(conn, _QUERIES["tax_rates"], TaxRate),
    )


def _write(conn: Connection[Any], declared: Declaration, stored: Stored) -> None:
    for seller in declared.sellers.values():
        _write_seller(conn, seller, stored)
    for meter in declared.meters.values():
        if stored.meters.get(meter.key) != meter:
            db.execute(conn, _QUERIES["write_meter"], **asdict(meter))
    for price in declared.prices.values():
        _write_price(conn, price, stored.prices.get(price.key))
    _write_tax_rates(conn, declared, stored)


def _write_seller(conn: Connection[Any], seller: Seller, stored: Stored) -> None:
    known = stored.sellers.get(seller.key, {})
    if any(known.get(name) != value for name, value in seller.columns.items()):
        content = Jsonb({"key": seller.key, **seller.columns})
        db.execute(conn, _QUERIES["write_seller"], content=content)
    series = {
        (it.kind, it.mode): (it.prefix, it.digits)
        for it in stored.series
        if it.seller == seller.key
    }
    for (kind, mode), prefix in seller.series.prefixes().items():
        wanted = (prefix, seller.series.digits)
        if series.get((kind, mode)) != wanted:
            _write_series(conn, seller, kind=kind, mode=mode, prefix=prefix)


def _write_series(
    conn: Connection[Any], seller: Seller, *, kind: str, mode: str, prefix: str
) -> None:
    written_count = db.execute(
        conn,
        _QUERIES["write_series"],
        seller=seller.key,
        kind=kind,
        mode=mode,
        prefix=prefix,
        digits=seller.series.digits,
    )
    if written_count == 0:
        raise TemporaryError(
            f"the {mode} series of seller {seller.key} has just issued a number.",
            hint="Apply the file again.",
        )


def _write_price(conn: Connection[Any], price: Price, known: Price | None) -> None:
    if price != known:
        columns = {**asdict(price), "line_texts": Jsonb(price.line_texts)}
        del columns["amounts"]
        db.execute(conn, _QUERIES["write_price"], **columns)
    for begins_on, amount in sorted(price.amounts.items()):
        if known is None or begins_on not in known.amounts:
            db.execute(
                conn,
                _QUERIES["write_version"],
                key=price.key,
                begins_on=begins_on,
                amount=amount,
            )


def _write_tax_rates(
    conn: Connection[Any], declared: Declaration, stored: Stored
) -> None:
    known = {(rate.scope, rate.begins_on): rate for rate in stored.tax_rates}
    rates = [rate for _, rate in declared.tax_rates]
    pairs = [(rate, known.get((rate.scope, rate.begins_on))) for rate in rates]
    changed = [(rate, old) for rate, old in pairs if old and old != rate]
    # Only one may hold on a day, even between two statements.
    for rate, _ in sorted(changed, key=lambda pair: _goes_on_longer(*pair)):
        db.execute(conn, _QUERIES["change_tax_rate"], **asdict(rate))
    for rate, old in pairs:
        if old is None:
            db.execute(conn, _QUERIES["add_tax_rate"], **asdict(rate))


def _goes_on_longer(rate: TaxRate, old: TaxRate) -> bool:
    return (rate.ends_on or date.max) > (old.ends_on or date.max)
