"""What a person must look at is told once, with what to do, and a storm is one mail.

Each kind of alert is raised by what finds the cause. Alerts of one mishap belong
together: they are listed, counted and acknowledged as one.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import pytest
from psycopg import Connection, errors
from typer.testing import CliRunner

from pgbill import alert, digest, issuing, lease, roles, status
from pgbill.alert import Watch
from pgbill.cli import app
from pgbill.config import Settings
from pgbill.digest import Digest, Entry, Head, Kind, Policy
from pgbill.errors import ConfigError, LeaseLostError, UsageError
from pgbill.outbox import Outcome
from tests import builders, post
from tests.actors import EXPIRED, Actor, connect, expire
from tests.builders import Account
from tests.guards import without_trigger
from tests.post import Relay
from tests.shifts import job, run_shift
from tests.shop import Shop, findings, run_sql, value, values

pytestmark = pytest.mark.one_server

POLICY = Policy(
    to="oncall@example.com",
    every_seconds=900,
    mode="live",
    is_test=False,
    mail_from="pgbill@example.com",
    redirect=None,
)
TAKEN, LATER = Outcome("accepted", "ok", 250), Outcome("deferred", "later", 451)
REFUSED = Outcome("failed", "no such mailbox", 550)


@pytest.fixture
def owner(dsn: str) -> Iterator[Connection[Any]]:
    """Return a connection of the owner of the schema; each statement commits."""
    with contextlib.closing(connect(dsn, roles.OWNER)) as conn:
        yield conn


def kinds(conn: Connection[Any]) -> list[str]:
    return values(conn, "SELECT kind FROM pgbill.alert ORDER BY alert_id")


def storm(conn: Connection[Any], count: int, **columns: object) -> None:
    """Raise alerts about claims of one account that have expired."""
    shop = Shop.open(conn)
    account = builders.account(conn, shop.seller_id)
    for number in range(count):
        builders.insert(
            conn,
            "alert",
            "alert_id",
            bucket=account.bucket,
            account_id=account.account_id,
            kind="lease_expired",
            fencing_token=900_000 + number,
            summary=f"Something is wrong {number} times.",
            **columns,
        )


def grow_old(conn: Connection[Any], seconds: int) -> None:
    """Let all mails about alerts have been begun earlier."""
    run_sql(conn, "ALTER TABLE pgbill.alert_digest DISABLE TRIGGER _20_freeze")
    run_sql(
        conn,
        "UPDATE pgbill.alert_digest"
        " SET begun_at = begun_at - make_interval(secs => %s)",
        seconds,
    )
    run_sql(conn, "ALTER TABLE pgbill.alert_digest ENABLE TRIGGER _20_freeze")


# Raising


def _lose(worker: Actor, account: Account) -> lease.Lease:
    lost = worker.claim_one(account, ttl_seconds=EXPIRED)
    Actor(worker.conn, "successor").claim_one(account)
    return lost


def _refuse(conn: Connection[Any], sleeper: Actor, lost: lease.Lease) -> None:
    lease.abandon(
        conn,
        lost,
        scope=sleeper.scope,
        worker=sleeper.worker,
        detail="another worker had claimed the account",
        refused=True,
    )


@pytest.mark.parametrize("by", ["answer", "fence"])
def test_a_refused_late_write_is_an_alert(
    dsn: str, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The worker writes it down after its own transaction is gone."""
    account = Shop.open(owner).account(owner)
    bill = issuing.bill

    def late(conn: Connection[Any], leases: Any, **options: Any) -> Any:  # noqa: ANN401
        monkeypatch.setattr(issuing, "bill", bill)
        expire(owner, account)
        successor = Actor(owner, "successor")
        successor.release(successor.claim_one(account))
        if by == "fence":
            raise LeaseLostError
        return bill(conn, leases, **options)

    monkeypatch.setattr(issuing, "bill", late)

    tally = run_shift(job(dsn))

    assert (tally.lost, tally.invoiced) == (1, 1)
    assert kinds(owner) == ["lease_expired", "write_refused"]
    (told,) = alert.find(owner, with_acked=False, limit=10)
    assert told.kind == "lease_expired, write_refused"
    assert (told.account, told.run_id) == (account.key, 1)
    assert f"Account {account.key}: a late write of " in told.summary
    assert "successor had claimed it at " in told.summary
    assert "Nothing is to be done for the account." in told.summary
    abandoned = "SELECT count(*) FROM pgbill.lease_event WHERE kind = 'abandoned'"
    assert value(owner, abandoned) == 1
    assert findings(owner) == {}


