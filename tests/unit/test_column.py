"""A value is taken as PostgreSQL would take it, or refused with a reason."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbill import column


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("12", "12"),
        ("12.50", "12.50"),
        ("0", "0"),
        ("-0", "0"),
        ("000000000000000000001", "000000000000000000001"),
        ("999999999999999999.999999999999999999", None),
    ],
)
def test_a_quantity_stays_exact(given: str, taken: str | None) -> None:
    assert column.decimal(given) == (given if taken is None else taken)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("-1", "is negative"),
        ("-0.01", "is negative"),
        ("abc", "is not a number"),
        ("1,5", "is not a number"),
        ("1 000", "is not a number"),
        ("NaN", "is not a number"),
        ("Infinity", "is not a number"),
        ("-inf", "is not a number"),
        ("1e400", "is not a number"),
        ("0x10", "is not a number"),
        ("1_000", "is not a number"),
        ("١٢", "is not a number"),
        (".", "is not a number"),
        ("1e99", "is not a number"),
        ("1e2", "is not a number"),
        ("1E-7", "is not a number"),
        ("+1", "is not a number"),
        ("+.5", "is not a number"),
        (".5", "is not a number"),
        ("1.", "is not a number"),
        ("--1", "is not a number"),
        ("1000000000000000000", "more than 18 digits"),
        ("0.1234567890123456789", "more than 18 digits"),
    ],
)
def test_what_is_no_quantity_is_refused(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        column.decimal(given)


@given(
    st.decimals(
        min_value=0,
        max_value=10**18 - 1,
        places=18,
        allow_nan=False,
        allow_infinity=False,
    )
)
def test_every_quantity_in_range_is_the_same_afterwards(number: Decimal) -> None:
    assert Decimal(column.decimal(format(number, "f"))) == number


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("2026-10-01T12:00:00Z", "2026-10-01T12:00:00+00:00"),
        ("2026-10-01T12:00:00+02:00", "2026-10-01T10:00:00+00:00"),
        ("2026-10-01 00:30:00.5-05:30", "2026-10-01T06:00:00.500000+00:00"),
        ("2026-10-01T12:00Z", "2026-10-01T12:00:00+00:00"),
    ],
)
def test_a_time_is_taken_to_utc(given: str, taken: str) -> None:
    assert column.instant(given) == taken


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("2026-10-01T12:00:00", "has no offset"),
        ("2026-10-01", "has no offset"),
        ("2026-02-30T12:00:00Z", "is not a time"),
        ("now", "is not a time"),
        ("infinity", "is not a time"),
        ("1759312800", "is not a time"),
        ("2026-10-01T12:00:00 Europe/Berlin", "is not a time"),
        ("1999-12-31T23:59:59Z", "is not between 2000 and"),
        ("9999-12-31T23:59:59-14:00", "is not between 2000 and"),
        ("0001-01-01T00:00:00+14:00", "is not between 2000 and"),
    ],
)
def test_what_is_no_time_is_refused(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        column.instant(given)


@pytest.mark.parametrize(
    "given",
    ["2026-02-29", "20261001", "01.10.2026", "2026-W40-4", "today", "1989-01-01"],
)
def test_what_is_no_date_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        column.day(given)


@pytest.mark.parametrize("given", ["a\tb", "a\nb", "a\r\nBcc: b", "a\x85b", "a\u2028b"])
def test_text_holds_no_control_characters(given: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        column.text(given)


def test_a_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(ValueError, match="…") as raised:
        column.decimal("x" * 10_000)

    assert len(str(raised.value)) < 100


@pytest.mark.parametrize(
    ("given", "taken"),
    [("-1.50", "-1.50"), ("-0.00", "0.00")],
)
def test_a_number_may_be_negative(given: str, taken: str) -> None:
    assert column.signed(given) == taken
