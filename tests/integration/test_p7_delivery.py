"""P7: a message is not sent again while it is unknown whether it was taken."""

import contextlib
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from psycopg import Connection, errors

from pgbill import outbox, roles
from pgbill.outbox import Channel, Kind, Scope, State
from tests import actors, post
from tests.builders import Account
from tests.post import Relay
from tests.shop import findings, run_sql, value

CHAIN = "delivery_attempt", "delivery_outcome"
RETRY = "outbox_message", "delivery_outcome"
STATES: tuple[State, ...] = get_args(State)


@pytest.fixture
def account(conn: Connection[Any]) -> Account:
    """Return an account with an invoice that waits to be delivered."""
    (account,) = post.issue(conn)
    return account


@pytest.fixture
def relay(conn: Connection[Any]) -> Relay:
    return Relay(conn)


def drop_key(conn: Connection[Any], key: tuple[str, str]) -> None:
    """Take away the foreign key from one table to another."""
    name = value(
        conn,
        "SELECT conname::text FROM pg_catalog.pg_constraint WHERE contype = 'f'"
        " AND conrelid = ('pgbill.' || %s)::regclass"
        " AND confrelid = ('pgbill.' || %s)::regclass",
        *key,
    )
    run_sql(conn, f'ALTER TABLE pgbill.{key[0]} DROP CONSTRAINT "{name}"')


# Claims


def test_a_claimed_message_is_passed_by(relay: Relay, account: Account) -> None:
    assert len(relay.claim(account)) == 1

    assert Relay(relay.conn, "other").claim(account) == []
    assert outbox.due_buckets(relay.conn, post.ANY) == []
    assert post.state(relay.conn, account).state == "claimed"


def test_two_relays_that_claim_at_once_share(dsn: str) -> None:
    """Neither waits for the other, and none gets what the other has."""
    with (
        contextlib.closing(actors.connect(dsn, roles.OWNER)) as one,
        contextlib.closing(actors.connect(dsn, roles.WORKER)) as two,
    ):
        recipients = {"invoice": [f"ap{n}@example.com" for n in range(6)]}
        (account,) = post.issue(one, recipients=recipients)

        with one.transaction():
            first = Relay(one, "one").claim(account, limit=4)
            second = Relay(two, "two").claim(account, limit=4)

        assert (len(first), len(second)) == (4, 2)
        assert not {*first} & {*second}


def test_a_claim_that_is_over_is_taken_over(relay: Relay, account: Account) -> None:
    """The sleeper wakes up before it has sent anything, and sends nothing."""
    (message,) = relay.claim(account, ttl_seconds=post.OVER)
    successor = Relay(relay.conn, "successor")
    assert successor.claim(account) == [message]

    assert relay.begin(message) is None
    assert successor.begin(message) == 1


def test_a_relay_renews_and_releases_its_own(relay: Relay, account: Account) -> None:
    (message,) = relay.claim(account, ttl_seconds=post.OVER)
    other = Relay(relay.conn, "other")

    outbox.renew(relay.conn, [message], holder="relay", ttl_seconds=post.HOUR)
    assert other.claim(account) == []
    outbox.release(relay.conn, [message], holder="other")
    assert other.claim(account) == []
    outbox.release(relay.conn, [message], holder="relay")

    assert other.claim(account) == [message]


@pytest.mark.parametrize("mode", ["live", "test"])
def test_a_relay_takes_its_own_mode(conn: Connection[Any], mode: str) -> None:
    (account,) = post.issue(conn, mode=mode)
    relay = Relay(conn)
    other = {"live": "test", "test": "live"}[mode]

    passed_by = relay.claim(account, scope=Scope(("email",), other))
    buckets = outbox.due_buckets(conn, Scope(("email",), other))
    taken = relay.claim(account, scope=Scope(("email",), mode))

    assert (passed_by, buckets, len(taken)) == ([], [], 1)


