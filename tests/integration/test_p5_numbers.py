"""P5: the numbers of a series have no gap and no duplicate, and dates never go back.

Kept by drawing number and time of issue last in the issuing transaction, from the one
row of the series, which stays locked until the commit: what is rolled back gives its
number back, and whoever comes next sees the last number and the last date.
"""

from datetime import date
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from pgbill import roles
from pgbill.errors import IssueDateError
from pgbill.issuing import Policy
from pgbill.lease import Scope
from tests import builders, by_hand, guards
from tests.actors import (
    Actor,
    Threads,
    bill_all,
    connect,
    on_duty,
    wait_for,
    wait_until_blocked,
)
from tests.shop import FIRST_DAY, Shop, findings, numbers, run_sql, value

_JUNE, _JULY = date(2026, 6, 1), date(2026, 7, 1)


def _policy(issue_on: date) -> Policy:
    return Policy("live", issue_on, max_due_periods=3, max_attempts=5)


def can_lose_a_number(conn: Connection[Any]) -> bool:
    """A transaction that has drawn a number is rolled back."""
    shop = Shop.open(conn)
    account = shop.account(conn)
    worker = Actor(conn)
    held = worker.claim_one(account)
    with conn.transaction(force_rollback=True):
        assert worker.outcomes(held) == ["invoiced"]
    worker.bill(held)
    return numbers(conn, shop.seller_id) != [1]


def can_date_back(dsn: str) -> bool:
    """Two issue at once; the one that is numbered second has taken an earlier date."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "june", policy=_policy(_JUNE)) as june,
        on_duty(dsn, "july", policy=_policy(_JULY)) as july,
    ):
        shop = Shop.open(owner)
        in_june = june.claim_one(shop.account(owner))
        in_july = july.claim_one(shop.account(owner))
        with july.conn.transaction():
            july.bill(in_july)
            late = threads.start(june.bill, in_june)
            wait_until_blocked(owner, june.conn)
        try:
            wait_for(late)
        except IssueDateError:
            return False
        return _dates(owner, shop) == [_JULY, _JUNE]


def can_give_a_number_twice(conn: Connection[Any]) -> bool:
    shop = Shop.open(conn)
    account = shop.account(conn)
    bill_all(conn, account)
    held = Actor(conn, scope=Scope(2, date(2026, 1, 31))).claim_one(account)
    invoice_id = by_hand.invoice(conn, account, held.fencing_token)
    (given,) = numbers(conn, shop.seller_id)
    return by_hand.succeeds(
        conn, lambda: by_hand.number(conn, account, invoice_id, given)
    )


def _dates(conn: Connection[Any], shop: Shop) -> list[date]:
    rows = conn.execute(
        "SELECT issued_on FROM pgbill.invoice_number"
        " INNER JOIN pgbill.number_series USING (series_id)"
        " WHERE seller_id = %s ORDER BY number",
        [shop.seller_id],
    )
    return [issued_on for (issued_on,) in rows]


def test_a_rollback_gives_the_number_back(conn: Connection[Any]) -> None:
    assert not can_lose_a_number(conn)


def test_dates_do_not_go_back(dsn: str) -> None:
    assert not can_date_back(dsn)


def test_a_number_is_given_once(conn: Connection[Any]) -> None:
    assert not can_give_a_number_twice(conn)


def test_a_batch_is_numbered_without_gap(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    accounts = [shop.account(conn) for _ in range(5)]
    worker = Actor(conn)

    worker.bill(*(worker.claim_one(each) for each in accounts))

    assert numbers(conn, shop.seller_id) == [1, 2, 3, 4, 5]
    assert findings(conn) == {}


def test_what_is_not_invoiced_takes_no_number(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    idle = builders.account(conn, shop.seller_id)

    outcomes = bill_all(conn, idle, shop.account(conn))

    assert outcomes == ["nothing_to_bill", "invoiced"]
    assert numbers(conn, shop.seller_id) == [1]


def test_each_seller_and_mode_has_its_own_series(conn: Connection[Any]) -> None:
    here, there = Shop.open(conn), Shop.open(conn)
    test_mode = Policy("test", None, max_due_periods=3, max_attempts=5)

    bill_all(conn, here.account(conn), there.account(conn), here.account(conn))
    bill_all(conn, here.account(conn), policy=test_mode)

    assert numbers(conn, here.seller_id) == [1, 2]
    assert numbers(conn, there.seller_id) == [1]
    assert value(
        conn,
        "SELECT array_agg(number_text ORDER BY number_text) FROM pgbill.invoice_number",
    ) == ["NL-000001", "NL-000001", "NL-000002", "TEST-NL-000001"]


def test_a_number_that_outgrows_its_digits_is_written_out(
    conn: Connection[Any],
) -> None:
    shop = Shop.open(conn)
    run_sql(conn, "UPDATE pgbill.number_series SET last_number = 998, digits = 3")

    bill_all(conn, shop.account(conn), shop.account(conn))

    assert value(
        conn,
        "SELECT array_agg(number_text ORDER BY number) FROM pgbill.invoice_number",
    ) == ["NL-999", "NL-1000"]


def test_an_issue_date_before_the_last_is_moved_to_it(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)

    bill_all(conn, shop.account(conn), policy=_policy(_JULY))
    bill_all(conn, shop.account(conn), policy=_policy(_JUNE))

    assert _dates(conn, shop) == [_JULY, _JULY]


def test_the_second_of_two_waits_and_takes_the_next_number(dsn: str) -> None:
    """Neither a gap nor a failure: it only waits, from its last statement on."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "first") as first,
        on_duty(dsn, "second") as second,
    ):
        shop = Shop.open(owner)
        one = first.claim_one(shop.account(owner))
        two = second.claim_one(shop.account(owner))

        with first.conn.transaction():
            first.bill(one)
            answer = threads.start(second.outcomes, two)
            wait_until_blocked(owner, second.conn)

        assert wait_for(answer) == ["invoiced"]
        assert numbers(owner, shop.seller_id) == [1, 2]
        order = "SELECT array_agg(account_id ORDER BY number) FROM pgbill.{}"
        assert value(owner, order.format("invoice_number")) == [
            one.account_id,
            two.account_id,
        ]


