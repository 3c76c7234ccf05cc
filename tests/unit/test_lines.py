"""Whatever is wrong in a TOML file is named with the line on which it stands."""

import tomllib
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbill import lines

TEXT = '''\
# A comment with [brackets] and = signs.
[sellers.north]  # and one behind
name = "a ] } , # = b"
"quoted.key" = 1
footers.en = """
[not.a.table]
key = "x" ""\\""""
footers.de = \'\'\'
it''s\'\'\'\'
dates = [2026-01-01,
  # between
  2026-01-02 10:00:00,
]

[prices.fee]
versions = [
    { begins_on = 2026-01-01, amount = "1" },
    { begins_on = 2027-01-01, tiers = [
        { up_to = "5" },
        { amount = '0' } ] },
]
after = { inline = { deep = true }, more = [[1, 2], []] }

[[tax_rates]]
rate = "19"

[[tax_rates]]
rate = ["5",
        "9.975"]

[tax_rates.nested]
key = 1
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("sellers", 2),
        ("sellers.north", 2),
        ("sellers.north.name", 3),
        ("sellers.north.quoted.key", 4),
        ("sellers.north.footers.en", 5),
        ("sellers.north.footers.de", 8),
        ("sellers.north.dates", 10),
        ("sellers.north.dates[1]", 10),
        ("sellers.north.dates[2]", 12),
        ("prices.fee.versions[1].amount", 17),
        ("prices.fee.versions[2].tiers[1].up_to", 19),
        ("prices.fee.versions[2].tiers[2].amount", 20),
        ("prices.fee.after.inline.deep", 22),
        ("prices.fee.after.more[1][2]", 22),
        ("tax_rates[1].rate", 25),
        ("tax_rates[2]", 27),
        ("tax_rates[2].rate[2]", 29),
        ("tax_rates[2].nested.key", 32),
    ],
)
def test_a_place_has_its_line(place: str, line: int) -> None:
    tomllib.loads(TEXT)

    assert lines.line_of(lines.find(TEXT), place) == line


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("sellers.north.city", 2),
        ("prices.fee.versions[2].amount", 18),
        ("prices.fee.versions[9]", 16),
        ("tax_rates[2].category", 27),
        ("colours", 1),
        ("", 1),
    ],
)
def test_what_is_not_there_has_the_line_of_its_table(place: str, line: int) -> None:
    assert lines.line_of(lines.find(TEXT), place) == line


_KEYS = st.sampled_from(["a", "b-1", '"c d"', "'e.f'", '"\\""'])
_SCALARS = st.sampled_from(
    ["1", '"x"', "true", '"]}#,"', "''", "1.5e3", "2026-01-01", '"""a\nb"""']
)


def _arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(values, max_size=3)
    pairs = st.dictionaries(_KEYS, values, max_size=3)
    return members.map(lambda it: f"[{', '.join(it)}]") | pairs.map(
        lambda it: f"{{ {', '.join(f'{key} = {value}' for key, value in it.items())} }}"
    )


def _paths(value: object, path: str) -> set[str]:
    members: dict[str, object] = {}
    if isinstance(value, dict):
        dot = "." if path else ""
        for key, member in cast("dict[str, object]", value).items():
            members[f"{path}{dot}{key}"] = member
    if isinstance(value, list):
        for number, member in enumerate(cast("list[object]", value), start=1):
            members[f"{path}[{number}]"] = member
    return members.keys() | {
        found for path, member in members.items() for found in _paths(member, path)
    }


@given(st.dictionaries(_KEYS, st.recursive(_SCALARS, _arrays), min_size=1))
def test_every_value_of_any_file_has_a_line(members: dict[str, str]) -> None:
    """Of its own, or nothing would stand under its path."""
    text = "\n".join(f"{key} = {value}  # {key}" for key, value in members.items())

    assert set(lines.find(text)) == _paths(tomllib.loads(text), "")
