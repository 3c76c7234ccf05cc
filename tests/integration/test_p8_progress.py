"""P8: one bad account, one dead worker, one slow service never stops the run.

Kept by an outcome for each account, by leases that expire, and by a cap on attempts. An
account that fails is left alone by its run and tried by the next. An account whose
holder did not let go is claimed alone, so that one that kills its workers takes no
others along; after so many attempts it is parked, and a person is alerted.
"""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill import lease
from pgbill.issuing import Policy
from pgbill.lease import Scope
from tests import builders
from tests.actors import EXPIRED, POLICY, Actor, bill_all, expire
from tests.builders import Account
from tests.shop import (
    FEBRUARY,
    FIRST_DAY,
    MARCH,
    Shop,
    books,
    lease_row,
    numbers,
    run_sql,
    values,
)


def _neighbours(conn: Connection[Any], count: int) -> list[Account]:
    """Add accounts of one bucket."""
    shop = Shop.open(conn)
    keys = values(
        conn,
        "SELECT 'near-' || number FROM generate_series(1, 9999) AS number"
        " WHERE pgbill.bucket_of('near-' || number) = 7 ORDER BY number LIMIT %s",
        count,
    )
    return [shop.account(conn, key=key) for key in keys]


def _alerts(conn: Connection[Any], account: Account) -> list[str]:
    return values(
        conn,
        "SELECT kind FROM pgbill.alert WHERE bucket = %s AND account_id = %s"
        " ORDER BY alert_id",
        account.bucket,
        account.account_id,
    )


def can_take_others_along(conn: Connection[Any]) -> bool:
    """A worker dies with one account; its successor claims it among others."""
    deadly, *_ = _neighbours(conn, 3)
    Actor(conn, "dead").claim_one(deadly, ttl_seconds=EXPIRED)
    claimed = [each.account_id for each in Actor(conn, "next").claim(deadly)]
    return deadly.account_id in claimed and len(claimed) > 1


def can_kill_workers_for_ever(conn: Connection[Any]) -> bool:
    account = Shop.open(conn).account(conn)
    for _ in range(POLICY.max_attempts):
        Actor(conn).claim_one(account, ttl_seconds=EXPIRED)
    return bool(Actor(conn).claim(account))


def can_be_tried_again_by_the_same_run(conn: Connection[Any]) -> bool:
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)
    worker.release(worker.claim_one(account), "failed", "it is broken")
    return bool(worker.claim(account))


def test_a_suspect_is_claimed_alone(conn: Connection[Any]) -> None:
    assert not can_take_others_along(conn)


def test_a_suspect_says_so_and_the_others_follow(conn: Connection[Any]) -> None:
    deadly, *others = _neighbours(conn, 3)
    Actor(conn, "dead").claim_one(deadly, ttl_seconds=EXPIRED)
    following = Actor(conn, "next")

    alone, rest = following.claim(deadly), following.claim(deadly)

    assert [(each.account_id, each.is_suspect) for each in alone] == [
        (deadly.account_id, True)
    ]
    assert {each.account_id for each in rest} == {each.account_id for each in others}
    assert not any(each.is_suspect for each in rest)