def holds_up_others_early(dsn: str) -> bool:
    """Whether an issuer waits for the series before it has written all else."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "second") as second,
    ):
        shop = Shop.open(owner)
        held = second.claim_one(shop.account(owner))
        with owner.transaction():
            run_sql(owner, "SELECT FROM pgbill.number_series FOR UPDATE")

            answer = threads.start(second.outcomes, held)
            wait_until_blocked(owner, second.conn)

            has_written: bool = value(
                owner,
                "SELECT count(*) = 2 FROM pg_locks WHERE pid = %s AND granted"
                " AND mode = 'RowExclusiveLock' AND relation IN"
                " ('pgbill.outbox_message'::regclass, 'pgbill.lease'::regclass)",
                second.conn.info.backend_pid,
            )
        assert wait_for(answer) == ["invoiced"]
        return not has_written


def test_numbers_are_drawn_last(dsn: str) -> None:
    """Until then nobody waits: a second issuer gets as far as the series itself."""
    assert not holds_up_others_early(dsn)


def test_with_the_series_locked_first_others_would_wait(dsn: str) -> None:
    with connect(dsn, roles.OWNER) as owner:
        lock = "PERFORM FROM pgbill.number_series FOR NO KEY UPDATE;"
        first = "INSERT INTO pgbill.billing_period"
        guards.edited("issue", (first, f"{lock} {first}"))(owner)

    assert holds_up_others_early(dsn)


def test_two_series_are_locked_in_the_order_of_their_keys(dsn: str) -> None:
    """Four issuers, each with two sellers in one batch, in either order."""
    with Threads() as threads, connect(dsn, roles.OWNER) as owner:
        shops = [Shop.open(owner), Shop.open(owner)]
        batches = [
            [shop.account(owner) for shop in (shops if turn % 2 else shops[::-1])]
            for turn in range(24)
        ]

        def issue(own: list[Any]) -> list[str]:
            with on_duty(dsn) as worker:
                return [
                    outcome
                    for batch in own
                    for outcome in worker.outcomes(*map(worker.claim_one, batch))
                ]

        answers = [threads.start(issue, batches[first::4]) for first in range(4)]

        assert [wait_for(each) for each in answers] == [["invoiced"] * 12] * 4
        for shop in shops:
            assert numbers(owner, shop.seller_id) == list(range(1, 25))
        assert findings(owner) == {}


def test_the_time_of_issue_grows_with_the_number(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    bill_all(conn, *(shop.account(conn) for _ in range(5)))

    times = conn.execute(
        "SELECT issued_at FROM pgbill.invoice_number ORDER BY number"
    ).fetchall()

    assert times == sorted(times)


def test_an_invoice_that_gets_no_number_is_not_issued(conn: Connection[Any]) -> None:
    """A trigger of somebody's own swallows the number."""
    run_sql(
        conn,
        "CREATE FUNCTION pgbill.swallow() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NULL; END'",
    )
    run_sql(
        conn,
        "CREATE TRIGGER mine BEFORE INSERT ON pgbill.invoice_number"
        " FOR EACH ROW EXECUTE FUNCTION pgbill.swallow()",
    )
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)
    held = worker.claim_one(account)

    with pytest.raises(psycopg.errors.AssertFailure):
        worker.bill(held)


@pytest.mark.parametrize("issue_on", [None, _JUNE])
def test_the_date_of_an_invoice_is_today_unless_it_is_given(
    conn: Connection[Any], issue_on: date | None
) -> None:
    """Today in the seller's zone, by the clock of the server."""
    shop = Shop.open(conn, zone="Pacific/Kiritimati")
    policy = Policy("live", issue_on, max_due_periods=3, max_attempts=5)

    bill_all(conn, shop.account(conn), policy=policy)

    today = value(
        conn, "SELECT (clock_timestamp() AT TIME ZONE 'Pacific/Kiritimati')::date"
    )
    assert _dates(conn, shop) == [issue_on or today]
    assert today > FIRST_DAY
