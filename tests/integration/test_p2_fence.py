"""P2: a worker whose lease another has claimed writes nothing, whatever it believes.

Kept by the fence on every table that workers write: it refuses rows that do not carry
the newest token of their account, and locks the lease so that the answer stays true
until the commit. A claim takes the lock that this one waits for, and draws a token that
is greater than any before. What pgbill.issue checks is courtesy; the fence holds for
code that checks nothing.
"""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from pgbill import db, roles
from pgbill.errors import LeaseLostError, TokenError
from pgbill.lease import Scope
from tests import by_hand, guards
from tests.actors import (
    EXPIRED,
    Actor,
    Threads,
    bill_all,
    connect,
    expire,
    is_blocked,
    on_duty,
    wait_for,
    wait_until_blocked,
)
from tests.builders import Account
from tests.guards import FENCED
from tests.shop import FEBRUARY, FIRST_DAY, Shop, books, lease_row, run_sql, value

_SCOPE = Scope(2, date(2026, 1, 31))


def _write(conn: Connection[Any], table: str, account: Account, token: int) -> None:
    """Write a row into a fenced table; the first period of the account is invoiced."""
    invoice_id = value(
        conn,
        "SELECT max(invoice_id) FROM pgbill.invoice"
        " WHERE bucket = %s AND account_id = %s",
        account.bucket,
        account.account_id,
    )
    writers: dict[str, Callable[[], object]] = {
        "billing_period": lambda: by_hand.period(
            conn, account, token, FIRST_DAY, FEBRUARY
        ),
        "invoice": lambda: by_hand.invoice(conn, account, token),
        "invoice_line": lambda: by_hand.line(conn, account, token, invoice_id),
        "invoice_tax": lambda: by_hand.tax(conn, account, token, invoice_id),
        "invoice_cancellation": lambda: by_hand.cancellation(
            conn, account, token, FIRST_DAY, invoice_id
        ),
        "tax_answer": lambda: by_hand.tax_answer(conn, account, token, FEBRUARY),
        "carried_line": lambda: by_hand.carried_line(conn, account, token, FIRST_DAY),
        "credit_application": lambda: by_hand.application(
            conn, account, token, invoice_id, by_hand.credit(conn, account)
        ),
        "held_draft": lambda: by_hand.held_draft(conn, account, token, FEBRUARY),
    }
    writers[table]()


def _lost_lease(conn: Connection[Any]) -> tuple[Account, int]:
    """Let a sleeper lose its lease; return the account and the sleeper's token."""
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    sleeper = Actor(conn, "sleeper", _SCOPE).claim_one(account, ttl_seconds=EXPIRED)
    Actor(conn, "successor", _SCOPE).claim_one(account)
    return account, sleeper.fencing_token


def can_write_with_a_lost_lease(conn: Connection[Any], table: str) -> bool:
    account, token = _lost_lease(conn)
    return by_hand.succeeds(conn, lambda: _write(conn, table, account, token))


def can_be_overtaken_before_the_commit(dsn: str) -> bool:
    """A row is written with the newest token; another claims before it commits."""
    with connect(dsn, roles.OWNER) as owner, on_duty(dsn, "successor") as successor:
        account = Shop.open(owner).account(owner)
        held = Actor(owner, "writer").claim_one(account, ttl_seconds=EXPIRED)
        with owner.transaction():
            by_hand.period(owner, account, held.fencing_token, FIRST_DAY, FIRST_DAY)
            return bool(successor.claim(account))


def can_hold_an_account_twice(dsn: str) -> bool:
    """Two claim at the same moment: the second begins before the first commits."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "first") as first,
        on_duty(dsn, "second") as second,
    ):
        account = Shop.open(owner).account(owner)
        with first.conn.transaction():
            assert first.claim(account)
            answer = threads.start(second.claim, account)
            while not (answer.done() or is_blocked(owner, second.conn)):
                pass
        return bool(wait_for(answer))


def can_take_what_another_holds(conn: Connection[Any]) -> bool:
    account = Shop.open(conn).account(conn)
    Actor(conn, "holder").claim_one(account)
    return bool(Actor(conn, "other").claim(account))


def can_reuse_a_token(conn: Connection[Any]) -> bool:
    """The sequence is set back, so that the successor draws the sleeper's token."""
    account = Shop.open(conn).account(conn)
    sleeper = Actor(conn, "sleeper").claim_one(account, ttl_seconds=EXPIRED)
    token = sleeper.fencing_token
    run_sql(conn, "SELECT setval('pgbill.fencing_token', %s, false)", token)
    by_hand.succeeds(conn, lambda: Actor(conn, "successor").claim_one(account))
    holder = lease_row(conn, account)["holder"]
    return holder == "successor" and by_hand.succeeds(
        conn, lambda: by_hand.period(conn, account, token, FIRST_DAY, FIRST_DAY)
    )


