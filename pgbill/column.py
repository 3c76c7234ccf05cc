"""Read the values of a column: each as the text that PostgreSQL takes, or a reason.

The database would take more than we want: `yesterday` for a time, `NaN` for a quantity,
and a time without offset in whatever zone it is set to. And it would name the first bad
value of a COPY alone. So each value is looked at here, one at a time, while the file
streams by; what needs other rows or tables is left to SQL.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pgbill.problem import shown

Parser = Callable[[str], str]

_KEY_LIMIT = 200
_TEXT_LIMIT = 1_000
_DIGITS = 18
_YEARS = range(1990, 2200)
_FIRST_USAGE_YEAR = 2000

# Control characters, and the separators that splitlines() takes for a line's end.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DECIMAL = re.compile(r"(-?)([0-9]+(?:\.[0-9]+)?)")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file, and of the table that it is staged in.

    Attributes:
        name: In the header, or the name of the JSON member.
        parse: Returns the value as COPY takes it, or raises ValueError with a reason.
        is_required: Whether it must be there, and not be empty.
        is_list: Whether JSON lines give an array or object, handed to `parse` as JSON.
        is_object: Whether JSON lines may give an object, handed to `parse` as JSON.
        staged_as: The column of the staging table, if it has another name.
    """

    name: str
    parse: Parser
    is_required: bool = False
    is_list: bool = False
    is_object: bool = False
    staged_as: str = ""

    @property
    def target(self) -> str:
        """The column of the staging table."""
        return self.staged_as or self.name


def text(value: str) -> str:
    """Take a line of text."""
    if _CONTROL.search(value):
        raise ValueError(f"{shown(value)} holds a control character")
    if len(value) > _TEXT_LIMIT:
        raise ValueError(f"it has more than {_TEXT_LIMIT} characters")
    return value


def key(value: str) -> str:
    """Take the key of something."""
    if len(value) > _KEY_LIMIT:
        raise ValueError(f"a key has at most {_KEY_LIMIT} characters")
    return text(value)


def matching(pattern: str, form: str) -> Parser:
    """Take what matches a pattern entirely; `form` says in words what that is."""
    compiled = re.compile(pattern)

    def parse(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(f"{shown(value)} is not {form}")
        return value

    return parse


def one_of(*choices: str) -> Parser:
    """Take one of a few words."""

    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError(f"{shown(value)} is none of {', '.join(choices)}")
        return value

    return parse


def decimal(value: str) -> str:
    """Take a number that is not negative, with at most 18 digits on either side."""
    number = signed(value)
    if number.startswith("-"):
        raise ValueError(f"{shown(value)} is negative")
    return number


def signed(value: str) -> str:
    """Take a number, which may be negative, with at most 18 digits on either side."""
    match = _DECIMAL.fullmatch(value)
    if match is None:
        raise ValueError(f"{shown(value)} is not a number such as 12.5")
    number = match[2]
    whole, _, fraction = number.partition(".")
    if len(whole.lstrip("0")) > _DIGITS or len(fraction) > _DIGITS:
        raise ValueError(
            f"{shown(value)} has more than {_DIGITS} digits before or after the point"
        )
    # Zero has no sign.
    return f"-{number}" if match[1] == "-" and number.strip("0.") else number


def whole(low: int, high: int) -> Parser:
    """Take a whole number within limits."""

    def parse(value: str) -> str:
        if not re.fullmatch(r"[0-9]{1,9}", value) or not low <= int(value) <= high:
            raise ValueError(
                f"{shown(value)} is not a whole number from {low} to {high}"
            )
        return value

    return parse


def boolean(value: str) -> str:
    """Take true or false, as JSON and CSV write it."""
    lowered = value.lower()
    if lowered not in {"true", "false"}:
        raise ValueError(f"{shown(value)} is neither true nor false")
    return lowered


def day(value: str) -> str:
    """Take a date such as 2026-10-01."""
    try:
        parsed = date.fromisoformat(value) if _DAY.fullmatch(value) else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise ValueError(f"{shown(value)} is not a date such as 2026-10-01")
    if parsed.year not in _YEARS:
        raise ValueError(f"{value} is not between {_YEARS[0]} and {_YEARS[-1]}")
    return value


def instant(value: str) -> str:
    """Take a time with its offset, and return it in UTC."""
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(
            f"{shown(value)} is not a time such as 2026-10-01T12:30:00+02:00"
        ) from None
    if parsed.tzinfo is None:
        raise ValueError(f"{shown(value)} has no offset: end it with Z or +02:00")
    # What is the future, only the clock of the database can say.
    if not _FIRST_USAGE_YEAR <= parsed.year < _YEARS[-1]:
        raise ValueError(
            f"{shown(value)} is not between {_FIRST_USAGE_YEAR} and {_YEARS[-1]}"
        )
    return parsed.astimezone(UTC).isoformat()