def test_a_loss_that_is_noticed_before_a_write_is_no_further_alert(
    conn: Connection[Any],
) -> None:
    sleeper = Actor(conn, "sleeper")
    lost = _lose(sleeper, Shop.open(conn).account(conn))

    lease.abandon(
        conn, lost, scope=sleeper.scope, worker=sleeper.worker, detail="it was lost"
    )

    assert kinds(conn) == ["lease_expired"]


def test_a_worker_may_report_a_refusal_and_write_no_alert(
    conn: Connection[Any],
) -> None:
    sleeper = Actor(conn, "sleeper")
    lost = _lose(sleeper, Shop.open(conn).account(conn))
    run_sql(conn, "SET LOCAL ROLE pgbill_worker")

    _refuse(conn, sleeper, lost)

    with pytest.raises(errors.InsufficientPrivilege):
        run_sql(conn, "UPDATE pgbill.alert SET acked_by = 'me', acked_at = now()")


def test_one_mishap_raises_each_kind_once(conn: Connection[Any]) -> None:
    """Whoever renews late again and again, or reports a refusal twice."""
    slow = Actor(conn, "slow")
    account = Shop.open(conn).account(conn)
    held = slow.claim_one(account, ttl_seconds=EXPIRED)
    for _ in range(3):
        assert slow.renews(held, ttl_seconds=EXPIRED)
    Actor(conn, "successor").claim_one(account)
    for _ in range(2):
        _refuse(conn, slow, held)

    assert kinds(conn) == ["lease_expired", "write_refused"]


