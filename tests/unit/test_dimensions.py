"""Dimensions are a few names with values, written in CSV or JSON, kept as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbill import dimensions


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("region=eu", {"region": "eu"}),
        (" region = eu ; model=large;", {"region": "eu", "model": "large"}),
        ("query=a=b", {"query": "a=b"}),
        ('{"region": "eu"}', {"region": "eu"}),
        ('{"note": "a;b=c"}', {"note": "a;b=c"}),
        (
            '{"size": 1.50, "count": 3, "spot": true}',
            {"size": "1.50", "count": "3", "spot": "true"},
        ),
        ('{"region": null}', {}),
        ("{}", {}),
        (";", {}),
    ],
)
def test_they_are_read_as_text(value: str, taken: dict[str, str]) -> None:
    assert json.loads(dimensions.parse(value)) == taken


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("eu", "'eu' is not a dimension such as region=eu"),
        ("=eu", "has 1 to 63 characters"),
        (f"{'x' * 64}=eu", "has 1 to 63 characters"),
        ("region=", "'region' has no value"),
        ("region=eu;region=us", "'region' stands twice"),
        ('{"region": "eu", "region": "us"}', "'region' stands twice"),
        ('{"region": "eu"', "is not a JSON object"),
        ('{"region": {"name": "eu"}}', "neither text, number nor boolean"),
        ('{"region": ["eu"]}', "neither text, number nor boolean"),
        ('{"region": NaN}', "neither text, number nor boolean"),
        ("a\tb=eu", "control character"),
        ("region=e\tu", "control character"),
        (f"region={'x' * 201}", "at most 200 characters"),
        (";".join(f"d{number}=1" for number in range(21)), "more than 20 dimensions"),
    ],
)
def test_what_is_none_is_refused(value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        dimensions.parse(value)


_TEXT = st.text("abcxyz 0123456789=äß", min_size=1, max_size=20).map(str.strip)
_PAIRS = st.dictionaries(
    _TEXT.filter(lambda name: name and "=" not in name), _TEXT.filter(bool), max_size=5
)


@given(_PAIRS)
def test_csv_and_json_say_the_same(pairs: dict[str, str]) -> None:
    in_csv = ";".join(f"{name}={value}" for name, value in pairs.items())

    assert json.loads(dimensions.parse(in_csv)) == pairs
    assert json.loads(dimensions.parse(json.dumps(pairs))) == pairs