def can_issue_with_the_token_of_another(conn: Connection[Any]) -> bool:
    """A failover has lost the sleeper's claim, so another draws the same token."""
    account = Shop.open(conn).account(conn)
    before = lease_row(conn, account)["fencing_token"]
    sleeper = Actor(conn, "sleeper")
    held = sleeper.claim_one(account)
    with conn.transaction():
        run_sql(conn, "ALTER TABLE pgbill.lease DISABLE TRIGGER USER")
        run_sql(
            conn,
            "UPDATE pgbill.lease SET worker_id = NULL, holder = NULL,"
            " claimed_at = NULL, expires_at = '-infinity', fencing_token = %s"
            " WHERE account_id = %s",
            before,
            account.account_id,
        )
        run_sql(conn, "ALTER TABLE pgbill.lease ENABLE TRIGGER USER")
    run_sql(conn, "SELECT setval('pgbill.fencing_token', %s)", held.fencing_token - 1)
    successor = Actor(conn, "successor").claim_one(account)
    assert successor.fencing_token == held.fencing_token
    return bool(sleeper.bill(held))


@pytest.mark.parametrize("table", FENCED)
def test_a_sleeper_cannot_insert(conn: Connection[Any], table: str) -> None:
    """It wakes up after another worker has claimed its account."""
    account, token = _lost_lease(conn)

    with pytest.raises(LeaseLostError, match="not the newest"), db.refusals():
        _write(conn, table, account, token)


@pytest.mark.parametrize("table", FENCED)
def test_without_its_fence_it_could(conn: Connection[Any], table: str) -> None:
    guards.without_trigger("_10_fence", table)(conn)

    assert can_write_with_a_lost_lease(conn, table)


@pytest.mark.parametrize("table", FENCED)
def test_the_holder_can_insert(conn: Connection[Any], table: str) -> None:
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    held = Actor(conn, scope=_SCOPE).claim_one(account)

    _write(conn, table, account, held.fencing_token)


def test_expiry_alone_refuses_nothing(conn: Connection[Any]) -> None:
    """Tokens are compared, never times: slow work that nobody has taken is not lost."""
    account = Shop.open(conn).account(conn)
    slow = Actor(conn, "slow")
    held = slow.claim_one(account, ttl_seconds=EXPIRED)

    assert slow.outcomes(held) == ["invoiced"]


@pytest.mark.parametrize("table", FENCED)
def test_a_token_is_burned_by_the_release(conn: Connection[Any], table: str) -> None:
    account = Shop.open(conn).account(conn)
    bill_all(conn, account)
    worker = Actor(conn, scope=_SCOPE)
    held = worker.claim_one(account)
    worker.release(held)

    with pytest.raises(LeaseLostError), db.refusals():
        _write(conn, table, account, held.fencing_token)


