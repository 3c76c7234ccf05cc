"""No document is dated into a closed month, whatever code writes it."""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill import closedmonth, closing, db, issuing, roles
from pgbill.closing import Closed
from pgbill.errors import ClosedMonthError, FrozenError, UsageError
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
from tests.shop import Shop, findings, run_sql, value

pytestmark = pytest.mark.one_server

MARCH = date(2026, 3, 1)
LAST_OF_MARCH, FIRST_OF_APRIL = date(2026, 3, 31), date(2026, 4, 1)


def dated(day: date) -> issuing.Policy:
    return issuing.Policy("live", day, max_due_periods=3, max_attempts=5)


def close(conn: Connection[Any], month_on: date = MARCH, **options: Any) -> Closed:  # noqa: ANN401
    """Close a month; what it takes for its transaction is to be a part of ours."""
    conn.execute("SELECT")
    return closing.close(conn, month_on, by="ada@books", **options)


def can_be_dated(conn: Connection[Any], day: date) -> bool:
    """Issue an invoice of that date, after March was closed."""
    account = Shop.open(conn).account(conn)
    close(conn)
    clerk = Actor(conn, policy=dated(day))
    held = clerk.claim_one(account)
    return by_hand.succeeds(conn, lambda: clerk.bill(held))


@pytest.mark.parametrize("day", [date(2026, 2, 1), MARCH, LAST_OF_MARCH])
def test_an_invoice_is_not_dated_into_it_or_before(
    conn: Connection[Any], day: date
) -> None:
    assert not can_be_dated(conn, day)


def test_the_next_day_is_open(conn: Connection[Any]) -> None:
    assert can_be_dated(conn, FIRST_OF_APRIL)
    assert findings(conn) == {}


def test_without_its_guard_it_would_be_dated_so(conn: Connection[Any]) -> None:
    guards.without_trigger("_20_refuse_closed_month", "invoice")(conn)

    assert can_be_dated(conn, LAST_OF_MARCH)
    assert findings(conn) == {"closed_month_issued_into": 1}


def test_a_credit_note_is_refused_as_well(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    close(conn)
    held = Actor(conn).claim_one(account)

    with pytest.raises(ClosedMonthError) as raised, db.refusals():
        by_hand.invoice(conn, account, held.fencing_token, issued_on=LAST_OF_MARCH)

    assert raised.value.message == (
        "a document cannot be dated 2026-03-31: the books are closed until 2026-03-31"
    )


def test_today_is_never_closed(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    close(conn)

    assert bill_all(conn, account) == ["invoiced"]


def test_a_month_is_closed_once(conn: Connection[Any]) -> None:
    Shop.open(conn)

    assert close(conn) == Closed(
        MARCH, is_new=True, document_count=0, unexported_count=0
    )
    assert not close(conn).is_new
    assert not close(conn, date(2026, 1, 1)).is_new
    assert close(conn, FIRST_OF_APRIL).is_new
    assert conn.execute(
        "SELECT month_on, closed_by FROM pgbill.closed_month ORDER BY month_on"
    ).fetchall() == [(MARCH, "ada@books"), (FIRST_OF_APRIL, "ada@books")]


def test_a_dry_run_closes_nothing(conn: Connection[Any]) -> None:
    Shop.open(conn)

    assert close(conn, dry_run=True).is_new
    assert value(conn, "SELECT count(*) FROM pgbill.closed_month") == 0


def test_it_warns_of_what_was_not_exported(conn: Connection[Any]) -> None:
    bill_all(conn, Shop.open(conn).account(conn), policy=dated(LAST_OF_MARCH))

    closed = close(conn)

    assert (closed.document_count, closed.unexported_count) == (1, 1)


def test_a_month_that_is_not_over_stays_open(conn: Connection[Any]) -> None:
    """Over for every seller, wherever it is."""
    builders.seller(conn, zone="Pacific/Pago_Pago")
    today = value(conn, "SELECT (now() AT TIME ZONE 'Pacific/Pago_Pago')::date")

    with pytest.raises(UsageError, match="is not over yet"):
        close(conn, today.replace(day=1))


def test_a_run_that_dates_into_it_is_finished_first(conn: Connection[Any]) -> None:
    Shop.open(conn)
    run_sql(
        conn,
        "INSERT INTO pgbill.billing_run (run_id, issue_on, mode, settings, started_by,"
        " pgbill_version) VALUES (7, '2026-03-31', 'live', '{}', 'cron', '1')",
    )

    with pytest.raises(UsageError, match="run 7 is open and dates its invoices into"):
        close(conn)


def test_a_closed_month_stays_closed(conn: Connection[Any]) -> None:
    Shop.open(conn)
    close(conn)

    with pytest.raises(FrozenError), db.refusals():
        conn.execute("DELETE FROM pgbill.closed_month")


def test_an_issue_date_is_looked_at_before_anything_is_done(
    conn: Connection[Any],
) -> None:
    Shop.open(conn)
    closedmonth.refuse(conn, LAST_OF_MARCH, option="--issue-on")
    close(conn)

    with pytest.raises(UsageError) as raised:
        closedmonth.refuse(conn, LAST_OF_MARCH, option="--issue-on")

    assert str(raised.value) == (
        "--issue-on 2026-03-31 lies in a closed month: the books are closed until"
        " 2026-03-31. Take 2026-04-01 or a later day."
    )


def test_closing_waits_for_who_is_issuing(dsn: str) -> None:
    """The document is counted by the closing, and who comes next is refused."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.OWNER) as closer,
        on_duty(dsn, policy=dated(LAST_OF_MARCH)) as worker,
    ):
        shop = Shop.open(owner)
        first = worker.claim_one(shop.account(owner))
        second = worker.claim_one(shop.account(owner))
        with worker.conn.transaction():
            worker.bill(first)
            closed = threads.start(lambda: closing.close(closer, MARCH, by="ada"))
            wait_until_blocked(owner, closer)
        assert wait_for(closed).document_count == 1

        with pytest.raises(ClosedMonthError):
            worker.bill(second)
        assert findings(owner) == {}


def test_a_worker_that_comes_meanwhile_is_refused(dsn: str) -> None:
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.OWNER) as closer,
        on_duty(dsn, policy=dated(LAST_OF_MARCH)) as worker,
    ):
        held = worker.claim_one(Shop.open(owner).account(owner))
        with closer.transaction():
            closing.close(closer, MARCH, by="ada")
            billed = threads.start(worker.bill, held)
            wait_until_blocked(owner, worker.conn)

        with pytest.raises(ClosedMonthError):
            wait_for(billed)