@pytest.mark.parametrize("channel", ["email", "folder"])
def test_a_relay_takes_the_channels_that_it_can(
    conn: Connection[Any], channel: Channel
) -> None:
    (account,) = post.issue(conn, delivery_channel=channel)
    others: tuple[Channel, ...] = ("folder",) if channel == "email" else ("email",)

    assert outbox.due_buckets(conn, Scope(others, None)) == []
    assert Relay(conn).claim(account, scope=Scope(others, None)) == []
    assert len(Relay(conn).claim(account, scope=Scope((channel,), None))) == 1


# Attempts and outcomes


@pytest.mark.parametrize("kind", ["accepted", "failed"])
def test_a_final_outcome_closes_the_message(
    relay: Relay, account: Account, kind: Kind
) -> None:
    relay.deliver(account, kind)

    assert post.state(relay.conn, account).state == kind
    assert relay.claim(account) == []
    assert findings(relay.conn) == {}


def test_a_deferred_message_comes_again(relay: Relay, account: Account) -> None:
    relay.deliver(account, "deferred")
    assert relay.claim(account) == []

    relay.deliver(account, "accepted")

    state = post.state(relay.conn, account)
    assert (state.state, state.attempt_count) == ("accepted", 2)
    assert findings(relay.conn) == {}


def test_delays_grow_up_to_six_hours_and_forty_attempts(
    relay: Relay, account: Account
) -> None:
    minutes: list[float] = []
    for _ in range(39):
        relay.deliver(account, "deferred")
        due_at = post.state(relay.conn, account).due_at
        assert due_at is not None
        minutes.append((due_at - datetime.now(UTC)).total_seconds() / 60)
    post.make_due(relay.conn, account)
    (message,) = relay.claim(account)
    assert relay.begin(message) == 40
    assert relay.record(message, 40, "deferred", "451 busy") == "failed"

    state = post.state(relay.conn, account)
    assert state.state == "failed"
    assert state.reply_text == "given up after 40 attempts; 451 busy"
    for index, minute in enumerate(minutes):
        expected = min(2**index, 360)
        assert expected * 0.79 < minute < expected * 1.21
    assert findings(relay.conn) == {}


def test_the_first_outcome_counts(relay: Relay, account: Account) -> None:
    message = relay.deliver(account, "accepted")

    assert relay.record(message, 1, "failed") is None
    assert post.state(relay.conn, account).state == "accepted"


@pytest.mark.parametrize("reply", ["", "no\x00pe", "\udcff\udcfe", "x" * 100_000, "🚀"])
def test_an_outcome_is_recorded_whatever_the_server_said(
    relay: Relay, account: Account, reply: str
) -> None:
    (message,) = relay.claim(account)
    assert relay.begin(message) == 1

    assert relay.record(message, 1, "accepted", reply) == "accepted"


# Uncertainty


def test_an_uncertain_message_is_not_sent_again(relay: Relay, account: Account) -> None:
    """Whoever finds it first raises one alert; nobody else does."""
    relay.leave_uncertain(account)
    assert post.state(relay.conn, account).state == "uncertain"
    assert outbox.due_buckets(relay.conn, post.ANY) == [account.bucket]

    found = [Relay(relay.conn, "successor").claim(account) for _ in range(3)]

    assert found == [[], [], []]
    assert post.alerts(relay.conn) == 1
    assert outbox.due_buckets(relay.conn, post.ANY) == []
    state = post.state(relay.conn, account)
    assert (state.state, state.due_at) == ("uncertain", None)
    assert findings(relay.conn) == {}


def test_while_the_relay_may_still_be_sending_nobody_is_alarmed(
    relay: Relay, account: Account
) -> None:
    (message,) = relay.claim(account)
    relay.begin(message)

    Relay(relay.conn, "other").claim(account)

    assert post.alerts(relay.conn) == 0
    assert post.state(relay.conn, account).state == "claimed"


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("kind", ["accepted", "failed", "deferred"])
def test_a_relay_that_wakes_late_still_records_its_reply(
    relay: Relay, account: Account, kind: Kind, *, noticed: bool
) -> None:
    message = relay.leave_uncertain(account)
    if noticed:
        Relay(relay.conn, "successor").claim(account)

    assert relay.record(message, 1, kind, "250 late") == kind

    assert post.state(relay.conn, account).state == kind
    if kind == "deferred":
        relay.deliver(account, "accepted")
    assert findings(relay.conn) == {}


