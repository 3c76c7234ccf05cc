"""A small world in which everything has happened once, and nothing is wrong.

Fees in advance and in arrears, usage in time, late, too early and without a price, an
account with nothing to bill, a lease that expired and was taken over, an invoice that
was cancelled; messages that were accepted, deferred, failed and sent again, and one of
which nobody knows. `lawless` then takes the constraints and triggers of tables away, so
that a test can write what they would have refused.
"""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from tests import builders
from tests.builders import Account
from tests.shop import run_sql, value, values

JANUARY = date(2026, 1, 1)
FEBRUARY = date(2026, 2, 1)
MARCH = date(2026, 3, 1)

_WORKER = UUID("00000000-0000-4000-8000-000000000001")
_MAX_DUE = 100
_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class World:
    """What refers to the accounts of the world."""

    seller_id: int
    busy: Account
    """Pays fees and usage; closed up to 1 March, with late usage."""
    idle: Account
    """Subscribes to nothing; closed up to 1 March."""
    fresh: Account
    """Nothing has been closed yet."""
    reissued: Account
    """Its invoice of 1 February was cancelled and issued again."""
    metered: int
    """A meter that has a price."""
    priceless: int
    """A meter that has none."""


def build(conn: Connection[Any]) -> World:
    """Let everything happen. The caller owns the transaction."""
    seller_id = builders.seller(conn)
    builders.tax_rate(conn)
    metered, priceless = builders.meter(conn), builders.meter(conn)
    prices = (
        builders.price(conn, seller_id, amount="49.90"),
        builders.price(conn, seller_id, amount="19.90", timing="arrears"),
        builders.price(conn, seller_id, amount="0.0125", meter_id=metered),
    )
    world = World(
        seller_id=seller_id,
        busy=builders.account(
            conn,
            seller_id,
            key="busy",
            recipients={"invoice": ["ap@example.com", "books@example.com"]},
        ),
        idle=builders.account(conn, seller_id, key="idle"),
        fresh=builders.account(conn, seller_id, key="fresh", zone="America/New_York"),
        reissued=builders.account(conn, seller_id, key="reissued"),
        metered=metered,
        priceless=priceless,
    )
    for account in (world.busy, world.fresh, world.reissued):
        builders.subscription(conn, account, *prices)

    _bill_with_late_usage(conn, world)
    _reissue(conn, world.reissued)
    _deliver(conn, world.busy)
    return world


def _bill_with_late_usage(conn: Connection[Any], world: World) -> None:
    """Close three periods of all but the fresh account, importing usage in between."""

    def use(account: Account, meter_id: int, month: int, *quantities: str) -> None:
        when = datetime(2026, month, 15, tzinfo=UTC)
        builders.usage(conn, account, meter_id, *quantities, occurred_at=when)

    use(world.busy, world.metered, 1, "100", "20.5")
    use(world.busy, world.priceless, 1, "7")
    builders.usage(
        conn, world.busy, world.metered, occurred_at=datetime(2025, 12, 1, tzinfo=UTC)
    )
    use(world.reissued, world.metered, 1, "1000")
    use(world.fresh, world.metered, 1, "5")
    closed = (world.busy, world.idle, world.reissued)
    for account in closed:
        close(conn, account, through=JANUARY)
        close(conn, account, through=FEBRUARY)
    # Late for January, and in time for February.
    use(world.busy, world.metered, 1, "3")
    use(world.busy, world.metered, 2, "40", "2")
    use(world.busy, world.priceless, 1, "9")
    claim(conn, world.busy, holder="sleeper:1", ttl="0 s")
    for account in closed:
        close(conn, account, through=MARCH)
    # Late for February, and waiting in March.
    use(world.busy, world.metered, 2, "11")
    use(world.busy, world.metered, 3, "12")


def claim(
    conn: Connection[Any],
    account: Account,
    *,
    holder: str = "worker:1",
    ttl: str = "1 hour",
) -> int:
    """Claim the earliest open period of an account; return the fencing token."""
    token: int = value(
        conn,
        "SELECT fencing_token FROM pgbill.claim("
        "%s, '2030-01-01', %s, %s, 1, %s::interval, 1, %s, %s)",
        account.bucket,
        holder,
        _WORKER,
        ttl,
        _MAX_ATTEMPTS,
        account.account_id,
    )
    return token


