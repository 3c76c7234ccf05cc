"""Say which part of a period is billed, in a unit that people count in.

A rating input keeps a part and a whole, in days or in seconds as the policy counts, and
multiplied with each other where parts of several periods add up. Which of them it is
follows from the whole: it is as long as a period of some interval, or it is no period.
A part of one period is told in days, or in hours or seconds where it is not of whole
days; all else is a plain fraction. What is given back of an advance fee is kept
reduced, so there the days of the line say how many of how many.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

PERIODS = "periods"
"""The unit of a plain fraction."""

# Of a week, a month, a quarter, half a year and a year, with months of 30 days too.
_LENGTHS = {
    7,
    *range(28, 32),
    *range(89, 93),
    *range(180, 185),
    *(360, 365, 366),
}
_SECONDS = {"days": 86_400, "hours": 3_600, "seconds": 1}
# A period in which a clock is set is longer or shorter by so many seconds at most.
_SHIFT = 3_600


@dataclass(frozen=True, slots=True)
class Portion:
    """How much of a period is billed: `part` of `whole`."""

    part: Decimal
    whole: Decimal
    unit: str
    """days, hours or seconds; or periods, of which a plain fraction counts."""


def of(part: Decimal, whole: Decimal) -> Portion | None:
    """Return a portion; none if it is all of a period."""
    if part == whole:
        return None
    if part < whole and whole in _LENGTHS:
        return _portion(Fraction(part), Fraction(whole), "days")
    if part < whole and _is_length_in_seconds(whole):
        for unit, seconds in _SECONDS.items():
            if part % seconds == whole % seconds == 0:
                return _portion(
                    Fraction(part) / seconds, Fraction(whole) / seconds, unit
                )
    return _plain(part, whole)


def given_back(part: Decimal, whole: Decimal, days: int) -> Portion | None:
    """Return which part of a fee is given back, for so many days; none: all of it."""
    if part == whole:
        return None
    length = days * Fraction(whole) / Fraction(part)
    if length in _LENGTHS:
        return _portion(Fraction(days), length, "days")
    return _plain(part, whole)


def _plain(part: Decimal, whole: Decimal) -> Portion:
    reduced = Fraction(part) / Fraction(whole)
    return _portion(Fraction(reduced.numerator), Fraction(reduced.denominator), PERIODS)


def _portion(part: Fraction, whole: Fraction, unit: str) -> Portion:
    return Portion(_decimal(part), _decimal(whole), unit)


def _decimal(value: Fraction) -> Decimal:
    """Return a number without the zeros at its end that are kept with seconds."""
    return Decimal(value.numerator) / value.denominator


def _is_length_in_seconds(whole: Decimal) -> bool:
    day = _SECONDS["days"]
    return any(abs(whole - length * day) <= _SHIFT for length in _LENGTHS)
