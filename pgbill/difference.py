"""Compare what a catalog file declares with what there is.

Pure: it reads neither file nor database. Some things may change at any time, since
issued invoices keep their copies; some never, since somebody relies on them. An amount
that was agreed to, a prefix under which numbers have been issued, a tax rate of the
past: to change one of these, another is added.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from pgbill import policy, repricing, taxrate
from pgbill.declaration import (
    SELLER_COLUMNS,
    Declaration,
    Meter,
    Seller,
)
from pgbill.field import Places
from pgbill.policy import Policy
from pgbill.pricing import Price
from pgbill.taxrate import TaxRate
from pgbill.terms import plain

# How usage was counted.
_COUNTED = (
    *("unit_code", "aggregation", "unique_dimension", "quantity_digits"),
    "quantity_rounding",
)


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series of numbers of a seller."""

    seller: str
    kind: str
    mode: str
    prefix: str
    digits: int
    first_number: int
    last_number: int

    @property
    def has_begun(self) -> bool:
        """Whether it has given a number."""
        return self.last_number >= self.first_number


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database has; of zones, those that the file names and that exist.

    Attributes:
        billed_until: Of prices that get a version: from when on nothing is billed.
    """

    today: date
    currencies: set[str]
    zones: set[str]
    sellers: dict[str, dict[str, object]]
    policies: dict[str, Policy]
    series: list[StoredSeries]
    meters: dict[str, Meter]
    prices: dict[str, Price]
    billed_until: dict[str, date]
    tax_rates: list[TaxRate]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that applying the file changes."""

    what: str
    key: str
    change: str
    detail: str


def find(declared: Declaration, stored: Stored) -> list[Change]:
    """Return what would change, and note in the file's `places` what must not."""
    return [
        *_sellers(declared, stored),
        *_meters(declared, stored),
        *_prices(declared, stored),
        *_tax_rates(declared, stored),
    ]


def _sellers(declared: Declaration, stored: Stored) -> Iterator[Change]:
    for key, seller in declared.sellers.items():
        place = f"sellers.{key}"
        _check_seller(declared.places, place, seller, stored)
        known = stored.sellers.get(key)
        if known is None:
            yield Change("seller", key, "added", str(seller.columns["legal_name"]))
        else:
            for name in SELLER_COLUMNS:
                old, new = known.get(name), seller.columns[name]
                if old != new:
                    yield Change("seller", key, "changed", _from_to(name, old, new))
        yield from _policy(seller, stored.policies.get(key))
        yield from _series(declared.places, f"{place}.number_series", seller, stored)


def _check_seller(places: Places, place: str, seller: Seller, stored: Stored) -> None:
    zone = seller.columns["zone"]
    if zone not in stored.zones:
        places.add(f"{place}.zone", f"there is no time zone {zone}")
    named = [
        seller.columns["home_currency"],
        *seller.columns["bank_accounts"],
        *seller.policy.minimum_invoice,
    ]
    for currency in dict.fromkeys(named):
        if currency not in stored.currencies:
            places.add(place, f"there is no currency {currency}")


def _policy(seller: Seller, known: Policy | None) -> Iterator[Change]:
    change = "added" if known is None else "changed"
    for name, old, new in (known or policy.DEFAULT).differences(seller.policy):
        detail = f"{name}: {new}" if known is None else f"{name}: {old} → {new}"
        yield Change("policy", seller.key, change, detail)


def _series(
    places: Places, place: str, seller: Seller, stored: Stored
) -> Iterator[Change]:
    own = {(it.kind, it.mode): it for it in stored.series if it.seller == seller.key}
    prefixes = seller.series.prefixes()
    for (kind, mode), prefix in prefixes.items():
        key, known = f"{seller.key} {kind} {mode}", own.pop((kind, mode), None)
        first = seller.series.first_number(kind, mode)
        if known is None:
            begins = "" if first is None else f", from {first}"
            yield Change("number series", key, "added", f"prefix {prefix}{begins}")
            continue
        if first is not None and first != known.first_number:
            detail = f"first_number: {known.first_number} → {first}"
            yield Change("number series", key, "changed", detail)
            if known.has_begun:
                places.add(
                    f"{place}.first_number",
                    f"the {mode} series of {kind.replace('_', ' ')}s has begun with"
                    f" {known.first_number}, so it stays",
                )
        if prefix != known.prefix:
            if known.has_begun:
                places.add(
                    f"{place}.{kind}",
                    f"the {mode} series has issued numbers with the prefix"
                    f" {known.prefix}, so it stays",
                )
            yield Change(
                "number series", key, "changed", f"prefix: {known.prefix} → {prefix}"
            )
            if any(prefix == other.prefix for other in own.values()):
                places.add(
                    f"{place}.{kind}", f"another series has the prefix {prefix} now"
                )
        if seller.series.digits != known.digits:
            detail = f"digits: {known.digits} → {seller.series.digits}"
            yield Change("number series", key, "changed", detail)


