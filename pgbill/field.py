"""Check the tables of a TOML file: each value, and that nothing is there unasked.

A misspelt key that is left alone is an optional value that is silently missing, so an
unknown key is a mistake. Everything found is noted with its place, the path of keys to
it, and the reading goes on. Money is a string here as everywhere: a TOML float has lost
its decimals before anybody could look.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

from pgbill import column, country
from pgbill.problem import shown

Parser = Callable[[object], object]

_YEARS = range(1990, 2200)


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a table, and what its value must be."""

    name: str
    parse: Parser
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something wrong at a place, the path of keys to it."""

    place: str
    reason: str

    def __str__(self) -> str:
        """Name it for a person."""
        return f"{self.place}: {self.reason}"


@dataclass(slots=True)
class Places:
    """What is wrong in a file, each with the path of keys to it."""

    found: list[Wrong] = field(default_factory=list[Wrong])

    def add(self, place: str, reason: str) -> None:
        """Note that something is wrong at a place."""
        self.found.append(Wrong(place, reason))

    def table(
        self,
        place: str,
        given: object,
        fields: Sequence[Field],
        *,
        unknown: str = "there is no such key",
    ) -> dict[str, Any] | None:
        """Return the values of a table, with None for those that are left out.

        Args:
            place: Where it stands.
            given: What stands there.
            fields: The keys that it may have.
            unknown: What is said of any other key.

        Returns:
            None if something is wrong; it has been noted then.
        """
        if not isinstance(given, dict):
            self.add(place, f"{shown(given)} is not a table")
            return None
        before = len(self.found)
        members = cast("dict[str, object]", given)
        names = [each.name for each in fields]
        for name in sorted(members.keys() - set(names)):
            known = ", ".join(names)
            self.add(f"{place}.{name}", f"{unknown} (the keys are {known})")
        values = {
            each.name: self._value(f"{place}.{each.name}", members, each)
            for each in fields
        }
        return values if len(self.found) == before else None

    def _value(
        self, place: str, members: Mapping[str, object], expected: Field
    ) -> object:
        if expected.name not in members:
            if expected.is_required:
                self.add(place, "it is missing")
            return None
        try:
            return expected.parse(members[expected.name])
        except ValueError as error:
            self.add(place, str(error))
            return None


def anything(value: object) -> object:
    """Take what is checked later."""
    return value


def text(value: object) -> str:
    """Take a line of text that is not empty."""
    if isinstance(value, str) and value.strip():
        return column.text(value.strip())
    raise ValueError(f"{shown(value)} is not a text")


def paragraph(value: object) -> str:
    """Take lines of text."""
    if isinstance(value, str) and value.strip():
        lines = [column.text(line.rstrip()) for line in value.strip().split("\n")]
        return "\n".join(lines)
    raise ValueError(f"{shown(value)} is not a text")


def matching(pattern: str, form: str) -> Parser:
    """Take a text that matches a pattern; `form` says in words what that is."""
    parse = column.matching(pattern, form)
    return lambda value: parse(text(value))


def one_of(*choices: str) -> Parser:
    """Take one of a few words."""
    parse = column.one_of(*choices)
    return lambda value: parse(text(value))


def many(parse: Parser) -> Parser:
    """Take one value or an array of them; return a list."""

    def parse_all(value: object) -> list[object]:
        values = cast("list[object]", value) if isinstance(value, list) else [value]
        if not values:
            raise ValueError("the array is empty")
        return [parse(each) for each in values]

    return parse_all


def by_key(pattern: str, form: str, parse: Parser) -> Parser:
    """Take a table whose keys match a pattern."""

    def parse_all(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise ValueError(f"{shown(value)} is not a table by {form}")  # noqa: TRY004
        members = cast("dict[str, object]", value)
        for key in members:
            if not re.fullmatch(pattern, key):
                raise ValueError(f"{shown(key)} is not {form}")
        return {key: parse(each) for key, each in members.items()}

    return parse_all


def decimal(value: object) -> Decimal:
    """Take a decimal number that is written as a string."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - all reasons come as ValueError
            f'numbers are written in quotes, as in "{value}", since a float loses'
            " decimals"
        )
    return Decimal(column.decimal(text(value)))


def positive(value: object) -> Decimal:
    """Take a decimal number above zero that is written as a string."""
    number = decimal(value)
    if not number:
        raise ValueError(f"{shown(value)} is not more than zero")
    return number


def flag(value: object) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false")  # noqa: TRY004
    return value


def whole(low: int, high: int) -> Parser:
    """Take a whole number within limits."""

    def parse(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return int(column.whole(low, high)(str(value)))
        raise ValueError(f"{shown(value)} is not a whole number from {low} to {high}")

    return parse


def day(value: object) -> date:
    """Take a date, which TOML writes without quotes."""
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError(f"{shown(value)} is not a date such as 2026-01-01, unquoted")  # noqa: TRY004
    if value.year not in _YEARS:
        raise ValueError(f"{value} is not between {_YEARS[0]} and {_YEARS[-1]}")
    return value


def country_code(value: object) -> str:
    """Take the code of a country."""
    return country.check(text(value))
