"""Show a line as people and programs ask for it, issued or not.

A line keeps what it was rated from; whoever looks at it wants to know what its amount
is reckoned from: for how many units a price is, which part of a period is billed, what
it is the sum of. That is read here, as the mail reads it, and once for what was issued
and what would be. Amounts are as they are kept, also those of credit notes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date, timedelta
from decimal import Decimal

from pgbill import breakdown, reckoning, wording
from pgbill.breakdown import Term
from pgbill.figures import Figures


@dataclass(frozen=True, slots=True)
class Columns:
    """What is kept of a line and shown as it is."""

    line_no: int
    kind: str
    description: str
    quantity: Decimal
    unit_code: str
    unit_amount: Decimal | None
    """None if the quantity is not priced by one amount, but by tiers and the like."""
    discount_amount: Decimal
    discounts: list[dict[str, str]] | None
    tax_included_amount: Decimal | None
    """What is priced and discounted, where the price includes tax; else none."""
    net_amount: Decimal
    tax_category: str | None
    """None only in a preview, while the tax is not known; as the rate."""
    tax_rate: Decimal | None
    service_from: date
    service_until: date
    """Half-open: the first day that it is not for."""
    usage_count: int | None


@dataclass(frozen=True, slots=True)
class Rated(Columns):
    """A line as queries return it."""

    rating_input: str
    """JSON, as text: parsed by the driver, its decimals would become floats."""


@dataclass(frozen=True, slots=True)
class Line(Columns):
    """A line, with what its amount is reckoned from."""

    per_quantity: Decimal
    """The unit amount, or each of the terms, is for so many units."""
    part: Decimal | None
    """Prorated, the line is for so much of `whole`; otherwise both are none."""
    whole: Decimal | None
    part_unit: str | None
    """days, hours or seconds; or periods, where part ÷ whole is a plain fraction."""
    terms: list[Term]
    """What the amount is the sum of; empty if the unit amount says it all."""
    terms_before: list[Term]
    """What earlier lines have billed of it."""
    reached_amount: Decimal | None
    """What is taken off at last: other lines bring it."""
    sum: str | None
    """All of that, as the mail says it; none if it would be the amount itself."""


def of(rows: Iterable[Rated]) -> list[Line]:
    """Read what lines are reckoned from."""
    return [_line(each) for each in rows]


def _line(row: Rated) -> Line:
    parts = breakdown.read(row.rating_input)
    last = row.service_until - timedelta(days=1)
    billed = reckoning.portion_of(parts, row.service_from, last)
    figures, priced = _figures(row), _priced(row)
    total = reckoning.total(parts, billed, figures, is_negative=priced < 0)
    says_more = total not in ("", figures.amount(priced))
    return Line(
        **{each.name: getattr(row, each.name) for each in fields(Columns)},
        per_quantity=parts.per_quantity,
        part=billed and billed.part,
        whole=billed and billed.whole,
        part_unit=billed and billed.unit,
        terms=parts.terms,
        terms_before=parts.before,
        reached_amount=parts.reached or None,
        # It does not wrap in a mail; here nobody asks for that.
        sum=total.replace("\N{NO-BREAK SPACE}", " ") if says_more else None,
    )


def _priced(row: Rated) -> Decimal:
    """Return the amount before discounts, with tax where the price is with tax."""
    with_tax = row.tax_included_amount
    return (row.net_amount if with_tax is None else with_tax) + row.discount_amount


def _figures(row: Rated) -> Figures:
    """Write figures in the language of the commands, in the digits of the line."""
    exponent = row.net_amount.as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) else 0
    return Figures(wording.find(wording.FALLBACK), "", max(digits, 0), has_vat=True)
