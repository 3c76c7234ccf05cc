"""What runs have done can be looked at, and what they could not do gets another chance.

A sealed run keeps counts, totals, who, when, version and settings. Whoever parks,
unparks or retries accounts is recorded with the reason.
"""

import contextlib
import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from psycopg import Connection
from typer.testing import CliRunner, Result

from pgbill import billing, db, lease, login, roles, runs
from pgbill.cli import app
from pgbill.lease import Patience, Release, Scope
from tests.actors import POLICY, Actor, bill_all, on_duty
from tests.shop import FIRST_DAY, Shop, books, findings, lease_row, run_sql, value

pytestmark = pytest.mark.one_server

WHO = "ann@example.com"
_QUICK = Patience(retry_after=60, retry_wait=300)


@pytest.fixture
def owner(dsn: str) -> Iterator[Connection[Any]]:
    """Return a connection as the owner of the schema; each statement commits."""
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test")
    ) as conn:
        yield conn


def call(dsn: str, *arguments: str) -> Result:
    environment = {"PGBILL_DSN": dsn, "PGBILL_WORKERS": "1"}
    return CliRunner().invoke(app, arguments, env=environment)


def told(dsn: str, *arguments: str) -> Any:  # noqa: ANN401
    result = call(dsn, *arguments, "--json")
    assert result.exit_code in {0, 1}, result.stderr
    return json.loads(result.stdout)