def test_an_attempt_is_begun_once(relay: Relay, account: Account) -> None:
    (message,) = relay.claim(account)
    assert relay.begin(message) == 1

    with relay.conn.transaction(force_rollback=True):
        assert relay.begin(message) is None


def insert_attempt(conn: Connection[Any], account: Account, attempt_no: int) -> None:
    run_sql(
        conn,
        "INSERT INTO pgbill.delivery_attempt"
        " (bucket, account_id, message_id, attempt_no, holder, sent_to)"
        " SELECT bucket, account_id, message_id, %s, 'by hand', address"
        " FROM pgbill.outbox_message WHERE account_id = %s",
        attempt_no,
        account.account_id,
    )


def test_whatever_code_writes_an_attempt_exists_once(
    relay: Relay, account: Account
) -> None:
    relay.leave_uncertain(account)

    with pytest.raises(errors.UniqueViolation):
        insert_attempt(relay.conn, account, 1)


@pytest.mark.parametrize("kind", [None, "accepted", "failed"])
def test_whatever_code_writes_an_attempt_needs_that_the_last_was_deferred(
    relay: Relay, account: Account, kind: Kind | None
) -> None:
    message = relay.leave_uncertain(account)
    if kind is not None:
        relay.record(message, 1, kind)

    with pytest.raises(errors.ForeignKeyViolation):
        insert_attempt(relay.conn, account, 2)


def test_no_attempt_is_left_out(relay: Relay, account: Account) -> None:
    relay.deliver(account, "deferred")

    with pytest.raises(errors.ForeignKeyViolation):
        insert_attempt(relay.conn, account, 3)


def test_without_the_chain_an_uncertain_message_is_sent_again(
    relay: Relay, account: Account
) -> None:
    """The mutant: looking before claiming is courtesy, the foreign key is the guard."""
    drop_key(relay.conn, CHAIN)
    (message,) = relay.claim(account)

    assert [relay.begin(message), relay.begin(message)] == [1, 2]
    assert findings(relay.conn).keys() >= {"p7_attempt_after_unknown_outcome"}


def test_two_relays_never_begin_the_same_attempt(dsn: str) -> None:
    """Even if both believe that they hold the message."""
    with (
        contextlib.closing(actors.connect(dsn, roles.OWNER)) as one,
        contextlib.closing(actors.connect(dsn, roles.OWNER)) as two,
        contextlib.closing(actors.connect(dsn)) as observer,
        actors.Threads() as threads,
    ):
        (account,) = post.issue(one)
        (message,) = Relay(one).claim(account)

        with one.transaction():
            first = Relay(one).begin(message)
            second = threads.start(Relay(two).begin, message)
            actors.wait_until_blocked(observer, two)

        assert first == 1
        assert actors.wait_for(second) is None


def test_an_outcome_that_comes_while_a_claim_looks_raises_no_alert(dsn: str) -> None:
    with (
        contextlib.closing(actors.connect(dsn, roles.OWNER)) as one,
        contextlib.closing(actors.connect(dsn, roles.WORKER)) as two,
    ):
        (account,) = post.issue(one)
        message = Relay(one).leave_uncertain(account)

        with one.transaction():
            Relay(one).record(message, 1, "accepted")
            assert Relay(two).claim(account) == []

        assert post.alerts(one) == 0
        assert post.state(one, account).state == "accepted"


# Retries


def retry(relay: Relay, account: Account, address: str | None = None) -> int | None:
    return outbox.retry(
        relay.conn,
        post.states(relay.conn, account)[-1],
        address=address,
        reason="mistyped",
        retried_by="clerk@office",
    )


