"""Whatever happened to an account can be told afterwards, in order (P10)."""

from typing import Any

import pytest
from psycopg import Connection

from pgbill import story
from pgbill.errors import UsageError
from pgbill.story import Story
from tests import world
from tests.actors import bill_all
from tests.shop import FIRST_DAY, MARCH, Shop, run_sql

pytestmark = pytest.mark.one_server


@pytest.fixture
def built(conn: Connection[Any]) -> world.World:
    return world.build(conn)


def texts(told: Story, kind: str) -> list[str]:
    return [entry.text for entry in told.entries if entry.kind == kind]


def test_everything_is_told_in_order_of_time(
    conn: Connection[Any], built: world.World
) -> None:
    told = story.tell(conn, built.busy.key)

    times = [entry.at for entry in told.entries]
    assert times == sorted(times)
    kinds = [entry.kind for entry in told.entries]
    assert kinds[:5] == ["claimed", "closed", "message", "message", "released"]
    assert len(texts(told, "closed")) == 3


def test_a_closing_names_its_invoice(conn: Connection[Any], built: world.World) -> None:
    first, second, third = texts(story.tell(conn, built.busy.key), "closed")

    assert first.startswith("The first day, 2026-01-01, was opened")
    assert "invoice NL-000001 of 59.38 EUR was issued with 1 line" in first
    assert second.startswith("The period 2026-01-01 to 2026-02-01 was closed")
    assert "with 4 lines, dated 2026-03-02" in third


def test_a_period_without_an_invoice_is_told(
    conn: Connection[Any], built: world.World
) -> None:
    first, *_ = texts(story.tell(conn, built.idle.key), "closed")

    assert first.startswith("The first day, 2026-01-01, was opened")
    assert first.endswith(": nothing to bill.")


def test_a_zone_that_changed_is_told(conn: Connection[Any]) -> None:
    """Also of one period alone: the closing before need not be told with it."""
    account = Shop.open(conn).account(conn)
    bill_all(conn, account, through_on=FIRST_DAY)
    run_sql(conn, "UPDATE pgbill.account SET zone = 'Asia/Tokyo'")
    bill_all(conn, account, through_on=MARCH)

    moved = texts(story.tell(conn, account.key, "2026-01"), "closed")
    later = texts(story.tell(conn, account.key, "2026-02"), "closed")

    told = [" in the zone Asia/Tokyo, not Europe/Berlin" in each for each in moved]
    assert told == [False, True], moved
    assert [" in the zone " in each for each in later] == [False]


def test_lines_that_wait_are_told(conn: Connection[Any]) -> None:
    """A fee of 11.90 with tax, and no invoice below 20."""
    run_sql(
        conn,
        "WITH policy AS (INSERT INTO pgbill.policy (minimum_invoice)"
        ' VALUES (\'{"EUR": "20"}\') RETURNING policy_id)'
        " UPDATE pgbill.seller SET policy_id = policy.policy_id FROM policy"
        " WHERE seller.seller_id = %s",
        (shop := Shop.open(conn)).seller_id,
    )
    account = shop.account(conn)
    assert bill_all(conn, account) == ["carried_forward"]

    told = story.tell(conn, account.key)

    (closed,) = texts(told, "closed")
    assert closed.endswith(": its lines wait for the next invoice.")
    (released,) = texts(told, "released")
    assert "was done" in released


def test_a_lease_that_expired_is_told_with_its_successor(
    conn: Connection[Any], built: world.World
) -> None:
    told = story.tell(conn, built.busy.key)

    (expired,) = texts(told, "expired")
    assert expired.startswith("The lease of sleeper:1 expired after ")
    assert "taken over by worker:1 with token" in expired
    (alert,) = texts(told, "alert")
    assert "Nobody has acknowledged it yet." in alert


def test_deliveries_are_told_with_their_outcomes(
    conn: Connection[Any], built: world.World
) -> None:
    told = story.tell(conn, built.busy.key)

    assert len(texts(told, "accepted")) == 3
    assert all("was accepted after" in text for text in texts(told, "accepted"))
    assert "was deferred, and will be tried again," in texts(told, "deferred")[0]
    assert "failed for good" in texts(told, "failed")[0]
    unknown = [e for e in told.entries if e.facts.get("uncertain")]
    assert len(unknown) == 1
    assert "it is not known whether it was taken" in unknown[0].text
    (retry,) = [text for text in texts(told, "message") if "in place of" in text]
    assert retry.startswith("clerk put message")


def test_a_cancellation_is_told_with_what_came_of_it(
    conn: Connection[Any], built: world.World
) -> None:
    told = story.tell(conn, built.reissued.key)

    (cancelled,) = texts(told, "cancelled")
    assert cancelled.startswith("clerk@example.com cancelled invoice NL-")
    assert "by credit note NLC-000001: wrong address." in cancelled
    issued = texts(told, "issued")
    assert len(issued) == 2
    assert "revision 2" in issued[1]


@pytest.mark.parametrize("period", ["2026-02", "2026-03-01"])
def test_one_period_is_told_alone(
    conn: Connection[Any], built: world.World, period: str
) -> None:
    """Named by the month in which it begins, or by the day on which it ends."""
    told = story.tell(conn, built.busy.key, period)

    assert told.periods == ["2026-03-01"]
    assert len(texts(told, "closed")) == 1
    assert len(texts(told, "expired")) == 1
    assert len(texts(told, "message")) == 2


def test_the_open_period_can_be_told(conn: Connection[Any], built: world.World) -> None:
    world.claim(conn, built.fresh, holder="worker:9")

    told = story.tell(conn, built.fresh.key, "2026-01-01")

    assert texts(told, "claimed")[0].startswith("worker:9 claimed the period")
    assert "worker:9 has held it for" in told.now


def test_a_parked_account_says_why(conn: Connection[Any], built: world.World) -> None:
    token = world.claim(conn, built.fresh)
    run_sql(
        conn,
        "SELECT pgbill.release(ARRAY[%s]::integer[], ARRAY[%s]::bigint[],"
        " ARRAY[%s]::bigint[], ARRAY['parked'], ARRAY['too much is due'], 5)",
        built.fresh.bucket,
        built.fresh.account_id,
        token,
    )

    told = story.tell(conn, built.fresh.key)

    assert texts(told, "released") == ["The account was parked: too much is due."]
    assert "(too much is due)" in told.now


def test_an_unknown_account_is_a_usage_error(conn: Connection[Any]) -> None:
    with pytest.raises(UsageError, match="there is no account nobody"):
        story.tell(conn, "nobody")


def test_an_unknown_period_names_the_known_ones(
    conn: Connection[Any], built: world.World
) -> None:
    with pytest.raises(UsageError, match="from 2026-01-01 to 2026-04-01"):
        story.tell(conn, built.busy.key, "2031-05")
