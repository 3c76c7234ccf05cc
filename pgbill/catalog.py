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

from pgbill import db, declaration, difference, lines, pricelist
from pgbill.declaration import Declaration, Meter, Seller
from pgbill.difference import Change, Stored, StoredSeries
from pgbill.errors import TemporaryError
from pgbill.policy import Policy
from pgbill.pricing import Price
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
class _StoredPolicy:
    key: str
    columns: dict[str, Any]

    def policy(self) -> Policy:
        """Return it as a file would declare it."""
        minimum = self.columns.pop("minimum_invoice")
        amounts = {currency: Decimal(amount) for currency, amount in minimum.items()}
        return Policy(**self.columns, minimum_invoice=amounts)


@dataclass(frozen=True, slots=True)
class _PolicyId:
    policy_id: int


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
    policies = db.fetch_all(conn, _QUERIES["policies"], _StoredPolicy)
    prices = pricelist.load(conn)
    meters = db.fetch_all(conn, _QUERIES["meters"], Meter)
    currencies = db.fetch_all(conn, _QUERIES["currencies"], _Name)
    known_zones = db.fetch_all(conn, _QUERIES["zones"], _Name, names=zones)
    return Stored(
        today=today.today,
        currencies={each.name for each in currencies},
        zones={each.name for each in known_zones},
        sellers={each.key: each.content for each in sellers},
        policies={each.key: each.policy() for each in policies},
        series=db.fetch_all(conn, _QUERIES["series"], StoredSeries),
        meters={each.key: each for each in meters},
        prices=prices,
        billed_until=pricelist.billed_until(conn, _with_versions(declared, prices)),
        tax_rates=db.fetch_all(conn, _QUERIES["tax_rates"], TaxRate),
    )


def _with_versions(declared: Declaration, known: dict[str, Price]) -> list[str]:
    """Return the keys of the prices that get another version."""
    return [
        key
        for key, price in declared.prices.items()
        if key in known and price.versions.keys() - known[key].versions.keys()
    ]


def _write(conn: Connection[Any], declared: Declaration, stored: Stored) -> None:
    for seller in declared.sellers.values():
        _write_seller(conn, seller, stored)
    for meter in declared.meters.values():
        if stored.meters.get(meter.key) != meter:
            db.execute(conn, _QUERIES["write_meter"], **asdict(meter))
    for price in declared.prices.values():
        pricelist.write(conn, price, stored.prices.get(price.key))
    _write_tax_rates(conn, declared, stored)


def _write_seller(conn: Connection[Any], seller: Seller, stored: Stored) -> None:
    known = stored.sellers.get(seller.key, {})
    is_changed = any(known.get(name) != it for name, it in seller.columns.items())
    if is_changed or stored.policies[seller.key] != seller.policy:
        policy_id = _policy_id(conn, seller.policy)
        content = {"key": seller.key, **seller.columns, "policy_id": policy_id}
        db.execute(conn, _QUERIES["write_seller"], content=Jsonb(content))
    series = {
        (it.kind, it.mode): (it.prefix, it.digits, it.first_number)
        for it in stored.series
        if it.seller == seller.key
    }
    for (kind, mode), prefix in seller.series.prefixes().items():
        *_, known_first = series.get((kind, mode), (1,))
        first = seller.series.first_number(kind, mode) or known_first
        if series.get((kind, mode)) != (prefix, seller.series.digits, first):
            _write_series(
                conn, seller, kind=kind, mode=mode, prefix=prefix, first=first
            )


def _write_series(
    conn: Connection[Any],
    seller: Seller,
    *,
    kind: str,
    mode: str,
    prefix: str,
    first: int,
) -> None:
    written_count = db.execute(
        conn,
        _QUERIES["write_series"],
        seller=seller.key,
        kind=kind,
        mode=mode,
        prefix=prefix,
        digits=seller.series.digits,
        first_number=first,
    )
    if written_count == 0:
        raise TemporaryError(
            f"the {mode} series of seller {seller.key} has just issued a number.",
            hint="Apply the file again.",
        )


def _policy_id(conn: Connection[Any], policy: Policy) -> int:
    """Return the row of a set of policies, which is made if it is the first such."""
    amounts = policy.minimum_invoice.items()
    minimum = Jsonb({currency: f"{amount:f}" for currency, amount in amounts})
    columns = {**asdict(policy), "minimum_invoice": minimum}
    db.execute(conn, _QUERIES["add_policy"], **columns)
    found = db.fetch_one(conn, _QUERIES["find_policy"], _PolicyId, **columns)
    assert found is not None
    return found.policy_id


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