def test_a_failed_message_is_retried_as_another(relay: Relay, account: Account) -> None:
    failed = relay.deliver(account, "failed")

    new_id = retry(relay, account, "right@example.com")

    new, old = post.states(relay.conn, account)
    assert (new.message_id, new.retry_of) == (new_id, failed.message_id)
    assert (new.state, new.address) == ("pending", "right@example.com")
    assert (new.retry_reason, new.retried_by) == ("mistyped", "clerk@office")
    assert (old.state, old.retried_as) == ("failed", new_id)
    relay.deliver(account, "accepted")
    assert findings(relay.conn) == {}


def test_a_retry_may_go_to_the_same_address_and_fail_again(
    relay: Relay, account: Account
) -> None:
    relay.deliver(account, "failed")
    assert retry(relay, account) is not None
    relay.deliver(account, "failed")

    again = outbox.retry(
        relay.conn,
        post.state(relay.conn, account),
        address=None,
        reason="mended",
        retried_by="clerk@office",
    )

    assert again is not None
    assert len(post.states(relay.conn, account)) == 3
    assert findings(relay.conn) == {}


def test_a_message_is_retried_once(relay: Relay, account: Account) -> None:
    relay.deliver(account, "failed")

    assert retry(relay, account) is not None
    assert retry(relay, account, "other@example.com") is None


@pytest.mark.parametrize("kind", [None, "accepted", "deferred"])
def test_only_what_has_failed_is_retried(
    relay: Relay, account: Account, kind: Kind | None
) -> None:
    message = relay.leave_uncertain(account)
    if kind is not None:
        relay.record(message, 1, kind)

    assert retry(relay, account) is None


def insert_retry(conn: Connection[Any], account: Account) -> None:
    run_sql(
        conn,
        "INSERT INTO pgbill.outbox_message (bucket, account_id, invoice_id, channel,"
        " address, retry_of, retry_of_attempt_no, retry_reason, retried_by)"
        " SELECT bucket, account_id, invoice_id, channel, address, message_id, 1,"
        " 'impatience', 'by hand' FROM pgbill.outbox_message WHERE account_id = %s",
        account.account_id,
    )


def test_whatever_code_writes_what_may_have_been_taken_is_not_repeated(
    relay: Relay, account: Account
) -> None:
    relay.leave_uncertain(account)

    with pytest.raises(errors.ForeignKeyViolation):
        insert_retry(relay.conn, account)


def test_without_the_key_an_uncertain_message_is_repeated(
    relay: Relay, account: Account
) -> None:
    """The mutant."""
    drop_key(relay.conn, RETRY)
    relay.leave_uncertain(account)

    insert_retry(relay.conn, account)

    assert len(Relay(relay.conn, "successor").claim(account)) == 1


def test_without_the_key_of_attempts_two_relays_begin_the_same(
    relay: Relay, account: Account
) -> None:
    """The mutant: attempt 1 twice, each sure to be the first."""
    run_sql(
        relay.conn,
        "ALTER TABLE pgbill.delivery_attempt"
        " DROP CONSTRAINT delivery_attempt_pkey CASCADE",
    )

    insert_attempt(relay.conn, account, 1)
    insert_attempt(relay.conn, account, 1)

    assert value(relay.conn, "SELECT count(*) FROM pgbill.delivery_attempt") == 2


# The view


def test_each_state_has_its_name(conn: Connection[Any]) -> None:
    accounts = dict(zip(STATES, post.issue(conn, len(STATES)), strict=True))
    relay = Relay(conn)
    conn.execute(
        "UPDATE pgbill.outbox_message SET held_at = created_at, due_at = 'infinity'"
        " WHERE account_id = %s",
        [accounts["held"].account_id],
    )
    relay.deliver(accounts["deferred"], "deferred")
    relay.deliver(accounts["accepted"], "deferred", "accepted")
    relay.deliver(accounts["failed"], "failed")
    relay.leave_uncertain(accounts["uncertain"])
    relay.claim(accounts["claimed"])

    found = {state: outbox.states(conn, state=state, limit=10) for state in STATES}

    assert {
        state: [each.account_id for each in messages]
        for state, messages in found.items()
    } == {state: [account.account_id] for state, account in accounts.items()}