def test_the_next_claim_that_expires_is_another_mishap(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    for name in ("one", "two", "three"):
        Actor(conn, name).claim_one(account, ttl_seconds=EXPIRED)

    assert kinds(conn) == ["lease_expired"] * 2
    assert status.read(conn).incident_count == 2


def test_the_last_attempt_of_a_dead_worker_is_one_mishap(
    conn: Connection[Any],
) -> None:
    account = Shop.open(conn).account(conn)
    for _ in range(5):
        Actor(conn, "dead").claim_one(account, ttl_seconds=EXPIRED)
    assert Actor(conn, "successor").claim(account) == []

    found = alert.find(conn, with_acked=False, limit=10)

    assert len(found) == 5
    assert found[0].kind == "lease_expired, account_parked"
    assert f"pgbill runs retry --account {account.key}" in found[0].summary


def test_each_attempt_that_is_uncertain_is_an_alert(owner: Connection[Any]) -> None:
    (account,) = post.issue(owner)
    relay = Relay(owner)
    message = relay.leave_uncertain(account)
    relay.claim(account)
    relay.claim(account)
    relay.record(message, 1, "deferred")
    post.make_due(owner, account)
    relay.leave_uncertain(account)
    relay.claim(account)

    assert kinds(owner) == ["message_uncertain"] * 2
    newest = alert.find(owner, with_acked=False, limit=1)[0].summary
    assert newest.startswith(f"Account {account.key}: it is not known whether message")
    assert f"pgbill outbox resolve {message.message_id} --taken" in newest


# Looking


def run(dsn: str, *arguments: str, exits: int = 0) -> Any:  # noqa: ANN401
    result = CliRunner().invoke(app, [*arguments, "--json"], env={"PGBILL_DSN": dsn})
    assert result.exit_code == exits, result.stderr
    return json.loads(result.stdout) if result.stdout else result.stderr


def test_alerts_are_listed_by_kind_and_acknowledged_together(
    dsn: str, owner: Connection[Any]
) -> None:
    shop = Shop.open(owner)
    sleeper = Actor(owner, "sleeper")
    _refuse(owner, sleeper, _lose(sleeper, shop.account(owner)))
    parker = Actor(owner)
    parker.release(parker.claim_one(shop.account(owner)), "parked", "too many periods")

    refused = run(dsn, "alert", "list", "--kind", "write_refused")
    parked = run(dsn, "alert", "list", "--kind", "account_parked")
    standing = run(dsn, "status")
    acked = run(dsn, "alert", "ack", str(refused[0]["alert_id"] + 1))
    of_kind = run(dsn, "alert", "ack", "--all", "--kind", "account_parked")

    assert [each["kind"] for each in refused] == ["lease_expired, write_refused"]
    assert [each["kind"] for each in parked] == ["account_parked"]
    assert standing["incident_count"] == 2
    assert [each["kind"] for each in standing["newest_alerts"]] == [
        "account_parked",
        "lease_expired, write_refused",
    ]
    assert len(acked["acknowledged"]) == 2
    assert of_kind["acknowledged"] == [parked[0]["alert_id"]]
    assert run(dsn, "alert", "list") == []
    assert "is one of lease_expired" in run(
        dsn, "alert", "list", "--kind", "x", exits=2
    )
    assert "--kind goes with --all" in run(
        dsn, "alert", "ack", "1", "--kind", "hard_limit", exits=2
    )


def test_what_happens_after_it_was_acknowledged_opens_it_again(
    conn: Connection[Any],
) -> None:
    sleeper = Actor(conn, "sleeper")
    lost = _lose(sleeper, Shop.open(conn).account(conn))
    alert.acknowledge_all(conn, by="somebody")

    _refuse(conn, sleeper, lost)

    (told,) = alert.find(conn, with_acked=False, limit=10)
    assert told.acked_by is None


def test_a_status_shows_the_newest_alerts_to_a_person(
    dsn: str, owner: Connection[Any]
) -> None:
    storm(owner, 7)

    shown = CliRunner().invoke(app, ["status"], env={"PGBILL_DSN": dsn}).stdout

    assert "Open alerts: 7 (lease_expired: 7)." in shown
    assert "Something is wrong 6 times." in shown
    assert "Something is wrong 1 times." not in shown
    assert "… and older ones: pgbill alert list" in shown


def test_an_unknown_kind_is_a_wrong_question(conn: Connection[Any]) -> None:
    with pytest.raises(UsageError, match="--kind is one of"):
        alert.acknowledge_all(conn, by="somebody", kind="panic")


def _open_run(conn: Connection[Any], run_id: int, mode: str = "live") -> int:
    builders.insert(
        conn,
        "billing_run",
        "run_id",
        run_id=run_id,
        mode=mode,
        started_by="me",
        pgbill_version="0",
    )
    return run_id


def test_a_run_tells_its_own_alerts_once(conn: Connection[Any]) -> None:
    shop = Shop.open(conn)
    told: list[str] = []
    _lose(Actor(conn, "before"), shop.account(conn))
    other = _open_run(conn, 2)
    watch = Watch(lambda: conn, 1, told.append)
    watch.begin(conn)
    _lose(Actor(conn, "sleeper"), shop.account(conn))
    storm(conn, 1, run_id=other)

    watch.look_with(conn)
    watch.look_with(conn)
    watch.look()

    (line,) = told
    assert ", lease_expired: Account " in line
    assert "sleeper" in line


def test_a_run_tells_the_leases_of_a_dead_worker_in_one_line(
    conn: Connection[Any],
) -> None:
    """Beside the first of them; each has an alert of its own in the table."""
    shop = Shop.open(conn)
    told: list[str] = []
    watch = Watch(lambda: conn, 1, told.append)
    watch.begin(conn)
    for _ in range(3):
        _lose(Actor(conn, "dead"), shop.account(conn))
        watch.look_with(conn)

    watch.finish_with(conn)

    first, last = told
    assert ", lease_expired: Account " in first
    assert last == "3 leases of dead expired: pgbill alert list"


def test_a_run_cuts_a_storm_short(conn: Connection[Any]) -> None:
    told: list[str] = []
    watch = Watch(lambda: conn, 1, told.append)
    watch.begin(conn)
    storm(conn, 60, run_id=1)
    watch.look_with(conn)
    storm(conn, 60, run_id=1)
    watch.look_with(conn)
    watch.look_with(conn)

    assert len(told) == 101
    assert told[-1].endswith("not told here: pgbill alert list")


# Mailing


def begin(conn: Connection[Any], **changes: Any) -> Digest | None:  # noqa: ANN401
    return digest.begin(conn, replace(POLICY, **changes), holder="relay")


def record(conn: Connection[Any], begun: Digest, outcome: Outcome) -> bool:
    return digest.record(conn, begun.head.digest_id, outcome, recorded_by="relay")


def test_a_storm_is_one_mail(conn: Connection[Any]) -> None:
    storm(conn, 500)

    begun = begin(conn)

    assert begun is not None
    assert begun.head.alert_count == 500
    assert begin(conn) is None


def test_with_no_alert_there_is_no_mail(conn: Connection[Any]) -> None:
    storm(conn, 1)
    alert.acknowledge_all(conn, by="somebody")

    assert not digest.is_due(conn, POLICY)
    assert begin(conn) is None


@pytest.mark.parametrize("outcome", [TAKEN, None], ids=["taken", "unknown"])
def test_what_was_mailed_or_may_have_been_is_not_mailed_again(
    conn: Connection[Any], outcome: Outcome | None
) -> None:
    storm(conn, 3)
    first = begin(conn)
    assert first is not None
    if outcome is not None:
        record(conn, first, outcome)
    grow_old(conn, 1_000)
    assert begin(conn) is None
    storm(conn, 1)

    second = begin(conn)

    assert second is not None
    assert second.head.alert_count == 1
    assert second.head.unknown_count == (3 if outcome is None else 0)


@pytest.mark.parametrize(
    ("outcome", "too_soon", "wait"), [(LATER, 200, 101), (REFUSED, 800, 101)]
)
def test_what_was_not_taken_is_in_the_next_mail(
    conn: Connection[Any], outcome: Outcome, too_soon: int, wait: int
) -> None:
    """Soon if the mail server asks to come again, else after the interval."""
    storm(conn, 3)
    first = begin(conn)
    assert first is not None
    assert record(conn, first, outcome)
    storm(conn, 1)
    grow_old(conn, too_soon)
    assert begin(conn) is None
    grow_old(conn, wait)

    second = begin(conn)

    assert second is not None
    assert second.head.alert_count == 4
    assert not record(conn, first, TAKEN), "the first outcome counts"


def test_a_mail_that_was_begun_and_never_sent_is_undone(conn: Connection[Any]) -> None:
    storm(conn, 3)
    assert begin(conn) is not None

    digest.undo(conn, holder="another relay")
    assert values(conn, "SELECT DISTINCT digest_id IS NULL FROM pgbill.alert") == [
        False
    ]
    digest.undo(conn, holder="relay")

    assert values(conn, "SELECT DISTINCT digest_id IS NULL FROM pgbill.alert") == [True]


TAKE_OUT = "UPDATE pgbill.alert SET digest_id = NULL"


def test_nobody_takes_an_alert_out_of_a_mail_that_may_have_been_taken(
    conn: Connection[Any],
) -> None:
    storm(conn, 1)
    assert begin(conn) is not None

    with pytest.raises(errors.Error, match="which may have been taken") as refusal:
        run_sql(conn, TAKE_OUT)

    assert refusal.value.sqlstate == "IV002"


def test_without_its_trigger_it_would_be_mailed_twice(conn: Connection[Any]) -> None:
    storm(conn, 1)
    assert begin(conn) is not None
    without_trigger("_20_keep_in_digest", "alert")(conn)

    run_sql(conn, TAKE_OUT)
    grow_old(conn, 1_000)

    assert begin(conn) is not None


def test_two_relays_begin_one_mail(dsn: str, owner: Connection[Any]) -> None:
    storm(owner, 3)
    with (
        contextlib.closing(connect(dsn, roles.WORKER)) as one,
        contextlib.closing(connect(dsn, roles.WORKER)) as two,
        one.transaction(),
    ):
        assert begin(one) is not None
        assert begin(two) is None


def test_a_relay_of_a_mode_mails_alerts_of_that_mode(conn: Connection[Any]) -> None:
    for run_id, mode in ((1, "live"), (2, "test")):
        _open_run(conn, run_id, mode)
        storm(conn, run_id, run_id=run_id)
    storm(conn, 4)

    test = begin(conn, mode="test")
    grow_old(conn, 1_000)
    anything = begin(conn, mode=None, redirect="dev@example.com")

    assert test is not None
    assert test.head.alert_count == 2
    assert anything is not None
    assert anything.head.alert_count == 5
    sent_to = "SELECT sent_to FROM pgbill.alert_digest ORDER BY digest_id"
    assert values(conn, sent_to) == ["oncall@example.com", "dev@example.com"]


AT = datetime(2026, 11, 1, 2, 15, tzinfo=UTC)


def _example(count: int, unknown: int = 0) -> Digest:
    entries = [
        Entry(number, AT + timedelta(seconds=number), "lease_expired", "It expired.")
        for number in range(1, min(count, 20) + 1)
    ]
    head = Head(7, AT, count, "billing", "invoices@example.com", unknown)
    return Digest(head, [Kind("lease_expired", count)], entries)


def _mail(example: Digest, policy: Policy) -> EmailMessage:
    made = digest.compose(example, policy)
    return message_from_bytes(made.content, policy=SMTP)


def test_a_mail_tells_how_many_the_first_ones_and_where_to_look() -> None:
    mail = _mail(_example(500, unknown=12), POLICY)

    body = mail.get_content().replace("\r\n", "\n")
    assert mail["Subject"] == "pgbill: 500 alerts (500 lease_expired)"
    assert (mail["From"], mail["To"]) == ("pgbill <pgbill@example.com>", POLICY.to)
    assert mail["Auto-Submitted"] == "auto-generated"
    assert body.startswith("500 alerts wait for a person, in the database billing.\n")
    assert "    500  lease_expired\n" in body
    first = "2026-11-01 02:15:01 UTC, alert 1:\n  lease_expired. It expired.\n"
    assert first in body
    assert body.count("It expired.") == 20
    assert "\nand 480 more.\n" in body
    assert "Earlier mails, with 12 alerts that are still open,\n" in body
    assert "pgbill alert list" in body


def test_a_mail_about_one_alert_says_so() -> None:
    body = _mail(_example(1), POLICY).get_content()

    assert body.startswith("1 alert waits for a person")
    assert "more." not in body
    assert "Earlier mails" not in body


def test_mail_of_a_test_is_marked_and_redirected_mail_names_its_address() -> None:
    policy = replace(POLICY, is_test=True, redirect="dev@example.com", mail_from=None)

    mail = _mail(_example(1), policy)

    assert mail["Subject"].startswith("[TEST] pgbill: 1 alert ")
    assert mail["To"] == "dev@example.com"
    assert mail["X-Pgbill-Original-To"] == POLICY.to
    assert mail["From"] == "pgbill <invoices@example.com>"


def test_without_an_address_nothing_is_mailed() -> None:
    assert Policy.of(Settings()) is None
    with pytest.raises(ConfigError, match="PGBILL_ALERT_MAIL is wrong: an address"):
        Policy.of(Settings(alert_mail="nobody"))
