"""P10: whatever happened to an account can be told afterwards, in order.

Kept by a trigger on the lease: no claim, no loss and no release without its event,
whatever statement made it. Renewals in time are not told. What a person should look at
is an alert as well.
"""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from pgbill import lease
from tests.actors import EXPIRED, Actor, bill_all, expire
from tests.builders import Account
from tests.shop import Shop, books, run_sql, value

pytestmark = pytest.mark.one_server

Story = Callable[[Connection[Any], Account], None]


def _given_back(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    worker.release(worker.claim_one(account))


def _failed(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    worker.release(worker.claim_one(account), "failed", "no tax rate")


def _invoiced(conn: Connection[Any], account: Account) -> None:
    bill_all(conn, account)


def _renewed_in_time(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    held = worker.claim_one(account)
    assert worker.renews(held)
    worker.bill(held)


def _taken_over(conn: Connection[Any], account: Account) -> None:
    Actor(conn, "dead").claim_one(account, ttl_seconds=EXPIRED)
    bill_all(conn, account)


def _renewed_too_late(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    held = worker.claim_one(account, ttl_seconds=EXPIRED)
    assert worker.renews(held)
    worker.bill(held)


def _finished_too_late(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    worker.bill(worker.claim_one(account, ttl_seconds=EXPIRED))


def _given_back_too_late(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    worker.release(worker.claim_one(account, ttl_seconds=EXPIRED))


def _abandoned(conn: Connection[Any], account: Account) -> None:
    sleeper = Actor(conn, "sleeper")
    lost = sleeper.claim_one(account, ttl_seconds=EXPIRED)
    Actor(conn, "successor").claim_one(account)
    lease.abandon(
        conn, lost, scope=sleeper.scope, worker=sleeper.worker, detail="it was lost"
    )


def _revoked(conn: Connection[Any], account: Account) -> None:
    Actor(conn).claim_one(account)
    expire(conn, account)
    run_sql(
        conn,
        "SELECT pgbill.revoke_leases(ARRAY[%s], ARRAY[%s::bigint], 'imported')",
        account.bucket,
        account.account_id,
    )


def _parked_and_unparked(conn: Connection[Any], account: Account) -> None:
    worker = Actor(conn)
    worker.release(worker.claim_one(account), "parked", "too many periods")
    run_sql(
        conn,
        "SELECT pgbill.unpark(%s, %s, 'looked at')",
        account.bucket,
        account.account_id,
    )


_EXPIRED, _PARKED = ["lease_expired"], ["account_parked"]
STORIES: dict[Story, tuple[str, list[str]]] = {
    _given_back: ("claimed, released given_back", []),
    _failed: ("claimed, released failed", []),
    _invoiced: ("claimed, released invoiced", []),
    _renewed_in_time: ("claimed, released invoiced", []),
    _taken_over: ("claimed, expired, claimed, released invoiced", _EXPIRED),
    _renewed_too_late: ("claimed, expired, released invoiced", _EXPIRED),
    _finished_too_late: ("claimed, expired, released invoiced", _EXPIRED),
    _given_back_too_late: ("claimed, expired, released given_back", _EXPIRED),
    _abandoned: ("claimed, expired, claimed, abandoned", _EXPIRED),
    _revoked: ("claimed, expired, released revoked", _EXPIRED),
    _parked_and_unparked: (
        "claimed, released parked, released unparked",
        _PARKED,
    ),
}


def can_be_claimed_in_silence(conn: Connection[Any]) -> bool:
    account = Shop.open(conn).account(conn)
    Actor(conn).claim_one(account)
    return books(conn, account).events == []


@pytest.mark.parametrize(
    ("story", "told", "alerts"),
    [(story, *expected) for story, expected in STORIES.items()],
    ids=[story.__name__.strip("_") for story in STORIES],
)
def test_it_is_told(
    conn: Connection[Any], story: Story, told: str, alerts: list[str]
) -> None:
    account = Shop.open(conn).account(conn)

    story(conn, account)

    assert ", ".join(books(conn, account).events) == told
    assert [
        kind
        for (kind,) in conn.execute(
            "SELECT kind FROM pgbill.alert WHERE account_id = %s ORDER BY alert_id",
            [account.account_id],
        )
    ] == alerts


def test_no_claim_is_silent(conn: Connection[Any]) -> None:
    assert not can_be_claimed_in_silence(conn)


def test_an_event_says_who_when_and_in_which_run(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    dead, successor = Actor(conn, "host-a:17"), Actor(conn, "host-b:4")
    first = dead.claim_one(account, ttl_seconds=EXPIRED)
    second = successor.claim_one(account)
    successor.release(second, "failed", "no tax rate")

    events = conn.execute(
        "SELECT kind, fencing_token, holder, worker_id, run_id, detail"
        " FROM pgbill.lease_event ORDER BY lease_event_id"
    ).fetchall()

    taken = f"taken over by host-b:4 with token {second.fencing_token}"
    by_dead = first.fencing_token, "host-a:17", dead.worker.worker_id, 1
    by_successor = second.fencing_token, "host-b:4", successor.worker.worker_id, 1
    assert events == [
        ("claimed", *by_dead, None),
        ("expired", *by_dead, taken),
        ("claimed", *by_successor, None),
        ("released", *by_successor, "no tax rate"),
    ]


def test_an_alert_says_who_had_it_and_who_has_it_now(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    lost = Actor(conn, "host-a:17").claim_one(account, ttl_seconds=EXPIRED)
    Actor(conn, "host-b:4").claim_one(account)

    summary: str = value(conn, "SELECT summary FROM pgbill.alert")

    for told in ("host-a:17", f"token {lost.fencing_token}", "host-b:4 took over"):
        assert told in summary


def test_a_hard_limit_is_an_alert(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)

    lease.abandon(
        conn,
        worker.claim_one(account),
        scope=worker.scope,
        worker=worker.worker,
        detail="it took longer than 30 min",
        hard_limit=True,
    )

    summary: str = value(
        conn, "SELECT summary FROM pgbill.alert WHERE kind = 'hard_limit'"
    )
    assert "it took longer than 30 min" in summary


def test_times_follow_the_order_of_the_events(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    for story in (_given_back, _taken_over):
        story(conn, account)

    times = conn.execute(
        "SELECT occurred_at FROM pgbill.lease_event ORDER BY lease_event_id"
    ).fetchall()

    assert times == sorted(times)
