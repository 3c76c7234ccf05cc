"""Read the prices of a catalog file: each with its versions, tiers and groups.

A version has the keys of its model and no others. Where a price groups by a dimension,
what a model says once may be said for each of its values, in the same words; the rest
of a version, such as its minimum, is for all of them together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, cast

from pgbill import field
from pgbill.field import Field, Places
from pgbill.problem import shown
from pgbill.terms import COLUMNS, MODELS, ZERO, Model, Tier, Version

INTERVALS = ("weekly", "monthly", "quarterly", "half_yearly", "yearly")
LANGUAGE = "[a-z]{2}(-[A-Z]{2})?"
CURRENCY = field.matching("[A-Z]{3}", "a currency such as EUR")
UNIT = field.matching("[A-Z0-9]{2,3}", "a UN/ECE unit code such as C62")

_TIER_LIMIT = 100
_GROUP_LIMIT = 200
_COUNT_LIMIT = 999_999_999
_HUNDRED = Decimal(100)


@dataclass(frozen=True, slots=True)
class Price:
    """What something costs, and from when on by which terms."""

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
    versions: dict[date, Version]


def _percentage(value: object) -> Decimal:
    percent = field.decimal(value)
    if percent > _HUNDRED:
        raise ValueError(f"{shown(value)} is more than 100 percent")
    return percent.scaleb(-2)


_PRICE = (
    Field("seller", field.text, is_required=True),
    Field("currency", CURRENCY, is_required=True),
    Field("model", field.one_of(*MODELS), is_required=True),
    Field("timing", field.one_of("advance", "arrears"), is_required=True),
    Field("meter", field.text),
    Field("group_by", field.text),
    Field("tax_included", field.flag),
    Field("billing_interval", field.one_of(*INTERVALS)),
    Field("unit_code", UNIT, is_required=True),
    Field("tax_class", field.text, is_required=True),
    Field("revenue_account", field.text),
    Field(
        "line_texts",
        field.by_key(LANGUAGE, "a language such as en", field.text),
        is_required=True,
    ),
    Field("versions", field.anything, is_required=True),
)
_PARSERS = {
    "amount": field.decimal,
    "flat": field.decimal,
    "percent": _percentage,
    "included": field.positive,
    "overage": field.decimal,
    "tiers": field.anything,
    "per": field.positive,
    "package_size": field.positive,
    "free_quantity": field.decimal,
    "fixed": field.decimal,
    "free_amount": field.decimal,
    "free_count": field.whole(0, _COUNT_LIMIT),
    "record_minimum": field.decimal,
    "record_maximum": field.decimal,
    "bills_zero": field.flag,
    "minimum": field.decimal,
    "maximum": field.decimal,
}
# What is billed of a period's usage is known when it has ended.
_OF_USAGE = ("minimum", "maximum")
# Without it there is nothing to count in.
_REQUIRED = {"package": {"package_size"}}


def read(places: Places, place: str, key: str, given: object) -> Price | None:
    """Read a price; what is wrong with it is noted."""
    values = places.table(place, given, _PRICE)
    if values is None:
        return None
    values["tax_included"] = bool(values["tax_included"])
    _check(places, place, values)
    versions = _versions(places, place, values)
    values.pop("versions")
    return Price(key=key, versions=versions, **values)


def _check(places: Places, place: str, values: dict[str, Any]) -> None:
    name, meter = values["model"], MODELS[values["model"]].meter
    if not values["line_texts"]:
        places.add(f"{place}.line_texts", "there is none")
    if meter == "none" and values["meter"]:
        places.add(f"{place}.meter", f"a {name} price has no meter")
    if meter == "needed" and not values["meter"]:
        places.add(f"{place}.meter", f"a {name} price needs the meter that it is for")
    if values["timing"] == "advance":
        if name in ("minimum", "maximum"):
            reason = f"a {name} is billed in arrears, when the rest is known"
            places.add(f"{place}.timing", reason)
        elif meter == "needed" or (meter == "either" and values["meter"]):
            places.add(f"{place}.timing", "usage is billed in arrears")
    if values["group_by"] and not values["meter"]:
        reason = "only usage, which has a meter, has dimensions"
        places.add(f"{place}.group_by", reason)
    if values["billing_interval"] and values["meter"]:
        reason = "usage is billed by the periods of its account"
        places.add(f"{place}.billing_interval", reason)


def _versions(
    places: Places, place: str, values: dict[str, Any]
) -> dict[date, Version]:
    place, given = f"{place}.versions", values["versions"]
    listed = cast("list[object]", given) if isinstance(given, list) else []
    if not listed:
        places.add(place, "it is not an array with at least one version")
    versions: dict[date, Version] = {}
    for number, each in enumerate(listed, start=1):
        version = _version(places, f"{place}[{number}]", each, values)
        if version is None:
            continue
        if version.begins_on in versions:
            places.add(version.place, f"{version.begins_on} has a version already")
        versions[version.begins_on] = version
    return versions


def _version(
    places: Places, place: str, given: object, price: dict[str, Any]
) -> Version | None:
    model, members = MODELS[price["model"]], _members(given)
    without = " without meter" if model.meter == "either" and not price["meter"] else ""
    unknown = f"a {price['model']} price{without} has no such key"
    if "groups" in members and not price["group_by"]:
        unknown = "without group_by there are no groups"
    values = places.table(
        place, given, _version_fields(price, members), unknown=unknown
    )
    if values is None:
        return None
    before = len(places.found)
    tiers = _groups(places, f"{place}.groups", price["model"], values.get("groups"))
    if values[model.rates[0]] is not None:
        tiers[""] = _tiers(places, place, model, values)
    for low, high in (("minimum", "maximum"), ("record_minimum", "record_maximum")):
        _check_order(places, place, low, high, values)
    options = {
        COLUMNS[key]: values[key]
        for key in model.options
        if values.get(key) is not None
    }
    # The base of a capacity is owed, used or not.
    options |= {"bills_zero": True} if "included" in model.rates else {}
    _check_groups(places, place, tiers, options)
    if len(places.found) > before:
        return None
    return Version(values["begins_on"], tiers, **options, place=place)


def _members(given: object) -> dict[str, object]:
    return cast("dict[str, object]", given) if isinstance(given, dict) else {}


def _version_fields(price: dict[str, Any], members: dict[str, object]) -> list[Field]:
    model = MODELS[price["model"]]
    # With groups it may say nothing about all others, but not half of it.
    says_rates = "groups" not in members or bool(members.keys() & set(model.rates))
    fields = [Field("begins_on", field.day, is_required=True)]
    fields += _rate_fields(model, is_required=says_rates or not price["group_by"])
    required = _REQUIRED.get(price["model"], set[str]())
    for key in model.options:
        if price["meter"] or key not in _OF_USAGE:
            fields.append(Field(key, _PARSERS[key], key in required))
    if price["group_by"]:
        fields.append(Field("groups", field.anything))
    return fields


def _rate_fields(model: Model, *, is_required: bool) -> list[Field]:
    return [Field(key, _PARSERS[key], is_required) for key in model.rates]


def _check_order(
    places: Places, place: str, low: str, high: str, values: dict[str, Any]
) -> None:
    least, most = values.get(low), values.get(high)
    if least is not None and most is not None and most < least:
        places.add(
            f"{place}.{high}", f"{most:f} is less than the {low}, which is {least:f}"
        )


def _check_groups(
    places: Places,
    place: str,
    tiers: dict[str, tuple[Tier, ...]],
    options: dict[str, Any],
) -> None:
    if tiers.keys() == {""}:
        return
    # Without any usage there is no value of a dimension either.
    if "" not in tiers and (options.get("bills_zero") or "minimum_amount" in options):
        reason = "what is billed without usage needs amounts besides those of groups"
        places.add(place, reason)
    if options.keys() & {"record_minimum", "record_maximum"}:
        reason = "where a record has a minimum or maximum, there is one percentage"
        places.add(f"{place}.groups", reason)


def _groups(
    places: Places, place: str, name: str, given: object
) -> dict[str, tuple[Tier, ...]]:
    if given is None:
        return {}
    members = _members(given)
    if not members:
        places.add(place, 'write a value for each, as in { eu = "0.12" }')
        return {}
    model, tiers = MODELS[name], dict[str, tuple[Tier, ...]]()
    for group, each in members.items():
        where = f"{place}.{group}"
        if not group or not group.isprintable() or len(group) > _GROUP_LIMIT:
            places.add(place, f"a value has 1 to {_GROUP_LIMIT} printable characters")
            continue
        is_short = len(model.rates) == 1 and not _members(each)
        values = places.table(
            where,
            {model.rates[0]: each} if is_short else each,
            _rate_fields(model, is_required=True),
            unknown=f"a group of a {name} price has no such key",
        )
        if values is not None:
            tiers[group] = _tiers(places, where, model, values)
    return tiers


def _tiers(
    places: Places, place: str, model: Model, values: dict[str, Any]
) -> tuple[Tier, ...]:
    if model.tier:
        return tuple(_read_tiers(places, f"{place}.tiers", model, values["tiers"]))
    if "included" in model.rates:
        base = Tier(values["included"], ZERO, values["amount"])
        return base, Tier(None, values["overage"])
    return (Tier(None, values[model.rates[0]]),)


def _read_tiers(
    places: Places, place: str, model: Model, given: object
) -> Iterator[Tier]:
    listed = cast("list[object]", given) if isinstance(given, list) else []
    if not 1 <= len(listed) <= _TIER_LIMIT:
        places.add(place, f"it is not an array of 1 to {_TIER_LIMIT} tiers")
        return
    fields = [Field(key, _PARSERS[key]) for key in model.tier]
    reached = ZERO
    for number, each in enumerate(listed, start=1):
        where = f"{place}[{number}]"
        values = places.table(where, each, [Field("up_to", field.positive), *fields])
        if values is None:
            continue
        if all(values[key] is None for key in model.tier):
            places.add(where, f"it has no {' and no '.join(model.tier)}")
        up_to = values["up_to"]
        if up_to is None and number < len(listed):
            places.add(f"{where}.up_to", "it is missing; only the last tier has no end")
        elif up_to is not None and up_to <= reached:
            reason = f"{up_to:f} is not more than {reached:f}, where the tier begins"
            places.add(f"{where}.up_to", reason)
        reached = up_to or reached
        unit_amount = values.get("amount") or values.get("percent") or ZERO
        yield Tier(up_to, unit_amount, values.get("flat") or ZERO)
