"""Write out a line of a document, so that a reader can check its amount.

What stands in the column of amounts adds up to the total: a line stands there with what
was priced, and what was taken off stands below it, with its own text. Where the price
is one amount for each unit, quantity times price is the amount; where it is not, the
line says what the amount is the sum of. A price with tax included is shown with tax,
and says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from pgbill import breakdown, reckoning
from pgbill.document import Line
from pgbill.figures import Figures

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
    billed = reckoning.portion_of(parts, line.service_from_on, line.service_through_on)
    priced = _priced(line)
    price = "" if parts.terms else _price(line, figures, is_negative=priced < 0)
    total = reckoning.total(parts, billed, figures, is_negative=priced < 0)
    amount = figures.amount(priced)
    return Item(
        description=line.description,
        service=words.period(line.service_from_on, line.service_through_on),
        notes=list(_notes(line, figures, says_tax=says_tax)),
        quantity=words.number(line.quantity),
        unit=words.unit(line.unit_code),
        price=price,
        price_notes=list(reckoning.factors(parts, billed, figures)) if price else [],
        # A sum of one amount says nothing that the amount does not.
        breakdown="" if price or total == amount else total,
        amount=amount,
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
