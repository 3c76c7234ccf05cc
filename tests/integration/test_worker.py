"""A worker claims and bills until nothing is due, whatever comes in between.

One bad account does not spoil its batch, one lost lease does not stop the others, and a
connection that breaks, a statement that hangs or a worker that is told to stop leaves
nothing behind that others would have to wait for.
"""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import psycopg
import pytest
from psycopg import Connection, conninfo, errors

from pgbill import issuing, lease, roles, runs, worker
from pgbill.errors import IssueDateError, LeaseLostError, TemporaryError
from pgbill.issuing import Billed
from pgbill.job import Tally
from pgbill.lease import Lease, Scope
from tests import builders, by_hand, guards
from tests.actors import EXPIRED, Actor, Threads, connect, expire, on_duty, wait_for
from tests.builders import Account
from tests.servers import DatabaseServer
from tests.shifts import job, run_shift
from tests.shop import (
    FEBRUARY,
    FIRST_DAY,
    MARCH,
    Shop,
    books,
    findings,
    lease_row,
    numbers,
    run_sql,
    value,
    values,
)

pytestmark = pytest.mark.one_server

Bill = Callable[..., list[Billed]]
Meddle = Callable[[list[Lease]], object]


@pytest.fixture
def before_bill(monkeypatch: pytest.MonkeyPatch) -> Callable[[Meddle], list[int]]:
    """Let a test do something before each statement that bills.

    Calling it returns a list that grows by the size of each batch.
    """

    def install(meddle: Meddle) -> list[int]:
        bill: Bill = issuing.bill
        sizes: list[int] = []

        def meddled(
            conn: Connection[Any],
            leases: list[Lease],
            **options: Any,  # noqa: ANN401
        ) -> list[Billed]:
            sizes.append(len(leases))
            meddle(leases)
            return bill(conn, leases, **options)

        monkeypatch.setattr(issuing, "bill", meddled)
        return sizes

    return install


@pytest.fixture
def owner(dsn: str) -> Iterator[Connection[Any]]:
    """Return a connection of the owner of the schema; each statement commits."""
    with connect(dsn, roles.OWNER) as conn:
        yield conn


def _once(act: Callable[[], object]) -> Meddle:
    """Return what does it the first time only."""
    left = [act]

    def meddle(_: list[Lease]) -> None:
        if left:
            left.pop()()

    return meddle


def _fail_once(error: Exception) -> Meddle:
    def fail() -> None:
        raise error

    return _once(fail)


def _invoiced(conn: Connection[Any], accounts: list[Account]) -> list[int]:
    """Return how many invoices each account has."""
    return [len(books(conn, each).invoiced) for each in accounts]


def _in_one_bucket(conn: Connection[Any], shop: Shop, count: int) -> list[Account]:
    keys = values(
        conn,
        "SELECT 'near-' || number FROM generate_series(1, 9999) AS number"
        " WHERE pgbill.bucket_of('near-' || number) = 7 ORDER BY number LIMIT %s",
        count,
    )
    return [shop.account(conn, key=key) for key in keys]