def test_a_sealed_run_is_shown_whole(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    shop.account(owner)
    shop.account(owner, key="F-1", country="FR")
    call(dsn, "run", "--through", "2025-12-31", "--issue-on", "2026-01-02")

    shown = told(dsn, "runs", "show", "1")

    assert shown["ending"] == "finished"
    assert shown["started_by"] == login.who()
    assert shown["settings"]["workers"] == 1
    assert shown["command"] == ("pgbill run --through 2025-12-31 --issue-on 2026-01-02")
    assert shown["summary"]["totals"] == [
        {
            "currency": "EUR",
            "invoices": 1,
            "net": "10.00",
            "tax": "1.90",
            "gross": "11.90",
        }
    ]
    (failure,) = shown["failures"]
    assert (failure["account_key"], failure["outcome"]) == ("F-1", "failed")
    page = call(dsn, "runs", "show", "1")
    assert "accounts that failed" in page.stdout
    assert "account F-1 failed: no tax rate" in page.stderr


def test_who_lists_the_failures_that_are_not_told(
    dsn: str, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(billing, "_LISTED_FAILURES", 1)
    shop = Shop.open(owner)
    for key in ("F-1", "F-2"):
        shop.account(owner, key=key, country="FR")

    result = call(dsn, "run", "--through", "2025-12-31")

    assert "account F-2" not in result.stderr
    assert "… and more: pgbill runs show 1 lists them.\n" in result.stderr
    assert "account F-2 failed" in call(dsn, "runs", "show", "1").stderr


def test_a_sealed_run_keeps_what_it_was(dsn: str, owner: Connection[Any]) -> None:
    """What comes later, in another run, changes nothing of it."""
    account = Shop.open(owner).account(owner)
    call(dsn, "run", "--through", "2025-12-31")
    before = told(dsn, "runs", "show", "1")

    bill_all(owner, account, through_on=date(2026, 1, 31), run_id=1)

    assert told(dsn, "runs", "show", "1") == before


def test_runs_are_listed_the_newest_first(dsn: str, owner: Connection[Any]) -> None:
    Shop.open(owner).account(owner)
    for through in ("2025-12-31", "2026-01-31"):
        call(dsn, "run", "--through", through)

    assert [each["run_id"] for each in told(dsn, "runs", "list")] == [2, 1]
    assert len(told(dsn, "runs", "list", "--limit", "1")) == 1
    assert "EUR 11.90" in call(dsn, "runs", "list").stdout


def test_an_open_run_is_counted(dsn: str, owner: Connection[Any]) -> None:
    account = Shop.open(owner).account(owner)
    run_sql(
        owner,
        "SELECT pgbill.open_run(NULL, NULL, 'live', NULL, '{}', 'somebody', '1')",
    )
    bill_all(owner, account)

    shown = told(dsn, "runs", "show", "1")

    assert (shown["ending"], shown["summary"]["invoiced"]) == (None, 1)


def test_what_failed_in_a_run_is_made_due_again(
    dsn: str, owner: Connection[Any]
) -> None:
    """Its attempts begin anew; the others of the run stay as they are."""
    shop = Shop.open(owner)
    shop.account(owner)
    bad = shop.account(owner, key="F-1", country="FR")
    call(dsn, "run", "--through", "2025-12-31")
    assert lease_row(owner, bad)["attempts"] == 1

    retried = call(dsn, "runs", "retry", "1", "--reason", "rate added", "--json")

    assert json.loads(retried.stdout) == [{"account": "F-1", "was": "failed"}]
    assert "now: pgbill run --through 2025-12-31\n" in retried.stderr
    row = lease_row(owner, bad)
    assert (row["attempts"], row["failed_run_id"]) == (0, None)
    assert (row["detail"], row["acted_by"]) == ("rate added", login.who())
    again = told(dsn, "runs", "retry", "1", "--reason", "rate added")
    assert again == []


def test_what_a_run_has_parked_is_unparked(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    mine, by_hand = shop.account(owner, key="A-1"), shop.account(owner, key="A-2")
    call(dsn, "run", "--through", "2026-05-31")
    with runs.connected(dsn) as conn:
        runs.retry_parked(conn, account_key="A-2", reason="a check", by=WHO)
        assert runs.park(conn, "A-2", reason="in dispute", by=WHO)

    assert told(dsn, "runs", "retry", "1", "--reason", "all right") == [
        {"account": "A-1", "was": "parked"}
    ]

    assert lease_row(owner, mine)["parked_at"] is None
    assert lease_row(owner, by_hand)["detail"] == "in dispute"
    assert told(dsn, "run", "--through", "2026-05-31")["invoiced"] == 6


def test_what_a_later_run_has_given_up_is_retried(
    dsn: str, owner: Connection[Any]
) -> None:
    """It failed in run 1, and run 2 parks it at its last attempt."""
    shop = Shop.open(owner)
    shop.account(owner, key="F-1", country="FR")
    shop.account(owner, key="F-2", country="FR")
    for _ in range(2):
        assert call(dsn, "run", "--through", "2025-12-31").exit_code == 1
    run_sql(owner, "UPDATE pgbill.lease SET attempts = 4")
    assert told(dsn, "run", "--through", "2025-12-31")["parked"] == 2
    call(dsn, "account", "unpark", "F-2", "--reason", "a check")
    call(dsn, "account", "park", "F-2", "--reason", "in dispute")

    retried = call(dsn, "runs", "retry", "1", "--reason", "rate added")

    assert "1 account is due again." in retried.stderr
    assert f"F-2 stays parked, by {login.who()}: in dispute" in retried.stderr
    still = "SELECT count(*) FROM pgbill.lease WHERE parked_at IS NOT NULL"
    assert value(owner, still) == 1


def test_a_run_that_issues_nothing_holds_nothing(
    dsn: str, owner: Connection[Any]
) -> None:
    Shop.open(owner).account(owner, country="FR")

    ran = call(dsn, "run", "--through", "2025-12-31", "--hold-mail")
    released = call(dsn, "outbox", "release", "--run", "1")

    assert "its mail is held" not in ran.stderr
    assert (released.exit_code, released.stderr) == (
        0,
        "pgbill: run 1 holds no message: nothing was to be released.\n",
    )


def test_a_dry_run_of_a_retry_changes_nothing(dsn: str, owner: Connection[Any]) -> None:
    account = Shop.open(owner).account(owner)
    call(dsn, "run", "--through", "2026-05-31")

    would = call(dsn, "runs", "retry", "1", "--reason", "x", "--dry-run")

    assert "1 account would be due again." in would.stderr
    assert lease_row(owner, account)["parked_at"] is not None


def test_an_account_that_is_parked_is_in_no_run(
    dsn: str, owner: Connection[Any]
) -> None:
    shop = Shop.open(owner)
    parked, other = shop.account(owner, key="A-1"), shop.account(owner)
    reason = ("--reason", "in dispute")

    first = call(dsn, "account", "park", "A-1", *reason)
    second = call(dsn, "account", "park", "A-1", *reason)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stderr == "pgbill: account A-1 is parked.\n"
    assert "already" in second.stderr
    assert told(dsn, "run", "--through", "2025-12-31")["invoiced"] == 1
    assert (books(owner, parked).periods, len(books(owner, other).periods)) == ([], 1)
    story = call(dsn, "explain", "A-1").stdout
    assert f"The account was parked by {login.who()}: in dispute." in story
    # Who has parked it needs no alert.
    assert value(owner, "SELECT count(*) FROM pgbill.alert") == 0

    call(dsn, "account", "unpark", "A-1", "--reason", "settled")

    assert told(dsn, "run", "--through", "2025-12-31")["invoiced"] == 1
    assert f"unparked by {login.who()}: settled" in call(dsn, "explain", "A-1").stdout
    assert findings(owner) == {}


def test_parking_takes_the_lease_from_its_worker(
    dsn: str, owner: Connection[Any]
) -> None:
    account = Shop.open(owner).account(owner, key="A-1")
    with on_duty(dsn) as worker:
        held = worker.claim_one(account)

        call(dsn, "account", "park", "A-1", "--reason", "stop")

        assert not worker.renews(held)
        assert worker.bill(held) == []
    assert books(owner, account).periods == []
    assert books(owner, account).events == ["claimed", "released parked"]
    assert lease_row(owner, account)["holder"] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("runs", "show", "9"), "there is no run 9."),
        (("runs", "retry", "9", "--reason", "x"), "there is no run 9."),
        (("runs", "retry", "1", "--account", "A-1", "--reason", "x"), "not both"),
        (("runs", "retry", "1", "--reason", " "), "--reason is empty."),
        (("runs", "retry", "--account", "A-1", "--reason", "x"), "A-1 is not parked."),
        (("account", "park", "A-9", "--reason", "x"), "there is no account A-9."),
        (("account", "park", "A-1", "--reason", ""), "--reason is empty."),
        (("account", "unpark", "A-9", "--reason", "x"), "there is no account A-9."),
        (("account", "unpark", "A-1", "--reason", "x"), "account A-1 is not parked."),
    ],
)
def test_what_is_wrong_is_refused(
    dsn: str, owner: Connection[Any], arguments: tuple[str, ...], sentence: str
) -> None:
    account = Shop.open(owner).account(owner, key="A-1")
    before = lease_row(owner, account)

    result = call(dsn, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert lease_row(owner, account) == before


def _fails(actor: Actor, held: lease.Lease, *, may_pass: bool = True) -> None:
    lease.release(
        actor.conn,
        [Release(held, "failed", "no answer", may_pass=may_pass)],
        max_attempts=POLICY.max_attempts,
        patience=_QUICK,
    )


def _let_the_delay_pass(conn: Connection[Any]) -> None:
    run_sql(
        conn,
        "UPDATE pgbill.lease SET retry_at = clock_timestamp()"
        " WHERE retry_at IS NOT NULL",
    )


def test_what_may_pass_is_tried_again_after_growing_delays(
    conn: Connection[Any],
) -> None:
    """After 60, 120 and 240 s; 480 s are not waited for: the next run tries it."""
    account = Shop.open(conn).account(conn)
    actor = Actor(conn)
    delays: list[int] = []
    for _ in range(3):
        _fails(actor, actor.claim_one(account))
        delays.append(
            value(
                conn,
                "SELECT round(extract(epoch FROM retry_at - clock_timestamp()))::int"
                " FROM pgbill.lease",
            )
        )
        assert actor.claim(account) == []
        _let_the_delay_pass(conn)

    _fails(actor, actor.claim_one(account))

    assert delays == [60, 120, 240]
    assert lease_row(conn, account)["retry_at"] is None
    assert lease.due_buckets(conn, actor.scope) == []
    assert len(Actor(conn, scope=Scope(2, FIRST_DAY)).claim(account)) == 1


def test_a_run_does_not_end_before_its_retries(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    actor = Actor(conn)

    _fails(actor, actor.claim_one(account))

    (waiting,) = lease.due_buckets(conn, actor.scope)
    assert not waiting.is_claimable
    assert value(conn, "SELECT due_count FROM pgbill.due_count(%s, 1)", FIRST_DAY) == 1
    assert "tried again at" in _situation(conn, account.key)


def _situation(conn: Connection[Any], key: str) -> str:
    from pgbill import story

    return story.tell(conn, key).now


def test_another_run_does_not_wait(conn: Connection[Any]) -> None:
    """Whoever starts it has a reason: the service is back, or the data are mended."""
    account = Shop.open(conn).account(conn)
    actor = Actor(conn)
    _fails(actor, actor.claim_one(account))

    assert bill_all(conn, account, run_id=2) == ["invoiced"]


def test_what_cannot_pass_is_left_to_the_next_run(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    actor = Actor(conn)

    _fails(actor, actor.claim_one(account), may_pass=False)

    assert lease.due_buckets(conn, actor.scope) == []


def test_retries_lead_to_the_cap(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    actor = Actor(conn)
    for _ in range(POLICY.max_attempts):
        _fails(actor, _claim_in_any_run(conn, account))

    row = lease_row(conn, account)

    assert (row["outcome"], row["detail"]) == ("parked", "no answer")
    assert row["parked_at"] is not None
    assert row["retry_at"] is None


def _claim_in_any_run(conn: Connection[Any], account: Any) -> lease.Lease:  # noqa: ANN401
    _let_the_delay_pass(conn)
    run_id = value(conn, "SELECT attempts + 1 FROM pgbill.lease")
    return Actor(conn, scope=Scope(run_id, FIRST_DAY)).claim_one(account)


def test_a_success_at_a_later_attempt_is_no_failure_of_the_run(
    conn: Connection[Any],
) -> None:
    account = Shop.open(conn).account(conn)
    actor = Actor(conn)
    _fails(actor, actor.claim_one(account))
    failed = value(conn, "SELECT pgbill.run_summary(1)->>'failed'")
    _let_the_delay_pass(conn)

    assert actor.outcomes(actor.claim_one(account)) == ["invoiced"]

    assert failed == "1"
    assert value(conn, "SELECT pgbill.run_summary(1)->>'failed'") == "0"


def test_the_dates_of_a_seller_do_not_bind_another(
    dsn: str, owner: Connection[Any]
) -> None:
    """Tokyo is a day ahead; that concerns only who is billed by the seller there."""
    tokyo = Shop.open(owner, key="tokyo", zone="Asia/Tokyo")
    tokyo.account(owner, key="T-1")
    first = ("run", "--through", "2025-12-31", "--issue-on")
    call(dsn, *first, "2026-03-10")
    Shop.open(owner, key="berlin").account(owner, key="B-1")

    refused = call(
        dsn,
        "run",
        "--account",
        "T-1",
        "--through",
        "2026-01-31",
        *first[-1:],
        "2026-03-09",
    )
    one = call(dsn, *first, "2026-03-09", "--account", "B-1")
    rest = call(dsn, "run", "--through", "2026-01-31", *first[-1:], "2026-03-09")

    assert refused.exit_code == 2
    assert "the last invoice of seller tokyo, which" in refused.stderr
    assert one.exit_code == 0, one.stderr
    # Now January is due for both, and T-1 is of Tokyo.
    assert rest.exit_code == 2


def test_a_seller_with_nothing_due_does_not_bind_a_run(
    dsn: str, owner: Connection[Any]
) -> None:
    Shop.open(owner, key="tokyo", zone="Asia/Tokyo").account(owner)
    first = ("run", "--through", "2025-12-31", "--issue-on")
    call(dsn, *first, "2026-03-10")
    Shop.open(owner, key="berlin").account(owner)

    done = call(dsn, *first, "2026-03-09")

    assert done.exit_code == 0, done.stderr
    assert value(owner, "SELECT count(*) FROM pgbill.invoice") == 2