def _meters(declared: Declaration, stored: Stored) -> Iterator[Change]:
    for key, meter in declared.meters.items():
        known = stored.meters.get(key)
        if known is None:
            yield Change("meter", key, "added", meter.name)
            continue
        for name in _COUNTED:
            old = getattr(known, name)
            if old != getattr(meter, name):
                reason = f"it is {plain(old)}, and usage was counted so: make another"
                declared.places.add(f"meters.{key}.{name}", f"{reason} meter")
        if meter.name != known.name:
            detail = _from_to("name", known.name, meter.name)
            yield Change("meter", key, "changed", detail)


def _prices(declared: Declaration, stored: Stored) -> Iterator[Change]:
    for key, price in declared.prices.items():
        place = f"prices.{key}"
        _check_price(place, price, declared, stored)
        known = stored.prices.get(key)
        if known is None:
            for change, detail in repricing.added(price):
                yield Change("price", key, change, detail)
            continue
        for name, old, new in repricing.loose(price, known):
            yield Change("price", key, "changed", _from_to(name, old, new))
        until = stored.billed_until.get(key)
        for detail in repricing.grown(declared.places, place, price, known, until):
            yield Change("price", key, "new version", detail)


def _check_price(
    place: str, price: Price, declared: Declaration, stored: Stored
) -> None:
    if price.seller not in stored.sellers.keys() | declared.named["sellers"]:
        declared.places.add(f"{place}.seller", f"there is no seller {price.seller}")
    if price.currency not in stored.currencies:
        declared.places.add(
            f"{place}.currency", f"there is no currency {price.currency}"
        )
    if not price.meter:
        return
    if price.meter not in stored.meters.keys() | declared.named["meters"]:
        declared.places.add(f"{place}.meter", f"there is no meter {price.meter}")
    meter = declared.meters.get(price.meter) or stored.meters.get(price.meter)
    if meter and price.model == "percentage" and meter.aggregation != "sum":
        reason = "a percentage is of the amount of each record, so its meter is a sum"
        declared.places.add(f"{place}.meter", f"{reason}, not a {meter.aggregation}")


def _tax_rates(declared: Declaration, stored: Stored) -> Iterator[Change]:
    by_begin = {(rate.scope, rate.begins_on): rate for rate in stored.tax_rates}
    for place, rate in declared.tax_rates:
        known = by_begin.get((rate.scope, rate.begins_on))
        if known is None:
            yield Change("tax rate", str(rate), "added", rate.percentage)
        elif known != rate:
            _check_tax_rate(declared.places, place, rate, known, today=stored.today)
            yield from _changed_tax_rate(rate, known)
    taxrate.check_overlaps(declared.places, declared.tax_rates, stored.tax_rates)


def _check_tax_rate(
    places: Places, place: str, rate: TaxRate, known: TaxRate, *, today: date
) -> None:
    if known.terms != rate.terms and known.begins_on <= today:
        places.add(
            place,
            f"{rate}, is {known.percentage}, and has begun: end it, and add another",
        )
    if known.ends_on and known.ends_on != rate.ends_on and known.ends_on <= today:
        places.add(place, f"{rate}, has ended on {known.ends_on}: add another")


def _changed_tax_rate(rate: TaxRate, known: TaxRate) -> Iterator[Change]:
    if known.terms != rate.terms:
        detail = f"{known.percentage} → {rate.percentage}"
        yield Change("tax rate", str(rate), "changed", detail)
    for name in ("ends_on", "legal_text"):
        before, after = getattr(known, name), getattr(rate, name)
        if before != after:
            detail = _from_to(name, before, after)
            yield Change("tax rate", str(rate), "changed", detail)


def _from_to(name: str, old: object, new: object) -> str:
    return f"{name}: {_shown(old)} → {_shown(new)}"


def _shown(value: object) -> str:
    return "none" if value in (None, {}) else str(value)