def test_all_that_is_due_is_billed(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    accounts = [shop.account(owner) for _ in range(5)]
    idle = builders.account(owner, shop.seller_id)

    tally = run_shift(job(dsn, through_on=MARCH, batch_size=2))

    assert tally == Tally(invoiced=15, nothing_to_bill=3)
    assert tally.done_count == 18
    for account in accounts:
        assert books(owner, account).invoiced == [FIRST_DAY, FEBRUARY, MARCH]
    assert books(owner, idle).invoiced == []
    assert findings(owner) == {}


def test_with_nothing_due_it_ends_at_once(dsn: str) -> None:
    assert run_shift(job(dsn)) == Tally()


def test_a_batch_is_filled_from_many_buckets(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    shop = Shop.open(owner)
    for _ in range(9):
        shop.account(owner)
    sizes = before_bill(lambda _: None)

    run_shift(job(dsn, batch_size=5))

    assert sizes == [5, 4]


def test_one_bad_account_fails_alone(dsn: str, owner: Connection[Any]) -> None:
    """A constraint that somebody has added refuses one of a hundred."""
    shop = Shop.open(owner)
    accounts = [shop.account(owner) for _ in range(100)]
    bad = accounts.pop(40)
    run_sql(
        owner,
        "ALTER TABLE pgbill.invoice ADD CONSTRAINT mine"
        f" CHECK (account_id <> {bad.account_id})",
    )

    tally = run_shift(job(dsn))

    assert tally == Tally(invoiced=99, failed=1)
    assert _invoiced(owner, [bad, *accounts]) == [0, *[1] * 99]
    assert numbers(owner, shop.seller_id) == list(range(1, 100))
    failed = lease_row(owner, bad)
    assert (failed["outcome"], failed["attempts"]) == ("failed", 1)
    assert 'violates check constraint "mine"' in failed["detail"]
    assert findings(owner) == {}


def test_an_account_that_is_too_large_for_an_index_fails_alone(
    dsn: str, owner: Connection[Any]
) -> None:
    """The server reports a limit of its own like an outage; it is none."""
    shop = Shop.open(owner)
    good = shop.account(owner)
    noise = value(
        owner, "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) AS n"
    )
    bad = shop.account(owner, recipients={"invoice": [f"{noise}@example.com"]})

    tally = run_shift(job(dsn))

    assert tally == Tally(invoiced=1, failed=1)
    assert _invoiced(owner, [good, bad]) == [1, 0]
    assert "index row" in lease_row(owner, bad)["detail"]


def test_a_missing_tax_rate_fails_one_account(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    shop.account(owner)
    shop.account(owner, country="FR")

    assert run_shift(job(dsn)) == Tally(invoiced=1, failed=1)
    assert run_shift(job(dsn)) == Tally()
    assert run_shift(job(dsn, run_id=2)) == Tally(failed=1)


def test_a_failed_account_is_billed_when_its_reason_is_gone(
    dsn: str, owner: Connection[Any]
) -> None:
    account = Shop.open(owner).account(owner, country="FR")
    run_shift(job(dsn))
    builders.tax_rate(owner, buyer_country="FR", rate="20")

    assert run_shift(job(dsn, run_id=2)) == Tally(invoiced=1)
    assert _invoiced(owner, [account]) == [1]


def test_a_seller_without_a_series_fails_its_accounts_only(
    dsn: str, owner: Connection[Any]
) -> None:
    good, bad = Shop.open(owner), Shop.open(owner)
    good.account(owner)
    orphan = bad.account(owner)
    run_sql(
        owner, "DELETE FROM pgbill.number_series WHERE seller_id = %s", bad.seller_id
    )

    assert run_shift(job(dsn)) == Tally(invoiced=1, failed=1)
    assert "no series of invoice numbers" in lease_row(owner, orphan)["detail"]


def test_a_period_that_somebody_closed_is_taken_as_done(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    """By hand, with the newest token; the unique violation is read again."""
    shop = Shop.open(owner)
    closed, other = shop.account(owner), shop.account(owner)

    def close() -> None:
        token = lease_row(owner, closed)["fencing_token"]
        by_hand.period(owner, closed, token, FIRST_DAY, FIRST_DAY)

    before_bill(_once(close))

    tally = run_shift(job(dsn))

    assert tally == Tally(invoiced=1)
    assert books(owner, closed).events == ["claimed", "released given_back"]
    assert lease_row(owner, closed)["due_on"] == FEBRUARY.isoformat()
    assert _invoiced(owner, [closed, other]) == [0, 1]


def test_a_period_that_a_successor_closed_is_lost(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    account = Shop.open(owner).account(owner)

    def overtake() -> None:
        expire(owner, account)
        with on_duty(dsn, "successor") as successor:
            successor.bill(successor.claim_one(account))

    before_bill(_once(overtake))

    assert run_shift(job(dsn)) == Tally(lost=1)
    assert books(owner, account).events == [
        *("claimed", "expired", "claimed", "released invoiced", "abandoned")
    ]
    assert _invoiced(owner, [account]) == [1]


def test_a_number_that_was_given_already_fails_the_account(
    dsn: str, owner: Connection[Any]
) -> None:
    """Somebody has set the series back: no period is closed, so nothing is done."""
    shop = Shop.open(owner)
    shop.account(owner)
    run_shift(job(dsn))
    run_sql(
        owner,
        "UPDATE pgbill.number_series SET last_number = 0 WHERE seller_id = %s",
        shop.seller_id,
    )
    account = shop.account(owner)

    assert run_shift(job(dsn, run_id=2)) == Tally(failed=1)
    assert lease_row(owner, account)["due_on"] == FIRST_DAY.isoformat()
    assert "duplicate key" in lease_row(owner, account)["detail"]


def test_a_date_that_has_moved_on_is_taken_anew(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    Shop.open(owner).account(owner)
    sizes = before_bill(_fail_once(IssueDateError()))

    assert run_shift(job(dsn)) == Tally(invoiced=1)
    assert sizes == [1, 1]


def test_a_deadlock_is_tried_again(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    Shop.open(owner).account(owner)
    before_bill(_fail_once(errors.DeadlockDetected("deadlock detected")))

    assert run_shift(job(dsn)) == Tally(invoiced=1)


def test_a_refusal_of_the_fence_divides_the_batch(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    shop = Shop.open(owner)
    for _ in range(4):
        shop.account(owner)
    sizes = before_bill(_fail_once(LeaseLostError()))

    assert run_shift(job(dsn)) == Tally(invoiced=4)
    assert sizes == [4, 2, 2]


def _slow_rating(conn: Connection[Any], seconds: float, when: str = "TRUE") -> None:
    """Let a statement that bills take so long before it locks anything."""
    slow = f"IF {when} THEN PERFORM pg_sleep({seconds}); END IF; WITH rated AS"
    guards.edited("bill", ("WITH rated AS", slow))(conn)


def test_a_lost_lease_cancels_the_statement_and_the_others_go_on(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    """It is noticed while the worker waits for the database."""
    shop = Shop.open(owner)
    lost, *others = _in_one_bucket(owner, shop, 3)
    _slow_rating(owner, 0.7)
    began = threading.Event()
    sizes = before_bill(lambda _: began.set())
    successor = Actor(owner, "successor")
    with Threads() as threads:
        shift = threads.start(run_shift, job(dsn, ttl=30, every=0.1))
        assert began.wait(10)
        time.sleep(0.2)
        # In one transaction: a renewal that comes between would keep the lease.
        with owner.transaction():
            expire(owner, lost)
            held = successor.claim_one(lost)

        while _invoiced(owner, others) != [1, 1]:
            time.sleep(0.05)
            assert not shift.done() or _invoiced(owner, others) == [1, 1]
        successor.release(held, "failed", "so that the shift ends")
        tally = wait_for(shift)

    assert tally == Tally(invoiced=2, lost=1)
    assert sizes[:2] == [3, 2]
    assert "abandoned" in books(owner, lost).events


def test_work_that_takes_longer_than_the_lease_is_not_lost(
    dsn: str, owner: Connection[Any]
) -> None:
    """It is renewed beside, while the worker waits for the database."""
    account = Shop.open(owner).account(owner)
    _slow_rating(owner, 1.2)

    assert run_shift(job(dsn, ttl=0.6, every=0.1)) == Tally(invoiced=1)
    assert books(owner, account).events == ["claimed", "released invoiced"]


def test_a_hung_job_does_not_renew_for_ever(dsn: str, owner: Connection[Any]) -> None:
    """Over the hard limit it is dropped, with an alert, and at the cap it is parked."""
    shop = Shop.open(owner)
    hung = shop.account(owner)
    _slow_rating(owner, 20, f"{hung.account_id} = ANY(p_account_ids)")

    tally = run_shift(job(dsn, ttl=0.3, every=0.1, hard_limit=0.5, max_attempts=2))

    assert tally == Tally(lost=2)
    assert lease_row(owner, hung)["parked_at"] is not None
    kinds = values(owner, "SELECT kind FROM pgbill.alert ORDER BY alert_id")
    assert kinds.count("hard_limit") == 2
    assert kinds[-1] == "account_parked"
    detail = "SELECT DISTINCT detail FROM pgbill.lease_event WHERE kind = 'abandoned'"
    assert value(owner, detail) == "it took longer than the hard limit of 0.5 s"


def test_a_time_limit_of_the_server_fails_one_account(
    dsn: str, owner: Connection[Any]
) -> None:
    shop = Shop.open(owner)
    slow, quick = shop.account(owner), shop.account(owner)
    _slow_rating(owner, 5, f"{slow.account_id} = ANY(p_account_ids)")
    database = value(owner, "SELECT current_database()")
    owner.execute("RESET ROLE")
    run_sql(owner, f"ALTER DATABASE \"{database}\" SET statement_timeout = '1s'")

    tally = run_shift(job(dsn))

    assert tally == Tally(invoiced=1, failed=1)
    assert _invoiced(owner, [slow, quick]) == [0, 1]
    assert "statement timeout" in lease_row(owner, slow)["detail"]


def test_a_suspect_is_billed_alone(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    suspects = _in_one_bucket(owner, Shop.open(owner), 5)[:2]
    for account in suspects:
        Actor(owner, "dead").claim_one(account, ttl_seconds=EXPIRED)
    batches: list[list[int]] = []
    before_bill(lambda held: batches.append([each.account_id for each in held]))

    assert run_shift(job(dsn)) == Tally(invoiced=5)

    assert [batch for batch in batches if len(batch) == 1] == [
        [each.account_id] for each in suspects
    ]


def test_what_a_person_retries_is_billed(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    account, other = shop.account(owner), shop.account(owner)
    through_on = date(2026, 5, 31)
    assert run_shift(job(dsn, through_on=through_on)) == Tally(parked=2)

    retried = runs.retry_parked(
        owner, account_key=account.key, reason="they know", by="ann@example.com"
    )

    assert retried == [runs.Retried(account.key, "parked")]
    assert run_shift(job(dsn, through_on=through_on)) == Tally(invoiced=6)
    assert _invoiced(owner, [account, other]) == [6, 0]


def test_leases_of_the_dead_are_waited_for(dsn: str, owner: Connection[Any]) -> None:
    account = Shop.open(owner).account(owner)
    Actor(owner, "dead").claim_one(account, ttl_seconds=0.4)

    assert run_shift(job(dsn)) == Tally(invoiced=1)
    assert books(owner, account).events[:2] == ["claimed", "expired"]


def _break_connections(conn: Connection[Any]) -> None:
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'pgbill worker'"
    )


@pytest.fixture
def superuser(dsn: str) -> Iterator[Connection[Any]]:
    """Return the login's own connection."""
    with connect(dsn) as conn:
        yield conn


def test_a_broken_connection_is_made_again(
    dsn: str,
    owner: Connection[Any],
    superuser: Connection[Any],
    before_bill: Callable[[Meddle], list[int]],
) -> None:
    shop = Shop.open(owner)
    accounts = [shop.account(owner) for _ in range(3)]
    before_bill(_once(lambda: _break_connections(superuser)))

    tally = run_shift(job(dsn))

    assert tally == Tally(invoiced=3, given_back=3)
    assert _invoiced(owner, accounts) == [1, 1, 1]
    assert {lease_row(owner, each)["attempts"] for each in accounts} == {0}
    assert findings(owner) == {}


def test_what_was_claimed_before_the_connection_broke_is_given_back(
    dsn: str, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks while a second bucket is claimed: the first bucket's are held."""
    shop = Shop.open(owner)
    accounts = [shop.account(owner) for _ in range(3)]
    claim = lease.claim
    calls: list[int] = []

    def break_at_the_second(
        conn: Connection[Any],
        **options: Any,  # noqa: ANN401
    ) -> list[Lease]:
        calls.append(1)
        if len(calls) == 2:
            conn.close()
        return claim(conn, **options)

    monkeypatch.setattr(lease, "claim", break_at_the_second)

    tally = run_shift(job(dsn))

    assert tally.invoiced == 3
    assert _invoiced(owner, accounts) == [1, 1, 1]


def test_a_renewal_makes_its_connection_again(
    dsn: str, owner: Connection[Any], superuser: Connection[Any]
) -> None:
    """Only the renewal's breaks, while the worker waits for the database."""
    account = Shop.open(owner).account(owner)
    _slow_rating(owner, 1)
    with Threads() as threads:
        shift = threads.start(run_shift, job(dsn, ttl=0.8, every=0.1))
        time.sleep(0.5)
        superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE '%pgbill.renew(%'"
            " AND pid <> pg_backend_pid()"
        )

        assert wait_for(shift) == Tally(invoiced=1)
    assert books(owner, account).events == ["claimed", "released invoiced"]


@pytest.fixture
def door(server: DatabaseServer, dsn: str) -> Callable[[bool], None]:
    """Open the database to connections, or close it and break those of the worker."""
    name = conninfo.conninfo_to_dict(dsn)["dbname"]

    def move(is_open: bool) -> None:
        with server.connect() as admin:
            run_sql(admin, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {is_open}')
            if not is_open:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = %s AND application_name = 'pgbill worker'",
                    [name],
                )

    return move


def test_a_database_that_stays_away_is_a_temporary_error(
    dsn: str,
    owner: Connection[Any],
    door: Callable[[bool], None],
    before_bill: Callable[[Meddle], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_RECONNECT_SECONDS", 0.2)
    monkeypatch.setattr(worker, "_RETRY_SECONDS", 0.05)
    Shop.open(owner).account(owner)
    before_bill(_once(lambda: door(False)))

    with pytest.raises(TemporaryError, match="did not come back") as raised:
        run_shift(job(dsn))

    assert raised.value.exit_code == 75


def test_a_database_that_comes_back_is_worked_with_again(
    dsn: str,
    owner: Connection[Any],
    door: Callable[[bool], None],
    before_bill: Callable[[Meddle], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_RETRY_SECONDS", 0.05)
    account = Shop.open(owner).account(owner)
    back = threading.Timer(0.3, lambda: door(True))

    def go_away() -> None:
        door(False)
        back.start()

    before_bill(_once(go_away))

    assert run_shift(job(dsn)).invoiced == 1
    assert _invoiced(owner, [account]) == [1]


def test_a_disk_that_stays_full_is_a_temporary_error(
    dsn: str, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database answers, and cannot: there is no point in trying for ever."""
    monkeypatch.setattr(worker, "_RECONNECT_SECONDS", 0.3)
    monkeypatch.setattr(worker, "_RETRY_SECONDS", 0.05)
    Shop.open(owner).account(owner)
    run_sql(
        owner,
        "CREATE FUNCTION pgbill.full() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END$$",
    )
    run_sql(
        owner,
        "CREATE TRIGGER mine BEFORE INSERT ON pgbill.invoice"
        " EXECUTE FUNCTION pgbill.full()",
    )

    with pytest.raises(TemporaryError):
        run_shift(job(dsn))


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has_not_begun(
    dsn: str, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop.open(owner)
    accounts = _in_one_bucket(owner, shop, 3)
    claim = lease.claim
    shifts: list[worker.Shift] = []

    def claim_and_stop(
        conn: Connection[Any],
        **options: Any,  # noqa: ANN401
    ) -> list[Lease]:
        claimed = claim(conn, **options)
        shifts[0].stop()
        return claimed

    monkeypatch.setattr(lease, "claim", claim_and_stop)

    tally = run_shift(job(dsn), shifts.append)

    assert tally == Tally(given_back=3)
    for account in accounts:
        assert books(owner, account).events == ["claimed", "released given_back"]
        assert lease_row(owner, account)["attempts"] == 0


def test_a_worker_that_is_told_to_stop_finishes_what_it_commits(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    shop = Shop.open(owner)
    accounts = [shop.account(owner) for _ in range(4)]
    shifts: list[worker.Shift] = []
    before_bill(lambda _: shifts[0].stop())

    tally = run_shift(job(dsn, batch_size=2), shifts.append)

    assert tally == Tally(invoiced=2)
    assert sorted(_invoiced(owner, accounts)) == [0, 0, 1, 1]
    assert value(owner, "SELECT count(*) FROM pgbill.lease WHERE holder <> ''") == 0


def test_a_suspect_that_waits_its_turn_is_given_back_too(
    dsn: str, owner: Connection[Any], before_bill: Callable[[Meddle], list[int]]
) -> None:
    """It was claimed after others had been, and is to be worked on alone."""
    shop = Shop.open(owner)
    first, suspect = shop.account(owner, key="early"), shop.account(owner, key="late")
    assert first.bucket < suspect.bucket
    Actor(owner, "dead").claim_one(suspect, ttl_seconds=EXPIRED)
    shifts: list[worker.Shift] = []
    before_bill(lambda _: shifts[0].stop())

    tally = run_shift(job(dsn), shifts.append)

    assert tally == Tally(invoiced=1, given_back=1)
    assert lease_row(owner, suspect)["holder"] is None


def test_four_workers_with_two_currencies_do_not_deadlock(
    dsn: str, owner: Connection[Any]
) -> None:
    shops = [Shop.open(owner), Shop.open(owner, currency="JPY")]
    accounts = [shop.account(owner) for _ in range(20) for shop in shops]

    with Threads() as threads:
        shifts = [
            threads.start(run_shift, job(dsn, batch_size=4, first_bucket=first))
            for first in (0, 64, 128, 192)
        ]
        tallies = [wait_for(each) for each in shifts]

    assert sum(each.invoiced for each in tallies) == 40
    assert sum(each.lost + each.failed for each in tallies) == 0
    assert _invoiced(owner, accounts) == [1] * 40
    for shop in shops:
        assert numbers(owner, shop.seller_id) == list(range(1, 21))
    assert findings(owner) == {}


def test_it_works_on_one_account_if_it_is_asked_to(
    dsn: str, owner: Connection[Any]
) -> None:
    shop = Shop.open(owner)
    wanted, other = shop.account(owner), shop.account(owner)

    tally = run_shift(job(dsn, account=(wanted.bucket, wanted.account_id)))

    assert tally == Tally(invoiced=1)
    assert _invoiced(owner, [wanted, other]) == [1, 0]


def test_a_scope_is_what_crosses_to_another_process(dsn: str) -> None:
    """A job is data: it can be pickled, and says all."""
    import pickle

    told = pickle.loads(pickle.dumps(job(dsn)))  # noqa: S301

    assert told == job(dsn)
    assert told.scope == Scope(1, FIRST_DAY)


def test_errors_of_the_program_itself_are_not_hidden(
    dsn: str, owner: Connection[Any]
) -> None:
    """A function that is missing is no fault of an account."""
    Shop.open(owner).account(owner)
    run_sql(owner, "REVOKE EXECUTE ON FUNCTION pgbill.bill FROM pgbill_worker")

    with pytest.raises(psycopg.ProgrammingError):
        run_shift(job(dsn))
