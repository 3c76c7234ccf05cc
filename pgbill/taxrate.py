"""Know tax rates: for whom each is, over which days, and that only one holds on a day.

An entry of a catalog file may name several countries, states and classes; it stands for
a rate for each combination.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any, cast

from pgbill import field
from pgbill.field import Field, Places, country_code

# EN 16931: these carry no tax, and most of them a reason for it.
_WITHOUT_TAX = ("Z", "E", "AE", "K", "G", "O")
_WITH_REASON = ("E", "AE", "K", "G", "O")
_PERCENT = 100
_COMPONENT_COUNTS = (2, 3)


@dataclass(frozen=True, slots=True)
class TaxRate:
    """A tax rate over a range of days; none that it ends on: it holds on.

    Several taxes on the same amount, none on another, are one rate with components.
    """

    seller_country: str
    buyer_country: str
    buyer_status: str
    tax_class: str
    begins_on: date
    ends_on: date | None
    category: str
    rate: Decimal
    components: list[Decimal] | None
    legal_text: str | None

    @property
    def terms(self) -> tuple[str, Decimal, list[Decimal] | None]:
        """What does not change once it has begun."""
        return self.category, self.rate, self.components

    @property
    def percentage(self) -> str:
        """Category and rate, as a person reads them; several taxes one by one."""
        parts = " + ".join(f"{each:f}" for each in self.components or [])
        return f"{self.category} {self.rate:f} %{f' ({parts})' if parts else ''}"

    @property
    def scope(self) -> tuple[str, str, str, str]:
        """What it is for; on a day there is only one for each."""
        return (
            self.seller_country,
            self.buyer_country,
            self.buyer_status,
            self.tax_class,
        )

    def __str__(self) -> str:
        """Name it for a person."""
        return (
            f"{self.seller_country} to {self.buyer_country}, {self.buyer_status},"
            f" {self.tax_class}, from {self.begins_on}"
        )

    def holds_with(self, other: "TaxRate") -> bool:
        """Tell whether both hold on some day."""
        return self.begins_on < (other.ends_on or date.max) and other.begins_on < (
            self.ends_on or date.max
        )


def _percentages(value: object) -> list[Decimal]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    if isinstance(value, list) and len(listed) not in _COMPONENT_COUNTS:
        raise ValueError("an array holds the rates of two or three taxes")
    percentages = [field.decimal(each) for each in listed]
    if sum(percentages) > _PERCENT:
        raise ValueError(f"{sum(percentages):f} is more than 100 percent")
    return percentages


_STATUS = field.one_of("business", "consumer")
_CATEGORY = field.one_of("S", "Z", "E", "AE", "K", "G", "O", "L", "M", "B")
_TAX_RATE = (
    Field("seller_country", country_code, is_required=True),
    Field("buyer_country", field.many(country_code), is_required=True),
    Field("buyer_status", field.many(_STATUS), is_required=True),
    Field("tax_class", field.many(field.text), is_required=True),
    Field("category", _CATEGORY, is_required=True),
    Field("rate", _percentages, is_required=True),
    Field("begins_on", field.day, is_required=True),
    Field("ends_on", field.day),
    Field("legal_text", field.text),
)


def read(places: Places, given: object) -> Iterator[tuple[str, TaxRate]]:
    """Go through the tax rates, one for each combination that an entry is for."""
    if not isinstance(given, list):
        places.add("tax_rates", "write [[tax_rates]] before each")
        return
    for number, each in enumerate(cast("list[object]", given), start=1):
        place = f"tax_rates[{number}]"
        values = places.table(place, each, _TAX_RATE)
        if values is None:
            continue
        percentages = values.pop("rate")
        values["rate"] = sum(percentages, Decimal(0))
        values["components"] = percentages if len(percentages) > 1 else None
        _check(places, place, values)
        names = ("buyer_country", "buyer_status", "tax_class")
        for scope in product(*(values[name] for name in names)):
            yield place, TaxRate(**{**values, **dict(zip(names, scope, strict=True))})


def _check(places: Places, place: str, values: dict[str, Any]) -> None:
    category = values["category"]
    if category in _WITHOUT_TAX and (values["rate"] or values["components"]):
        places.add(f"{place}.rate", f"category {category} has the rate 0")
    if category in _WITH_REASON and not values["legal_text"]:
        places.add(
            f"{place}.legal_text",
            f"category {category} needs the sentence that says why no tax is charged",
        )
    if values["ends_on"] and values["ends_on"] <= values["begins_on"]:
        places.add(f"{place}.ends_on", "it is not after begins_on")


def check_overlaps(
    places: Places, declared: Iterable[tuple[str, TaxRate]], stored: Iterable[TaxRate]
) -> None:
    """Note the declared rates that hold on a day on which another does."""
    by_scope: dict[tuple[str, ...], dict[date, TaxRate]] = {}
    for rate in stored:
        by_scope.setdefault(rate.scope, {})[rate.begins_on] = rate
    listed = list(declared)
    seen: set[tuple[tuple[str, ...], date]] = set()
    for place, rate in listed:
        by_scope.setdefault(rate.scope, {})[rate.begins_on] = rate
        if (rate.scope, rate.begins_on) in seen:
            places.add(place, f"{rate}, stands in the file already")
        seen.add((rate.scope, rate.begins_on))
    for place, rate in listed:
        for other in by_scope[rate.scope].values():
            # Two that the file declares are told of once, at the later one.
            told_there = (
                rate.begins_on <= other.begins_on
                and (rate.scope, other.begins_on) in seen
            )
            if rate.holds_with(other) and not told_there:
                places.add(
                    place,
                    f"{rate}, holds on days on which the one from {other.begins_on}"
                    " does: end the earlier one",
                )
