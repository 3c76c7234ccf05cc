"""Every usage record is billed, or waits, or is rejected, and says why (P6)."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from tests import builders, world
from tests.shop import run_sql


@dataclass(frozen=True, slots=True)
class State:
    """A usage record of the world, by month and quantity."""

    month: str
    quantity: str
    state: str
    reason: str | None
    billed_with: str | None


def states(conn: Connection[Any], account: builders.Account) -> set[State]:
    with conn.cursor(row_factory=class_row(State)) as cursor:
        cursor.execute(
            "SELECT to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month,"
            " usage_state.quantity::text, state, reason,"
            " concat_ws(' ', usage_line.kind, usage_line.period_end) AS billed_with"
            " FROM pgbill.usage_state"
            " LEFT JOIN pgbill.usage_line"
            " USING (bucket, account_id, invoice_id, line_no)"
            " WHERE bucket = %s AND account_id = %s",
            [account.bucket, account.account_id],
        )
        return set(cursor.fetchall())


def test_a_record_is_billed_once_or_says_why_not(conn: Connection[Any]) -> None:
    built = world.build(conn)

    no_price = "no price of the account covers the meter at that time"
    assert states(conn, built.busy) == {
        State("2025-12", "1", "rejected", "before the first period of the account", ""),
        State("2026-01", "100", "billed", None, "usage 2026-02-01"),
        State("2026-01", "20.5", "billed", None, "usage 2026-02-01"),
        State("2026-01", "7", "rejected", no_price, ""),
        State("2026-01", "3", "billed", None, "late_usage 2026-03-01"),
        State("2026-02", "40", "billed", None, "usage 2026-03-01"),
        State("2026-02", "2", "billed", None, "usage 2026-03-01"),
        State("2026-01", "9", "rejected", no_price, ""),
        State("2026-02", "11", "waiting", "late, the next closing takes it", ""),
        State("2026-03", "12", "waiting", "its period is not closed", ""),
    }
    assert states(conn, built.fresh) == {
        State("2026-01", "5", "waiting", "its period is not closed", "")
    }


def test_the_newest_revision_bills_a_record(conn: Connection[Any]) -> None:
    """The first one was cancelled; it no longer counts."""
    built = world.build(conn)

    assert states(conn, built.reissued) == {
        State("2026-01", "1000", "billed", None, "usage 2026-02-01")
    }


def test_a_cancelled_invoice_that_is_not_reissued_bills_nothing(
    conn: Connection[Any],
) -> None:
    built = world.build(conn)

    with world.lawless(conn, "invoice", "invoice_line"):
        run_sql(conn, "DELETE FROM pgbill.invoice WHERE revision = 2")

    reason = "its invoice is cancelled and not reissued"
    assert states(conn, built.reissued) == {
        State("2026-01", "1000", "cancelled", reason, "usage 2026-02-01")
    }


def test_usage_that_no_line_bills_is_missing(conn: Connection[Any]) -> None:
    built = world.build(conn)

    with world.lawless(conn, "invoice_line"):
        run_sql(conn, "DELETE FROM pgbill.invoice_line WHERE kind = 'late_usage'")

    reason = "its closing is over and has not billed it"
    assert State("2026-01", "3", "missing", reason, "") in states(conn, built.busy)
