"""A reason that a person gives is one line of text, short enough to be read."""

import pytest

from pgbill.cli.reason import LIMIT, checked
from pgbill.errors import UsageError


def test_spaces_around_it_are_dropped() -> None:
    assert checked("  Müllers Idee  § 3 ") == "Müllers Idee  § 3"


def test_it_may_be_long_but_not_longer() -> None:
    assert checked("x" * LIMIT) == "x" * LIMIT

    with pytest.raises(UsageError, match="has 1,001 characters; at most 1,000"):
        checked("x" * (LIMIT + 1))


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_it_says_something(text: str) -> None:
    with pytest.raises(UsageError, match="--reason is empty"):
        checked(text)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a\x1b[31mb", "U\\+001B"),
        ("a\nb", "U\\+000A"),
        ("a\x7fb", "U\\+007F"),
        ("a\x9bb", "U\\+009B"),
        ("a\u2028b", "U\\+2028"),
        ("a\u202eb", "U\\+202E"),
    ],
)
def test_it_controls_nothing(text: str, where: str) -> None:
    with pytest.raises(UsageError, match=where):
        checked(text)