def close(conn: Connection[Any], account: Account, *, through: date) -> None:
    """Bill the earliest open period, which ends on that day."""
    token = claim(conn, account)
    outcome = value(
        conn,
        "SELECT outcome FROM pgbill.bill(ARRAY[%s]::integer[], ARRAY[%s]::bigint[],"
        " ARRAY[%s]::bigint[], %s, 1, 'live', '2026-03-02', %s, %s, %s)",
        account.bucket,
        account.account_id,
        token,
        _WORKER,
        through,
        _MAX_DUE,
        _MAX_ATTEMPTS,
    )
    assert outcome in {"invoiced", "nothing_to_bill"}


def _reissue(conn: Connection[Any], account: Account) -> None:
    """Cancel the invoice of 1 February by a credit note, and issue it again.

    By hand, as a clerk's command will do it: claim, write, number, release.
    """
    token = claim(conn, account, holder="clerk:1")
    credit_note = _copy_invoice(conn, account, token, kind="credit_note", sign=-1)
    builders.insert(
        conn,
        "invoice_cancellation",
        "period_end",
        bucket=account.bucket,
        account_id=account.account_id,
        period_end=FEBRUARY,
        revision=1,
        credit_note_id=credit_note,
        reason="wrong address",
        cancelled_by="clerk@example.com",
        fencing_token=token,
    )
    again = _copy_invoice(conn, account, token, kind="invoice", sign=1)
    run_sql(
        conn,
        "SELECT pgbill.draw_numbers(ARRAY[%s, %s]::integer[], ARRAY[%s, %s]::bigint[],"
        " ARRAY[%s, %s]::bigint[])",
        account.bucket,
        account.bucket,
        account.account_id,
        account.account_id,
        credit_note,
        again,
    )
    run_sql(
        conn,
        "SELECT pgbill.release(ARRAY[%s]::integer[], ARRAY[%s]::bigint[],"
        " ARRAY[%s]::bigint[], ARRAY['given_back'], ARRAY['reissued'], %s)",
        account.bucket,
        account.account_id,
        token,
        _MAX_ATTEMPTS,
    )


def _copy_invoice(
    conn: Connection[Any], account: Account, token: int, *, kind: str, sign: int
) -> int:
    """Copy the invoice of 1 February with its lines and taxes; return the new id."""
    invoice_id: int = value(conn, "SELECT nextval('pgbill.invoice_id')")
    known = {
        "bucket": account.bucket,
        "account_id": account.account_id,
        "token": token,
        "kind": kind,
        "sign": sign,
        "id": invoice_id,
    }
    for statement in _COPY.split(";\n"):
        conn.execute(statement.encode(), known)
    return invoice_id


_COPY = """
INSERT INTO pgbill.invoice (
    bucket, account_id, invoice_id, kind, mode, period_start, period_end, revision,
    series_id, issued_on, tax_point_on, payable_on, currency, net_amount, tax_amount,
    gross_amount, seller_snapshot_id, buyer, language, delivery_channel, recipients,
    fencing_token, credited_invoice_id, reason, issued_by
)
SELECT
    bucket, account_id, %(id)s, %(kind)s, mode,
    CASE WHEN %(sign)s > 0 THEN period_start END,
    CASE WHEN %(sign)s > 0 THEN period_end END,
    CASE WHEN %(sign)s > 0 THEN 2 ELSE 1 END,
    (
        SELECT wanted.series_id
        FROM pgbill.number_series AS wanted
        INNER JOIN pgbill.number_series AS own USING (seller_id, mode)
        WHERE own.series_id = invoice.series_id AND wanted.kind = %(kind)s
    ),
    issued_on, tax_point_on, payable_on, currency, %(sign)s * net_amount,
    %(sign)s * tax_amount, %(sign)s * gross_amount, seller_snapshot_id, buyer, language,
    delivery_channel, recipients, %(token)s,
    CASE WHEN %(sign)s < 0 THEN invoice_id END, 'wrong address', 'clerk@example.com'
FROM pgbill.invoice
WHERE bucket = %(bucket)s AND account_id = %(account_id)s
    AND period_end = '2026-02-01' AND revision = 1;
INSERT INTO pgbill.invoice_line
SELECT (jsonb_populate_record(line, jsonb_build_object(
    'invoice_id', %(id)s::bigint,
    'fencing_token', %(token)s::bigint,
    'quantity', %(sign)s * line.quantity,
    'net_amount', %(sign)s * line.net_amount,
    'rating_input', line.rating_input
    || jsonb_build_object('quantity', %(sign)s * line.quantity)
))).*
FROM pgbill.invoice_line AS line
INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
WHERE line.bucket = %(bucket)s AND line.account_id = %(account_id)s
    AND period_end = '2026-02-01' AND revision = 1;
INSERT INTO pgbill.invoice_tax
SELECT (jsonb_populate_record(tax, jsonb_build_object(
    'invoice_id', %(id)s::bigint,
    'fencing_token', %(token)s::bigint,
    'taxable_amount', %(sign)s * tax.taxable_amount,
    'tax_amount', %(sign)s * tax.tax_amount
))).*
FROM pgbill.invoice_tax AS tax
INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
WHERE tax.bucket = %(bucket)s AND tax.account_id = %(account_id)s
    AND period_end = '2026-02-01' AND revision = 1
"""


