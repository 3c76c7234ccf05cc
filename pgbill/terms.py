"""Know the terms of a version of a price: what may be said, compared and shown.

Each model takes a few keys and no others: a key that it leaves alone would be a promise
that nobody keeps. In the database all models are alike, tiers and a row of amounts; the
names that a file has for them are known here, so that whoever is told of a difference
is told in the words of the file. Percentages are fractions from here on, exactly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Model:
    """What a model takes.

    Attributes:
        meter: Whether it prices usage: "none", "needed", or "either".
        rates: The keys that say how much, which a value of a dimension has of its own.
        tier: The keys of a tier besides `up_to`; empty if it has no tiers.
        options: Keys of a version that may be left out.
    """

    meter: str
    rates: tuple[str, ...]
    tier: tuple[str, ...] = ()
    options: tuple[str, ...] = ("minimum", "maximum")

    @property
    def is_percentage(self) -> bool:
        """Whether it takes percentages of what was counted."""
        return "percent" in (*self.rates, *self.tier)


_SPEND = ("minimum", "maximum")
_TIERS = ("tiers",)
MODELS: Mapping[str, Model] = {
    "flat": Model("none", ("amount",), (), ()),
    "per_unit": Model("needed", ("amount",), (), ("per", *_SPEND)),
    "package": Model(
        "either", ("amount",), (), ("package_size", "free_quantity", *_SPEND)
    ),
    "graduated": Model(
        "either", _TIERS, ("amount", "flat"), ("package_size", "bills_zero", *_SPEND)
    ),
    "volume": Model("either", _TIERS, ("amount", "flat"), ("bills_zero", *_SPEND)),
    "stairstep": Model("either", _TIERS, ("flat",), ("bills_zero", *_SPEND)),
    "stairstep_cumulative": Model("either", _TIERS, ("flat",), ("bills_zero", *_SPEND)),
    "capacity": Model("either", ("amount", "included", "overage")),
    "percentage": Model(
        "needed",
        ("percent",),
        (),
        (
            *("fixed", "free_amount", "free_count", "record_minimum"),
            *("record_maximum", *_SPEND),
        ),
    ),
    "graduated_percentage": Model(
        "needed", _TIERS, ("percent", "flat"), ("bills_zero", *_SPEND)
    ),
    "minimum": Model("none", ("amount",), (), ()),
    "maximum": Model("none", ("amount",), (), ()),
}


@dataclass(frozen=True, slots=True)
class Tier:
    """The amounts of a range of quantities; no `up_to`: it has no end."""

    up_to: Decimal | None
    unit_amount: Decimal
    flat_amount: Decimal = ZERO


@dataclass(frozen=True, slots=True)
class Version:
    """What a price costs from a day on; its columns are those of the table.

    Attributes:
        tiers: By value of the dimension that the price groups by; "" is for all others.
        place: Where a file says so.
    """

    begins_on: date
    tiers: dict[str, tuple[Tier, ...]]
    per_quantity: Decimal = Decimal(1)
    package_size: Decimal | None = None
    free_quantity: Decimal = ZERO
    fixed_amount: Decimal = ZERO
    free_amount: Decimal | None = None
    free_count: int | None = None
    record_minimum: Decimal | None = None
    record_maximum: Decimal | None = None
    bills_zero: bool = False
    minimum_amount: Decimal | None = None
    maximum_amount: Decimal | None = None
    place: str = field(default="", compare=False)


_DEFAULT = Version(date.min, {})

COLUMNS = {
    "per": "per_quantity",
    "package_size": "package_size",
    "free_quantity": "free_quantity",
    "fixed": "fixed_amount",
    "free_amount": "free_amount",
    "free_count": "free_count",
    "record_minimum": "record_minimum",
    "record_maximum": "record_maximum",
    "bills_zero": "bills_zero",
    "minimum": "minimum_amount",
    "maximum": "maximum_amount",
}
"""The column of each key of a version."""

_SHOWN = {
    "per": "for {} units",
    "package_size": "for each package of {}",
    "free_quantity": "{} free",
    "fixed": "{} for each record",
    "free_amount": "the first {} free",
    "free_count": "the first {} records free",
    "record_minimum": "a record at least {}",
    "record_maximum": "a record at most {}",
    "bills_zero": "also for nothing",
    "minimum": "at least {}",
    "maximum": "at most {}",
}


def differences(
    model: str, known: Version, declared: Version
) -> Iterator[tuple[str, str]]:
    """Go through what differs: the place in the file, and what is there so far."""
    for key, column in COLUMNS.items():
        old = getattr(known, column)
        if old != getattr(declared, column):
            yield f"{declared.place}.{key}", plain(old)
    for group in sorted(known.tiers.keys() | declared.tiers.keys()):
        within = f".groups.{group}" if group else ""
        yield from _differing_tiers(
            model,
            f"{declared.place}{within}",
            known.tiers.get(group, ()),
            declared.tiers.get(group, ()),
        )


def _differing_tiers(
    model: str, place: str, old: tuple[Tier, ...], new: tuple[Tier, ...]
) -> Iterator[tuple[str, str]]:
    if old == new:
        return
    if not old:
        yield place, "not there"
    elif len(old) != len(new):
        yield place, _rates(model, old)
    elif not MODELS[model].tier:
        (rate, *others) = MODELS[model].rates
        yield place if others else f"{place}.{rate}", _rates(model, old)
    else:
        for number, pair in enumerate(zip(old, new, strict=True), start=1):
            if pair[0] != pair[1]:
                yield f"{place}.tiers[{number}]", _tier(model, pair[0])


def shown(model: str, version: Version, currency: str) -> str:
    """Describe a version for a person, in a line."""
    rates = "; ".join(
        f"{group or 'others'}: {_rates(model, tiers)}"
        for group, tiers in sorted(version.tiers.items(), reverse=True)
    )
    if version.tiers.keys() == {""}:
        rates = _rates(model, version.tiers[""])
    money = f"({currency})" if MODELS[model].is_percentage else currency
    given = [
        text.format(plain(getattr(version, COLUMNS[key])))
        for key, text in _SHOWN.items()
        if key in MODELS[model].options
        and getattr(version, COLUMNS[key]) != getattr(_DEFAULT, COLUMNS[key])
    ]
    return f"{', '.join([f'{rates} {money}', *given])} from {version.begins_on}"


def _rates(model: str, tiers: tuple[Tier, ...]) -> str:
    """Describe the tiers of a group; of most models it is one amount."""
    if MODELS[model].tier:
        return ", ".join(_tier(model, each) for each in tiers)
    if model == "capacity":
        base, beyond = tiers
        included, overage = plain(base.up_to), plain(beyond.unit_amount)
        return f"{base.flat_amount:f} up to {included}, beyond: {overage}"
    return _unit(model, tiers[0])


def _tier(model: str, tier: Tier) -> str:
    end = "beyond" if tier.up_to is None else f"up to {tier.up_to:f}"
    if not tier.unit_amount:
        return f"{end}: {tier.flat_amount:f}"
    flat = f" + {tier.flat_amount:f}" if tier.flat_amount else ""
    return f"{end}: {_unit(model, tier)}{flat}"


def _unit(model: str, tier: Tier) -> str:
    if MODELS[model].is_percentage:
        return f"{tier.unit_amount.scaleb(2):f} %"
    return f"{tier.unit_amount:f}"


def plain(value: object) -> str:
    """Write a value as a person would in the file, but without quotes."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
