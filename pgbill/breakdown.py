"""Break the amount of a line down into what it is the sum of.

A quantity that is priced by tiers, packages or percentages has no unit price that could
be printed. What a reader needs to check it follows from the rating input that the line
keeps: so many at this amount, the rest at that, what is added once, what was billed
before. Nothing is computed here that is billed, `pgbill.price` does that; a test holds
the two together.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, TypeAlias

_ZERO = Decimal(0)
# Quantities and amounts may have any number of digits.
_PRECISION = 100
# With these, one amount for each unit is not all there is to it.
_TERMS = {
    "tiers",
    "free_quantity",
    "package_size",
    "charged_amount",
    "before",
    "reached",
}

_Given: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Term:
    """A summand: so many times an amount, a share of an amount, or an amount."""

    amount: Decimal
    """Of a share: the fraction."""
    quantity: Decimal | None = None
    """Of a share: the amount that it is of. None: the amount is added once."""
    is_share: bool = False

    @property
    def value(self) -> Decimal:
        """What it comes to, not rounded."""
        with localcontext(prec=_PRECISION):
            return self.amount * (1 if self.quantity is None else self.quantity)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What the amount of a line is made of."""

    terms: list[Term]
    """Empty if one amount for each unit says it all."""
    before: list[Term]
    """What earlier lines have billed of it."""
    reached: Decimal
    """What is taken off at last, since other lines bring it."""
    per_quantity: Decimal
    """The amounts are for so many units."""
    part: Decimal | None
    """Prorated, the amounts are for `part` of `whole`; otherwise both are none."""
    whole: Decimal | None
    is_given_back: bool
    """Of an advance fee that was billed before; its fraction is reduced."""


def read(rating_input: str) -> Breakdown:
    """Read a rating input, which is JSON; what it does not say is not there."""
    given: _Given = json.loads(rating_input, parse_float=Decimal, parse_int=Decimal)
    is_given_back = given.get("model") == "unused_advance"
    has_terms = is_given_back or any(given.get(name) is not None for name in _TERMS)
    with localcontext(prec=_PRECISION):
        return Breakdown(
            terms=list(_terms(given, given)) if has_terms else [],
            before=list(_terms(given, given["before"])) if "before" in given else [],
            reached=given.get("reached") or _ZERO,
            per_quantity=given.get("per_quantity") or Decimal(1),
            part=given.get("part", given.get("part_days")),
            whole=given.get("whole", given.get("whole_days")),
            is_given_back=is_given_back,
        )


def _terms(given: _Given, measure: _Given) -> Iterator[Term]:
    """Price a measure by the terms of a price."""
    if given.get("model") == "percentage":
        yield from _percentage(given, measure)
        return
    quantity = _counted(given, measure)
    is_share = given.get("model") == "graduated_percentage"
    tiers: list[_Given] | None = given.get("tiers")
    if tiers is None and abs(quantity) == 1:
        yield Term(given["unit_amount"] * quantity)
    elif tiers is None:
        yield Term(given["unit_amount"], quantity)
    elif quantity or given.get("bills_zero"):
        is_volume = given.get("model") in {"volume", "stairstep"}
        parts = _volume(quantity, tiers) if is_volume else _graduated(quantity, tiers)
        for tier, part in parts:
            yield from _tier(tier, part, is_share=is_share)


def _counted(given: _Given, measure: _Given) -> Decimal:
    """Return the quantity that is priced: what is not free, in packages, rounded up."""
    quantity: Decimal = measure["quantity"]
    if (free := given.get("free_quantity")) is not None:
        quantity = max(quantity - free, _ZERO)
    if (size := given.get("package_size")) is not None:
        packages, rest = divmod(quantity, size)
        quantity = packages + (rest > 0)
    return quantity


def _percentage(given: _Given, measure: _Given) -> Iterator[Term]:
    """Take a share of the sum, and amounts for each record; nothing of zeros."""
    share = Term(given["unit_amount"], measure["charged_amount"], is_share=True)
    fixed = [
        Term(given[amount], measure[count])
        for amount, count in (
            ("fixed_amount", "charged_count"),
            ("record_minimum", "minimum_count"),
            ("record_maximum", "maximum_count"),
        )
        if given.get(amount) and measure.get(count)
    ]
    if share.value or not fixed:
        yield share
    yield from fixed


def _graduated(
    quantity: Decimal, tiers: list[_Given]
) -> Iterator[tuple[_Given, Decimal]]:
    """Divide a quantity among the tiers that it touches."""
    floor = _ZERO
    for tier in tiers:
        up_to: Decimal | None = tier.get("up_to")
        if up_to is None or quantity <= up_to:
            yield tier, quantity - floor
            return
        yield tier, up_to - floor
        floor = up_to


def _volume(quantity: Decimal, tiers: list[_Given]) -> Iterator[tuple[_Given, Decimal]]:
    """Find the tier that holds a quantity."""
    for tier in tiers:
        if tier.get("up_to") is None or quantity <= tier["up_to"]:
            yield tier, quantity
            return


def _tier(tier: _Given, quantity: Decimal, *, is_share: bool) -> Iterator[Term]:
    """Price a quantity by a tier; units that cost nothing are in its flat amount."""
    unit, flat = tier.get("unit_amount") or _ZERO, tier.get("flat_amount") or _ZERO
    if flat:
        yield Term(flat)
    if quantity and (unit or not flat):
        yield Term(unit, quantity, is_share=is_share)