def test_a_suspect_that_was_released_is_none_any_more(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    Actor(conn, "dead").claim_one(account, ttl_seconds=EXPIRED)
    worker = Actor(conn)
    worker.release(worker.claim_one(account))

    assert not worker.claim_one(account).is_suspect


def test_attempts_are_counted_at_the_claim(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)

    for attempt in (1, 2, 3):
        Actor(conn).claim_one(account, ttl_seconds=EXPIRED)

        assert lease_row(conn, account)["attempts"] == attempt


def test_an_orderly_release_gives_the_attempt_back(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)

    for _ in range(POLICY.max_attempts + 1):
        worker.release(worker.claim_one(account), "given_back")

    assert lease_row(conn, account)["attempts"] == 0


def test_an_invoice_ends_the_count(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    Actor(conn).claim_one(account, ttl_seconds=EXPIRED)
    bill_all(conn, account)

    assert lease_row(conn, account)["attempts"] == 0


def test_an_account_that_kills_its_workers_is_parked(conn: Connection[Any]) -> None:
    assert not can_kill_workers_for_ever(conn)


def test_parking_tells_a_person(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    assert not can_kill_workers_for_ever(conn)
    for _ in range(POLICY.max_attempts):
        Actor(conn).claim_one(account, ttl_seconds=EXPIRED)

    assert Actor(conn).claim(account) == []

    assert _alerts(conn, account) == ["lease_expired"] * 5 + ["account_parked"]
    parked = lease_row(conn, account)
    assert parked["parked_at"] is not None
    assert parked["detail"] == (
        "gave up after 5 attempts: the last worker did not come back"
    )


def test_the_last_failure_parks(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    for run_id in range(1, POLICY.max_attempts + 1):
        worker = Actor(conn, scope=Scope(run_id, FIRST_DAY))
        worker.release(worker.claim_one(account), "failed", "no tax rate")

    assert Actor(conn, scope=Scope(99, FIRST_DAY)).claim(account) == []

    assert _alerts(conn, account) == ["account_parked"]
    assert lease_row(conn, account)["detail"] == "no tax rate"
    assert books(conn, account).events[-1] == "released parked"


def test_a_failed_account_is_left_alone_by_its_run(conn: Connection[Any]) -> None:
    assert not can_be_tried_again_by_the_same_run(conn)


def test_the_next_run_tries_a_failed_account_again(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)
    worker.release(worker.claim_one(account), "failed", "it was broken")

    assert bill_all(conn, account, run_id=2) == ["invoiced"]


def test_a_missing_tax_rate_fails_its_account_only(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    good, foreign = shop.account(conn), shop.account(conn, country="FR")
    worker = Actor(conn)

    billed = worker.bill(worker.claim_one(foreign), worker.claim_one(good))

    assert {each.account_id: each.outcome for each in billed} == {
        good.account_id: "invoiced",
        foreign.account_id: "failed",
    }
    assert books(conn, good).invoiced == [FIRST_DAY]
    assert books(conn, foreign).periods == []


def test_the_reason_of_a_failure_is_kept(conn: Connection[Any]) -> None:
    foreign = Shop.open(conn).account(conn, country="FR")

    bill_all(conn, foreign)

    assert lease_row(conn, foreign)["detail"] == (
        "no tax rate for seller country DE, buyer country FR, business,"
        " class standard on 2026-01-31"
    )


def test_too_many_due_periods_park_an_account(conn: Connection[Any]) -> None:
    """A migration must not flood customers."""
    shop = Shop.open(conn)
    account = shop.account(conn)
    through_on = date(2026, 3, 31)

    assert bill_all(conn, account, through_on=through_on) == ["parked"]

    assert lease_row(conn, account)["detail"] == (
        "more than 3 billing periods are due since 2026-01-01"
    )
    assert _alerts(conn, account) == ["account_parked"]
    assert bill_all(conn, account, through_on=through_on, run_id=2) == []


def test_as_many_as_allowed_do_not(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)

    outcomes = bill_all(conn, account, through_on=date(2026, 2, 28))

    assert outcomes == ["invoiced"] * 3


def test_what_a_person_approves_is_billed(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    through_on = date(2026, 5, 31)
    bill_all(conn, account, through_on=through_on)

    run_sql(
        conn,
        "SELECT pgbill.unpark(%s, %s, 'the customer knows')",
        account.bucket,
        account.account_id,
    )

    assert bill_all(conn, account, through_on=through_on) == ["invoiced"] * 6
    assert "released unparked" in books(conn, account).events


def test_a_setting_allows_more(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    policy = Policy("live", None, max_due_periods=6, max_attempts=5)

    outcomes = bill_all(conn, account, through_on=date(2026, 5, 31), policy=policy)

    assert outcomes == ["invoiced"] * 6


def test_a_dead_worker_blocks_nobody_for_longer_than_its_lease(
    conn: Connection[Any],
) -> None:
    account = Shop.open(conn).account(conn)
    Actor(conn, "dead").claim_one(account)
    assert Actor(conn, "next").claim(account) == []

    expire(conn, account)

    assert bill_all(conn, account) == ["invoiced"]
    assert _alerts(conn, account) == ["lease_expired"]


def test_accounts_come_in_the_order_in_which_they_are_due(
    conn: Connection[Any],
) -> None:
    first, second, third = _neighbours(conn, 3)
    bill_all(conn, first)
    worker = Actor(conn, scope=Scope(2, date(2026, 1, 31)))

    claimed = worker.claim(first, limit=2) + worker.claim(first, limit=2)

    assert [each.account_id for each in claimed] == [
        second.account_id,
        third.account_id,
        first.account_id,
    ]
    assert [each.due_on for each in claimed] == [FIRST_DAY, FIRST_DAY, FEBRUARY]


def test_a_period_that_was_closed_by_hand_is_settled(conn: Connection[Any]) -> None:
    """With the newest token, as a superuser may: the run takes it as done."""
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)
    held = worker.claim_one(account)
    run_sql(
        conn,
        "INSERT INTO pgbill.billing_period (bucket, account_id, period_start,"
        " period_end, period_end_at, zone, outcome, usage_seq, fencing_token)"
        " VALUES (%s, %s, %s, %s, %s, 'Europe/Berlin', 'nothing_to_bill', 0, %s)",
        *held.account,
        FIRST_DAY,
        FIRST_DAY,
        FIRST_DAY,
        held.fencing_token,
    )

    assert lease.settle(conn, held) == "settled"

    assert lease_row(conn, account)["due_on"] == FEBRUARY.isoformat()
    assert lease.settle(conn, held) == "lost"


def test_a_period_that_is_open_is_not_settled(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)
    held = worker.claim_one(account)

    assert lease.settle(conn, held) == "not_closed"

    assert worker.outcomes(held) == ["invoiced"]


def test_what_is_due_is_counted_without_what_has_failed_or_is_parked(
    conn: Connection[Any],
) -> None:
    _, failed, parked, held = _neighbours(conn, 4)
    worker = Actor(conn)
    worker.release(worker.claim_one(failed), "failed", "broken")
    worker.release(worker.claim_one(parked), "parked", "too many")
    worker.claim_one(held)

    counted = conn.execute(
        "SELECT * FROM pgbill.due_count(%s, %s)", [FIRST_DAY, 1]
    ).fetchone()

    assert counted == (2, 1, 1, 0)
    assert [
        (each.bucket, each.is_claimable)
        for each in lease.due_buckets(conn, worker.scope)
    ] == [(7, True)]


@pytest.mark.parametrize("outcome", ["failed", "parked"])
def test_who_cannot_be_invoiced_costs_no_number(
    conn: Connection[Any], outcome: lease.Outcome
) -> None:
    shop = Shop.open(conn)
    bad, good = shop.account(conn), shop.account(conn)
    worker = Actor(conn)
    worker.release(worker.claim_one(bad), outcome, "bad")

    bill_all(conn, good)

    assert numbers(conn, shop.seller_id) == [1]
    assert books(conn, bad).periods == []


def test_through_is_inclusive(conn: Connection[Any]) -> None:
    """Every period that ended by then: February is over on its last day, not before."""
    account = Shop.open(conn).account(conn)

    bill_all(conn, account, through_on=date(2026, 2, 27))
    before = books(conn, account).periods
    bill_all(conn, account, through_on=date(2026, 2, 28))

    assert before == [FIRST_DAY, FEBRUARY]
    assert books(conn, account).periods == [FIRST_DAY, FEBRUARY, MARCH]


def test_one_run_bills_one_account_if_it_is_asked_to(conn: Connection[Any]) -> None:
    wanted, other = _neighbours(conn, 2)
    scope = Scope(1, FIRST_DAY, (wanted.bucket, wanted.account_id))

    claimed = Actor(conn, scope=scope).claim(wanted)

    assert [each.account_id for each in claimed] == [wanted.account_id]
    assert [each.is_claimable for each in lease.due_buckets(conn, scope)] == [False]
    assert lease_row(conn, other)["holder"] is None


def test_an_idle_account_is_closed_without_an_invoice(conn: Connection[Any]) -> None:
    idle = builders.account(conn, Shop.open(conn).seller_id)

    outcomes = bill_all(conn, idle, through_on=date(2026, 1, 31))

    assert outcomes == ["nothing_to_bill"] * 2
    assert books(conn, idle).periods == [FIRST_DAY, FEBRUARY]
    assert books(conn, idle).invoiced == []
    assert books(conn, idle).messages == 0
