"""Laws of what is billed, whatever the prices, policies and quantities are.

An example is an account that is billed by a run and rolled back, so each law has few of
them, and every run of the tests draws others.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.types.json import Jsonb

from tests import builders, drawn
from tests.drawn import Drawn, Sale, example, law
from tests.ledger import Ledger
from tests.shop import findings, value, values

pytestmark = pytest.mark.one_server

_JANUARY_31 = date(2026, 1, 31)
_MARCH_31 = date(2026, 3, 31)
_NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
_TAXES = {"standard": ("S", "19"), "reduced": ("S", "7"), "exempt": ("E", "0")}


def _ledger(conn: Connection[Any], **policy: object) -> Ledger:
    for tax_class, (category, rate) in _TAXES.items():
        builders.tax_rate(conn, tax_class=tax_class, category=category, rate=rate)
    return Ledger(conn, policy={"negative_total": "credit_note", **policy})


def _amounts(ledger: Ledger, what: str) -> list[Decimal]:
    """Return something of each line that the account was billed."""
    query = (
        f"SELECT {what} FROM pgbill.invoice_line"  # noqa: S608
        " WHERE account_id = %s ORDER BY invoice_id, line_no"
    )
    return values(ledger.conn, query, ledger.account.account_id)


def _billed(ledger: Ledger) -> Decimal:
    return sum(_amounts(ledger, "net_amount"), Decimal(0))


def _grant(ledger: Ledger, discounts: Sequence[tuple[str, str]]) -> None:
    for kind, number in discounts:
        rate: dict[str, Any] = {kind: number}
        builders.discount(ledger.conn, ledger.account, **rate)


@law(25)
@given(sale=drawn.sales(*_TAXES))
def test_lines_sum_to_totals(warm: Connection[Any], sale: Sale) -> None:
    """And what the audits compute again is what was issued."""
    with example(warm) as conn:
        ledger = _ledger(conn, **sale.policy)
        for price, tax_class, quantities in sale.used:
            columns: dict[str, Any] = {
                "tax_included": sale.tax_included,
                "tax_class": tax_class,
                **price.columns,
            }
            meter_id = ledger.metered(price.amount, **columns)
            if quantities:
                ledger.use(meter_id, *quantities)
        for amount, tax_class in sale.charges:
            builders.charge(
                conn,
                ledger.account,
                unit_amount=amount,
                tax_class=tax_class,
                tax_included=sale.tax_included,
            )
        _grant(ledger, sale.discounts)

        outcomes = ledger.bill(_JANUARY_31)

        assert outcomes[-1] in ("invoiced", "nothing_to_bill")
        assert findings(conn) == {}
        if outcomes[-1] == "invoiced":
            _check_totals(ledger, tax_included=sale.tax_included)


def _check_totals(ledger: Ledger, *, tax_included: bool) -> None:
    row = ledger.conn.execute(
        "SELECT net_amount, tax_amount, gross_amount, (SELECT sum(tax_amount)"
        " FROM pgbill.invoice_tax) FROM pgbill.invoice"
    ).fetchone()
    assert row is not None
    net, tax, gross, taxes = row
    assert _billed(ledger) == net
    assert taxes == tax
    assert net + tax == gross
    if tax_included:
        assert sum(_amounts(ledger, "tax_included_amount"), Decimal(0)) == gross


@law(60)
@given(
    tiers=drawn.tiers(drawn.AMOUNTS, st.just("0")),
    steps=st.lists(
        drawn.decimals("0.0001", "3", places=4).map(Decimal), min_size=1, max_size=5
    ),
)
def test_graduated_tiers_without_flats_are_continuous(
    warm: Connection[Any], tiers: list[builders.Tier], steps: list[Decimal]
) -> None:
    """At the edge of a tier a little more costs a little more, by its unit amount."""
    edges = [Decimal(up_to) for up_to, *_ in tiers if up_to is not None]
    units = [Decimal(unit) for _, unit, *_ in tiers]
    for edge, unit, next_unit in zip(edges, units, units[1:], strict=False):
        for step in steps:
            here, less, more = _graduated(warm, tiers, edge, edge - step, edge + step)

            within = max((it for it in edges if it < edge), default=Decimal(0))
            if edge - step >= within:
                assert here - less == step * unit
            beyond = min((it for it in edges if it > edge), default=edge + step)
            if edge + step <= beyond:
                assert more - here == step * next_unit


def _graduated(
    conn: Connection[Any], tiers: list[builders.Tier], *quantities: Decimal
) -> list[Decimal]:
    said = [
        {"up_to": up_to, "unit_amount": unit, "flat_amount": "0"}
        for up_to, unit, *_ in tiers
    ]
    return values(
        conn,
        "SELECT pgbill.price(jsonb_build_object('model', 'graduated', 'digits', 20,"
        " 'quantity', greatest(asked.quantity, 0), 'tiers', %s::jsonb))"
        " FROM unnest(%s::numeric[]) WITH ORDINALITY AS asked (quantity, place)"
        " ORDER BY asked.place",
        Jsonb(said),
        list(quantities),
    )


@law(25)
@given(
    price=drawn.prices(*drawn.BY_SUM),
    rounding=st.sampled_from(drawn.ROUNDINGS),
    records=st.lists(
        st.lists(drawn.QUANTITIES, min_size=1, max_size=3), min_size=1, max_size=3
    ),
)
def test_splitting_records_never_changes_an_amount(
    warm: Connection[Any], price: Drawn, rounding: str, records: list[list[str]]
) -> None:
    with example(warm) as conn:
        whole = _ledger(conn, line_rounding=rounding)
        split = Ledger(conn, policy={"line_rounding": rounding})
        sums = [str(sum(map(Decimal, parts))) for parts in records]
        whole.use(whole.metered(price.amount, **price.columns), *sums)
        parts = [part for parts in records for part in parts]
        split.use(split.metered(price.amount, **price.columns), *parts)

        assert whole.bill(_JANUARY_31) == split.bill(_JANUARY_31)

        assert _amounts(whole, "net_amount") == _amounts(split, "net_amount")


@law(20)
@given(
    price=drawn.prices(*drawn.MODELS),
    records=st.lists(
        st.tuples(drawn.QUANTITIES, st.integers(0, 2)), min_size=1, max_size=5
    ),
)
def test_late_usage_costs_in_sum_what_it_would_have_cost_in_time(
    warm: Connection[Any], price: Drawn, records: list[tuple[str, int]]
) -> None:
    """All of it is of January, and comes in that month, in February or in March."""
    with example(warm) as conn:
        late, in_time = _ledger(conn), Ledger(conn)
        late_meter_id = late.metered(price.amount, **price.columns)
        meter_id = in_time.metered(price.amount, **price.columns)
        times = [_NOON + timedelta(minutes=minute) for minute in range(len(records))]
        for (quantity, _), at in zip(records, times, strict=True):
            in_time.use(meter_id, quantity, occurred_at=at)
        in_time.bill(_MARCH_31)
        for month, end_on in enumerate((_JANUARY_31, date(2026, 2, 28), _MARCH_31)):
            for (quantity, comes_in), at in zip(records, times, strict=True):
                if comes_in == month:
                    late.use(late_meter_id, quantity, occurred_at=at)
            late.bill(end_on)

        assert findings(conn) == {}
        assert abs(_billed(late) - _billed(in_time)) <= _slack(price, records)


def _slack(price: Drawn, records: list[tuple[str, int]]) -> Decimal:
    """Return by how much sums may differ: not at all, but for prices by the unit.

    Their late lines are quantity times price, each rounded by itself.
    """
    is_by_itself = price.model == "per_unit" and not price.is_limited
    return Decimal("0.005") * (1 + len(records)) if is_by_itself else Decimal(0)


@law(25)
@given(
    charges=st.lists(drawn.decimals("-30", "90", places=2), min_size=1, max_size=4),
    discounts=drawn.DISCOUNTS,
)
def test_discounts_never_go_below_zero(
    warm: Connection[Any], charges: list[str], discounts: list[tuple[str, str]]
) -> None:
    """A credit gets no discount, and an amount is taken off once."""
    with example(warm) as conn:
        ledger = _ledger(conn)
        for amount in charges:
            builders.charge(conn, ledger.account, unit_amount=amount)
        _grant(ledger, discounts)

        ledger.bill(_JANUARY_31)

        for before, off in conn.execute(
            "SELECT net_amount + discount_amount, discount_amount"
            " FROM pgbill.invoice_line"
        ):
            assert 0 <= off <= max(before, 0)
        total = sum(max(Decimal(amount), Decimal(0)) for amount in charges)
        granted = sum(Decimal(number) for kind, number in discounts if kind == "amount")
        taken = sum(_amounts(ledger, "discount_amount"), Decimal(0))
        assert taken <= total
        if all(kind == "amount" for kind, _ in discounts):
            assert taken == min(total, granted)


@law(15)
@given(
    credits_=st.lists(drawn.decimals("0.01", "150", places=2), max_size=3),
    months=st.lists(drawn.decimals("-40", "90", places=2), min_size=1, max_size=3),
)
def test_prepaid_credit_is_spent_once_and_never_below_zero(
    warm: Connection[Any], credits_: list[str], months: list[str]
) -> None:
    """Nothing is payable as long as some of it is left."""
    with example(warm) as conn:
        ledger = _ledger(conn)
        for amount in credits_:
            builders.prepaid_credit(conn, ledger.account, amount)
        for month, amount in enumerate(months, start=1):
            service_on = date(2026, month, 10)
            builders.charge(
                conn, ledger.account, unit_amount=amount, service_on=service_on
            )

        ledger.bill(_MARCH_31)

        left = sum(map(Decimal, credits_), Decimal(0))
        for gross, prepaid in conn.execute(
            "SELECT gross_amount, prepaid_amount FROM pgbill.invoice"
            " ORDER BY period_end"
        ):
            assert prepaid == min(max(gross, 0), left)
            left -= prepaid
        assert left == value(
            conn,
            "SELECT coalesce(sum(amount), 0) FROM pgbill.prepaid_left(%s, %s, %s)",
            ledger.account.bucket,
            ledger.account.account_id,
            date(2099, 1, 1),
        )
        assert findings(conn) == {}


@law(25)
@given(
    price=st.fixed_dictionaries(
        {
            "unit_amount": drawn.decimals("0.01", "99", places=2),
            "billing_interval": st.sampled_from([None, "monthly", "half_yearly"]),
        }
    ),
    policy=drawn.policies(),
    account=st.fixed_dictionaries(
        {
            "billing_interval": st.sampled_from(["monthly", "quarterly"]),
            "first_period_on": st.sampled_from(
                [date(2025, 1, day) for day in (1, 5, 15, 28, 31)]
            ),
        }
    ),
    cuts=st.sets(st.integers(0, 100), min_size=2, max_size=5),
)
def test_prorated_parts_sum_to_the_whole(
    warm: Connection[Any],
    price: dict[str, Any],
    policy: dict[str, object],
    account: dict[str, Any],
    cuts: set[int],
) -> None:
    """A subscription that is cut into parts, without a change, costs what it costs."""
    first_on: date = account["first_period_on"]
    days = [first_on + timedelta(days=day) for day in sorted(cuts)]
    with example(warm) as conn:
        builders.tax_rate(conn)
        totals: list[Decimal] = []
        for begins in (days[:1], days):
            ledger = Ledger(conn, policy=policy, **account)
            fee = ledger.price(**price, timing="arrears")
            subscription_id = ledger.subscribe(fee, starts_on=begins[0])
            for begin_on in begins[1:]:
                ledger.change(subscription_id, fee, begin_on)
            ledger.bill(first_on + timedelta(days=190))
            totals.append(_billed(ledger))

        assert totals[0] == totals[1]
