"""Write what an amount is reckoned from: the terms of its sum, and what multiplies it.

A document, a preview and `pgbill invoice show` say it alike, since all of them take it
from here. What says nothing is left out: a sum of one amount is the amount.
"""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal

from pgbill import portion
from pgbill.breakdown import Breakdown, Term
from pgbill.figures import Figures
from pgbill.portion import Portion

_TIMES = "\N{MULTIPLICATION SIGN}"
_MINUS = "\N{MINUS SIGN}"
_LONG = 24
_TEXTS = {
    "days": "part",
    "hours": "part_hours",
    "seconds": "part_seconds",
    portion.PERIODS: "parts",
}
"""The text of each unit in which a portion counts."""


def portion_of(parts: Breakdown, first: date, last: date) -> Portion | None:
    """Return which part of a period a line is for, from its first day to its last."""
    if parts.part is None or parts.whole is None:
        return None
    if parts.is_given_back:
        days = (last - first).days + 1
        return portion.given_back(parts.part, parts.whole, days)
    return portion.of(parts.part, parts.whole)


def factors(
    parts: Breakdown, billed: Portion | None, figures: Figures
) -> Iterator[str]:
    """Say for how many units a price is, and for which part of a period."""
    words = figures.words
    if parts.per_quantity != 1:
        yield words.whole(words.say("per", quantity=words.number(parts.per_quantity)))
    if billed is None:
        return
    if billed.whole == 1:
        yield f"{_TIMES} {words.number(billed.part)}"
    else:
        text = words.part(_TEXTS[billed.unit], billed.part, billed.whole)
        yield f"{_TIMES} {text}"


def total(
    parts: Breakdown, billed: Portion | None, figures: Figures, *, is_negative: bool
) -> str:
    """Write the terms of a breakdown as a sum, and what is taken off it.

    Returns:
        Nothing if there are no terms.
    """
    written = _terms(parts.terms, figures)
    if not written:
        return ""
    multiplied = " ".join(factors(parts, billed, figures))
    # What comes to nothing is not taken off.
    if any(each.value for each in parts.before):
        before = _terms(parts.before, figures)
        before = f"({before})" if len(parts.before) > 1 else before
        written = f"{written} {_MINUS} {before}"
    is_turned = is_negative and _value(parts) > 0
    if len(parts.terms) + len(parts.before) > 1 and (multiplied or is_turned):
        written = f"({written})"
    if multiplied:
        written = f"{written} {multiplied}"
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
    written = f"{counted} {_TIMES} {amount}"
    # A column may be narrower than that.
    return written if len(written) > _LONG else words.whole(written)
