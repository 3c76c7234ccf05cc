"""Write out a line of a document, so that a reader can check its amount.

What stands in the column of amounts adds up to the total: a line stands there with what
was priced, and what was taken off stands below it, with its own text. Where the price
is one amount for each unit, quantity times price is the amount; where it is not, the
line says what the amount is the sum of. A price with tax included is shown with tax,
and says so.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from pgbill import breakdown
from pgbill.breakdown import Breakdown, Term
from pgbill.document import Line
from pgbill.figures import Figures

_TIMES = "\N{MULTIPLICATION SIGN}"
_MINUS = "\N{MINUS SIGN}"
_HOUR, _DAY, _WEEK = 3600, 86_400, 604_800
_LONGEST = 366
_REFERENCES = ("purchase_order", "contract_number", "cost_centre")


@dataclass(frozen=True, slots=True)
class Item:
    """A line in words; `price` is empty where there is not one for each unit."""

    description: str
    service: str
    notes: list[str]
    quantity: str
    unit: str
    price: str
    price_notes: list[str]
    breakdown: str
    amount: str
    discounts: list[tuple[str, str]]


def of(line: Line, figures: Figures, *, says_tax: bool) -> Item:
    """Write out a line, with its tax if that is not the same for all lines."""
    words, parts = figures.words, breakdown.read(line.rating_input)
    priced = _priced(line)
    price = "" if parts.terms else _price(line, figures, is_negative=priced < 0)
    return Item(
        description=line.description,
        service=words.period(line.service_from_on, line.service_through_on),
        notes=list(_notes(line, figures, says_tax=says_tax)),
        quantity=words.number(line.quantity),
        unit=words.unit(line.unit_code),
        price=price,
        price_notes=list(_factors(parts, figures)) if price else [],
        breakdown="" if price else _sum(parts, figures, is_negative=priced < 0),
        amount=figures.amount(priced),
        discounts=list(_discounts(line, figures)),
    )


def _price(line: Line, figures: Figures, *, is_negative: bool) -> str:
    """Write the price of a unit; its sign is the one that the amount has."""
    if line.unit_amount is None:
        return ""
    is_turned = is_negative != (line.unit_amount * line.quantity < 0)
    turned = line.unit_amount.copy_negate()
    return figures.amount(turned if is_turned else line.unit_amount)


def _priced(line: Line) -> Decimal:
    """Return the amount before discounts, with tax where the price is with tax."""
    amount = line.net_amount
    if line.tax_included_amount is not None:
        amount = line.tax_included_amount
    return amount + line.discount_amount


def _notes(line: Line, figures: Figures, *, says_tax: bool) -> Iterator[str]:
    words = figures.words
    if line.kind == "late_usage":
        yield words.texts["late"]
    elif line.kind == "unused_advance" and line.credited_number:
        yield words.say("unused_of", number=line.credited_number)
    elif line.kind == "unused_advance":
        yield words.texts["unused"]
    for name in _REFERENCES:
        if value := getattr(line, name):
            yield words.say(name, value=value)
    if says_tax:
        yield figures.tax(line.tax_category, line.tax_rate)


def _factors(parts: Breakdown, figures: Figures) -> Iterator[str]:
    """Say for how many units a price is, and for which part of a period."""
    words = figures.words
    if parts.per_quantity != 1:
        yield words.whole(words.say("per", quantity=words.number(parts.per_quantity)))
    if parts.part is not None and parts.whole not in (None, parts.part):
        yield f"{_TIMES} {_part(parts.part, parts.whole, figures)}"


def _part(part: Decimal, whole: Decimal, figures: Figures) -> str:
    """Write which part of a period is billed, in a unit that people count in."""
    words = figures.words
    for unit, seconds in (("part", _DAY), ("part_hours", _HOUR), ("part_seconds", 1)):
        # No period of days has so many.
        if whole >= _WEEK and part % seconds == whole % seconds == 0:
            return words.part(unit, part / seconds, whole / seconds)
    if part <= whole <= _LONGEST:
        return words.part("part", part, whole)
    divisor = math.gcd(int(part), int(whole))
    if divisor == whole:
        return words.number(part / divisor)
    return words.part("parts", part / divisor, whole / divisor)


def _sum(parts: Breakdown, figures: Figures, *, is_negative: bool) -> str:
    """Write the terms of a breakdown as a sum, and what is taken off it."""
    written = _terms(parts.terms, figures)
    if not written:
        return ""
    factors = " ".join(_factors(parts, figures))
    if parts.before:
        before = _terms(parts.before, figures)
        before = f"({before})" if len(parts.before) > 1 else before
        written = f"{written} {_MINUS} {before}"
    is_turned = is_negative and _value(parts) > 0
    if len(parts.terms) + len(parts.before) > 1 and (factors or is_turned):
        written = f"({written})"
    if factors:
        written = f"{written} {factors}"
    if parts.reached:
        written = f"{written} {_MINUS} {figures.amount(parts.reached)}"
    return _MINUS + written if is_turned else written


def _value(parts: Breakdown) -> Decimal:
    before = sum(each.value for each in parts.before)
    return sum((each.value for each in parts.terms), Decimal(0)) - before


def _terms(terms: list[Term], figures: Figures) -> str:
    return " + ".join(_term(each, figures) for each in terms)


def _term(term: Term, figures: Figures) -> str:
    words = figures.words
    if term.quantity is None:
        return figures.amount(term.amount)
    if term.is_share:
        share, of_amount = words.percent(term.amount * 100), term.quantity
        return words.whole(f"{share} {_TIMES} {figures.amount(of_amount)}")
    counted, amount = words.number(term.quantity), figures.amount(term.amount)
    return words.whole(f"{counted} {_TIMES} {amount}")


def _discounts(line: Line, figures: Figures) -> Iterator[tuple[str, str]]:
    """Return what was taken off, as it stands in the column of amounts."""
    texts = figures.words.texts
    allowance = line.discount_amount - sum(line.discount_amounts, Decimal(0))
    if allowance:
        # That of a charge, or its surcharge: it has no text of its own.
        text = texts["deduction" if allowance > 0 else "surcharge"]
        yield text, figures.amount(allowance.copy_negate())
    taken = zip(line.discount_texts, line.discount_amounts, strict=True)
    for text, amount in taken:
        yield text, figures.amount(amount.copy_negate())
