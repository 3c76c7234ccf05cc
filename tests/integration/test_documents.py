"""What is printed is what was issued, and its sums are those that were billed."""

import json
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.types.range import DateRange

from pgbill import breakdown, document, rendering
from pgbill.document import Document
from tests import actors, builders, world
from tests.builders import Account
from tests.documents import plain
from tests.shop import FEBRUARY, Shop, value

pytestmark = pytest.mark.one_server

_READ_ONLY = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def newest(conn: Connection[Any], account: Account, kind: str = "invoice") -> Document:
    invoice_id = value(
        conn,
        "SELECT max(invoice_id) FROM pgbill.invoice"
        " WHERE bucket = %s AND account_id = %s AND kind = %s",
        account.bucket,
        account.account_id,
        kind,
    )
    found = document.load(
        conn,
        bucket=account.bucket,
        account_id=account.account_id,
        invoice_id=invoice_id,
    )
    assert found is not None
    return found


def text_of(printed: Document) -> str:
    return plain(rendering.render(printed)[0])


def test_a_credit_note_names_the_invoice_that_it_corrects(
    conn: Connection[Any],
) -> None:
    account = world.build(conn).reissued

    credit_note = newest(conn, account, "credit_note")

    text = text_of(credit_note)
    (corrected,) = credit_note.invoice.corrects
    assert credit_note.invoice.gross_amount < 0
    assert f"Corrects invoice: {corrected}" in text
    assert corrected == value(
        conn,
        "SELECT number_text FROM pgbill.invoice_overview"
        " WHERE account_key = 'reissued' AND period_end = %s AND revision = 1",
        FEBRUARY,
    )
    assert "\N{MINUS SIGN}" not in rendering.render(credit_note)[0]


def test_an_invoice_corrects_nothing(conn: Connection[Any]) -> None:
    account = world.build(conn).reissued

    assert newest(conn, account).invoice.corrects == []


def test_discounts_are_printed_in_the_order_in_which_they_were_taken(
    conn: Connection[Any],
) -> None:
    account = Shop.open(conn).account(conn)
    for rank, (key, percent) in enumerate((("z-first", 10), ("a-second", 50))):
        builders.insert(
            conn,
            "discount",
            "discount_id",
            bucket=account.bucket,
            account_id=account.account_id,
            key=key,
            description=key,
            percent=percent,
            rank=rank,
            active_period=DateRange(date(2026, 1, 1), None),
        )
    actors.bill_all(conn, account)

    (line,) = newest(conn, account).lines

    assert line.discount_texts == ["z-first", "a-second"]
    assert line.discount_amounts == [Decimal("1.00"), Decimal("4.50")]
    assert (line.discount_amount, line.net_amount) == (
        Decimal("5.50"),
        Decimal("4.50"),
    )


def test_tiers_are_printed_as_they_were_billed(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    account = builders.account(conn, shop.seller_id)
    price = builders.price(
        conn, shop.seller_id, amount="0.01", meter_id=shop.meter_id, model="volume"
    )
    builders.subscription(conn, account, price)
    shop.use(conn, account, "1234.5")
    actors.bill_all(conn, account, through_on=date(2026, 1, 31))

    text = text_of(newest(conn, account))

    assert "  1,234.5 unit\n  1,234.5 * 0.01 = 12.35 EUR" in text


_AMOUNTS = st.decimals(0, 100, places=4)
_QUANTITIES = st.decimals(0, 30, places=2)
_TIERED = (
    "graduated",
    "volume",
    "stairstep",
    "stairstep_cumulative",
    "capacity",
    "graduated_percentage",
)


@st.composite
def _tiered(draw: st.DrawFn) -> dict[str, Any]:
    ends = sorted(draw(st.sets(st.integers(1, 25), max_size=3)))
    tiers = [
        {"up_to": end, "unit_amount": draw(_AMOUNTS), "flat_amount": draw(_AMOUNTS)}
        for end in [*ends, None]
    ]
    given: dict[str, Any] = {"model": draw(st.sampled_from(_TIERED)), "tiers": tiers}
    if draw(st.booleans()):
        given["bills_zero"] = True
    if draw(st.booleans()):
        given["package_size"] = draw(st.integers(1, 7))
    return given


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a rating input with everything that may stand in one."""
    counts = st.integers(0, 9)
    percentage = st.fixed_dictionaries(
        {
            "model": st.just("percentage"),
            "unit_amount": _AMOUNTS,
            "charged_amount": _AMOUNTS,
            "charged_count": counts,
            "fixed_amount": _AMOUNTS,
            "record_minimum": _AMOUNTS,
            "minimum_count": counts,
            "record_maximum": _AMOUNTS,
            "maximum_count": counts,
        }
    )
    package = st.fixed_dictionaries(
        {
            "model": st.just("package"),
            "unit_amount": _AMOUNTS,
            "package_size": st.integers(1, 7),
            "free_quantity": _QUANTITIES,
        }
    )
    drawn = {
        **draw(st.one_of(_tiered(), percentage, package)),
        "quantity": draw(_QUANTITIES),
        "digits": draw(st.sampled_from((0, 2, 3))),
    }
    if draw(st.booleans()):
        drawn |= {"part": draw(st.integers(1, 31)), "whole": 31}
    return drawn


@_READ_ONLY
@given(drawn=_inputs(), before=st.none() | _QUANTITIES)
def test_a_breakdown_comes_to_what_was_billed(
    conn: Connection[Any], drawn: dict[str, Any], before: Decimal | None
) -> None:
    """Rounded as the database rounds: all of it, less what was billed before."""
    if before is not None and drawn["model"] != "percentage":
        drawn["before"] = {"quantity": before}
    rating_input = json.dumps(drawn, default=float)

    parts = breakdown.read(rating_input)

    share = Decimal(1) if parts.part is None else parts.part
    whole = Decimal(1) if parts.whole is None else parts.whole
    digit = Decimal(1).scaleb(-drawn["digits"])

    def rounded(terms: list[breakdown.Term]) -> Decimal:
        exact = sum((each.value for each in terms), Decimal(0)) * share / whole
        return exact.quantize(digit, ROUND_HALF_UP)

    billed = value(conn, "SELECT pgbill.price(%s::jsonb)", rating_input)
    assert billed == rounded(parts.terms) - rounded(parts.before)


@pytest.mark.parametrize("reached", ["0", "80.5", "120"])
def test_a_minimum_comes_to_what_is_missing(
    conn: Connection[Any], reached: str
) -> None:
    rating_input = (
        '{"model": "minimum", "quantity": 1, "unit_amount": 100, "digits": 2,'
        f' "reached": {reached}}}'
    )

    parts = breakdown.read(rating_input)

    (term,) = parts.terms
    billed = value(conn, "SELECT pgbill.price(%s::jsonb)", rating_input)
    assert billed == max(term.value - parts.reached, Decimal(0))