def test_a_token_is_burned_by_the_invoice(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    worker = Actor(conn)
    held = worker.claim_one(account)
    worker.bill(held)

    assert worker.bill(held) == []
    with pytest.raises(LeaseLostError), db.refusals():
        by_hand.invoice(conn, account, held.fencing_token)


def test_one_stale_row_among_good_ones_is_enough(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    good, lost = shop.account(conn), shop.account(conn)
    newest = Actor(conn).claim_one(good)
    stale = Actor(conn).claim_one(lost, ttl_seconds=EXPIRED)
    Actor(conn).claim_one(lost)

    with pytest.raises(LeaseLostError), db.refusals():
        run_sql(
            conn,
            "INSERT INTO pgbill.billing_period (bucket, account_id, period_start,"
            " period_end, period_end_at, zone, outcome, usage_seq, fencing_token)"
            " SELECT bucket, account_id, due_on, due_on, due_at, 'UTC',"
            " 'nothing_to_bill', 0, token"
            " FROM (VALUES (%s, %s), (%s, %s)) AS asked (account_id, token)"
            " INNER JOIN pgbill.lease USING (account_id)",
            *(good.account_id, newest.fencing_token),
            *(lost.account_id, stale.fencing_token),
        )


def test_an_account_without_a_lease_cannot_be_written_for(
    conn: Connection[Any],
) -> None:
    account = Shop.open(conn).account(conn)
    nobody = Account(account.bucket, account.account_id + 1, "", 0, "EUR")

    with pytest.raises(LeaseLostError), db.refusals():
        by_hand.period(conn, nobody, 1, FIRST_DAY, FIRST_DAY)


def test_a_sleeper_that_issues_is_told_that_it_lost(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    sleeper, successor = Actor(conn, "sleeper"), Actor(conn, "successor")
    lost = sleeper.claim_one(account, ttl_seconds=EXPIRED)
    held = successor.claim_one(account)

    assert sleeper.bill(lost) == []

    assert books(conn, account).periods == []
    assert successor.outcomes(held) == ["invoiced"]


def test_it_is_told_so_too_if_the_account_cannot_be_invoiced(
    conn: Connection[Any],
) -> None:
    """Its successor has it now, and finds out for itself why it fails."""
    account = Shop.open(conn).account(conn, country="FR")
    sleeper, successor = Actor(conn, "sleeper"), Actor(conn, "successor")
    lost = sleeper.claim_one(account, ttl_seconds=EXPIRED)
    held = successor.claim_one(account)

    assert sleeper.bill(lost) == []

    assert successor.outcomes(held) == ["failed"]


def test_issue_is_courtesy(conn: Connection[Any]) -> None:
    """Without its check the fence refuses the same."""
    guards.edited(
        "issue",
        ("AND asked.fencing_token = lease.fencing_token", ""),
        ("AND lease.worker_id = p_worker_id", ""),
        (
            "lease.account_id, lease.fencing_token, lease.due_at",
            "lease.account_id, asked.fencing_token, lease.due_at",
        ),
    )(conn)
    account = Shop.open(conn).account(conn)
    sleeper = Actor(conn, "sleeper")
    lost = sleeper.claim_one(account, ttl_seconds=EXPIRED)
    Actor(conn, "successor").claim_one(account)

    with pytest.raises(LeaseLostError):
        sleeper.bill(lost)


def test_copy_is_fenced_as_well(conn: Connection[Any]) -> None:
    account, token = _lost_lease(conn)
    row = (
        account.bucket,
        account.account_id,
        FEBRUARY,
        FIRST_DAY,
        FEBRUARY,
        "UTC",
        "invoiced",
        0,
        token,
    )
    copy = (
        "COPY pgbill.billing_period (bucket, account_id, period_end, period_start,"
        " period_end_at, zone, outcome, usage_seq, fencing_token) FROM STDIN"
    )

    with (
        pytest.raises(LeaseLostError),
        db.refusals(),
        conn.cursor() as cursor,
        cursor.copy(copy) as rows,
    ):
        rows.write_row(row)


def test_a_write_waits_for_a_claim_that_is_under_way(dsn: str) -> None:
    """Whether the token is the newest is not known before the claim has committed."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.OWNER) as writer,
        on_duty(dsn, "successor") as successor,
    ):
        account = Shop.open(owner).account(owner)
        stale = Actor(owner).claim_one(account, ttl_seconds=EXPIRED).fencing_token

        def write() -> bool:
            return by_hand.succeeds(
                writer,
                lambda: by_hand.period(writer, account, stale, FIRST_DAY, FIRST_DAY),
            )

        with successor.conn.transaction():
            assert successor.claim(account)
            written = threads.start(write)
            wait_until_blocked(owner, writer)

        assert wait_for(written) is False


def test_nobody_claims_what_is_being_committed(dsn: str) -> None:
    assert not can_be_overtaken_before_the_commit(dsn)


def test_two_claims_never_return_the_same_account(dsn: str) -> None:
    assert not can_hold_an_account_twice(dsn)


def test_what_is_held_is_not_claimed(conn: Connection[Any]) -> None:
    assert not can_take_what_another_holds(conn)


def test_each_claim_draws_a_greater_token(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    accounts = [shop.account(conn) for _ in range(3)]
    worker = Actor(conn)

    tokens: list[int] = []
    for account in accounts * 2:
        held = worker.claim_one(account)
        worker.release(held)
        tokens += [held.fencing_token, lease_row(conn, account)["fencing_token"]]

    assert tokens == sorted(set(tokens))


def test_a_token_only_grows(conn: Connection[Any]) -> None:
    assert not can_reuse_a_token(conn)


def test_a_smaller_token_is_refused_by_name(conn: Connection[Any]) -> None:
    Shop.open(conn).account(conn)

    with pytest.raises(TokenError, match="does not grow"), db.refusals():
        run_sql(conn, "UPDATE pgbill.lease SET fencing_token = fencing_token - 1")


def test_a_repeated_token_is_told_apart_by_its_worker(conn: Connection[Any]) -> None:
    assert not can_issue_with_the_token_of_another(conn)


def test_a_renewal_passes_by_the_transaction_that_issues(dsn: str) -> None:
    """The fence's lock is KEY SHARE: the worker's own renewal does not wait for it."""
    with connect(dsn, roles.OWNER) as owner, on_duty(dsn) as worker:
        account = Shop.open(owner).account(owner)
        held = worker.claim_one(account)

        with owner.transaction():
            by_hand.period(owner, account, held.fencing_token, FIRST_DAY, FIRST_DAY)
            before = lease_row(worker.conn, account)["expires_at"]

            assert worker.renews(held, ttl_seconds=7200)
            assert lease_row(worker.conn, account)["expires_at"] > before


def test_a_claim_passes_by_an_account_that_is_being_issued(dsn: str) -> None:
    """And takes the others, at once."""
    with (
        connect(dsn, roles.OWNER) as owner,
        on_duty(dsn, "slow") as slow,
        on_duty(dsn, "quick") as quick,
    ):
        shop = Shop.open(owner)
        account = shop.account(owner)
        other = shop.account(owner, key=_key_in_bucket(owner, account.bucket))
        held = slow.claim_one(account)
        expire(owner, account)

        with slow.conn.transaction():
            assert slow.outcomes(held) == ["invoiced"]
            claimed = quick.claim(account)

        assert [each.account_id for each in claimed] == [other.account_id]


def _key_in_bucket(conn: Connection[Any], bucket: int) -> str:
    key: str = value(
        conn,
        "SELECT min('other-' || number) FROM generate_series(1, 5000) AS number"
        " WHERE pgbill.bucket_of('other-' || number) = %s",
        bucket,
    )
    return key
