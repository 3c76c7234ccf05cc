"""Read what a usage record is about: a few names, each with a value.

JSON lines give an object. CSV gives `region=eu;model=large`, or the same object where
a value holds a semicolon. Whatever the value was, a number or a boolean, it is kept as
the text that stood in the file: prices group by what was written, and 1.50 stays 1.50.
A file repeats the same few dimensions on each line, so what was read is remembered.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

from pgbill import column
from pgbill.problem import shown

_LIMIT = 20
_NAME_LIMIT = 63
# Of a line that is read; there are as many as a million.
_REMEMBERED = 1_000


@lru_cache(_REMEMBERED)
def parse(value: str) -> str:
    """Take dimensions; return them as a JSON object of strings."""
    given = _members(value) if value.startswith("{") else _pairs(value)
    found: dict[str, str] = {}
    for name, member in given:
        if name in found:
            raise ValueError(f"{shown(name)} stands twice")
        found[_name(name)] = _value(name, member)
    if len(found) > _LIMIT:
        raise ValueError(f"there are more than {_LIMIT} dimensions")
    return json.dumps(found)


def _pairs(value: str) -> Iterable[tuple[str, object]]:
    for pair in value.split(";"):
        name, equals, member = pair.partition("=")
        if equals:
            yield name.strip(), member
        elif pair.strip():
            raise ValueError(f"{shown(pair)} is not a dimension such as region=eu")


def _members(value: str) -> Iterable[tuple[str, object]]:
    try:
        given: object = json.loads(
            value, parse_float=str, parse_int=str, object_pairs_hook=list
        )
    except (ValueError, RecursionError):
        raise ValueError(f"{shown(value)} is not a JSON object") from None
    pairs = cast("list[tuple[str, object]]", given)
    return ((name.strip(), member) for name, member in pairs if member is not None)


def _name(name: str) -> str:
    if not name or len(name) > _NAME_LIMIT:
        raise ValueError(f"a dimension's name has 1 to {_NAME_LIMIT} characters")
    return column.text(name)


def _value(name: str, member: object) -> str:
    if isinstance(member, bool):
        return str(member).lower()
    if not isinstance(member, str):
        raise ValueError(f"{shown(name)} is neither text, number nor boolean")  # noqa: TRY004
    if not member.strip():
        raise ValueError(f"{shown(name)} has no value")
    return column.key(member.strip())