def _deliver(conn: Connection[Any], account: Account) -> None:
    """Send what is addressed to an account, each message with another fate."""
    messages = values(
        conn,
        "SELECT message_id FROM pgbill.outbox_message"
        " WHERE bucket = %s AND account_id = %s ORDER BY message_id",
        account.bucket,
        account.account_id,
    )
    fates: tuple[list[str | None], ...] = (
        ["accepted"],
        ["deferred", "accepted"],
        ["failed"],
        ["deferred"],
        [None],
        [],
    )
    assert len(messages) == len(fates)
    for message_id, fate in zip(messages, fates, strict=True):
        for attempt_no, outcome in enumerate(fate, start=1):
            attempt(conn, account, message_id, attempt_no, outcome)
    again = value(
        conn,
        "SELECT pgbill.retry_message(%s, %s, %s, 'new@example.com', 'moved', 'clerk')",
        account.bucket,
        account.account_id,
        messages[2],
    )
    attempt(conn, account, again, 1, "accepted")


def attempt(
    conn: Connection[Any],
    account: Account,
    message_id: int,
    attempt_no: int,
    outcome: str | None,
) -> None:
    """Begin an attempt, and record its outcome if there is one."""
    builders.insert(
        conn,
        "delivery_attempt",
        "attempt_no",
        bucket=account.bucket,
        account_id=account.account_id,
        message_id=message_id,
        attempt_no=attempt_no,
        holder="relay:1",
        sent_to="ap@example.com",
    )
    if outcome is not None:
        run_sql(
            conn,
            "SELECT pgbill.record_outcome(%s, %s, %s, %s, %s, 250, 'told', 'relay:1')",
            account.bucket,
            account.account_id,
            message_id,
            attempt_no,
            outcome,
        )


@contextlib.contextmanager
def lawless(conn: Connection[Any], *tables: str) -> Generator[None]:
    """Take constraints and unique indexes of tables away, and triggers for a while."""
    for table in tables:
        drops = values(
            conn,
            "SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I CASCADE',"
            " conrelid::regclass, conname) FROM pg_catalog.pg_constraint"
            " WHERE conrelid = to_regclass(%s) AND contype IN ('f', 'u', 'p', 'x', 'c')"
            " ORDER BY contype = 'p'",
            f"pgbill.{table}",
        )
        for drop in drops:
            run_sql(conn, drop)
        indexes = values(
            conn,
            "SELECT format('DROP INDEX %%s', indexrelid::regclass)"
            " FROM pg_catalog.pg_index"
            " WHERE indrelid = to_regclass(%s) AND indisunique",
            f"pgbill.{table}",
        )
        for drop in indexes:
            run_sql(conn, drop)
        run_sql(conn, f"ALTER TABLE pgbill.{table} DISABLE TRIGGER USER")
    yield
    for table in tables:
        run_sql(conn, f"ALTER TABLE pgbill.{table} ENABLE TRIGGER USER")
