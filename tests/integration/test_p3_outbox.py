"""P3: no e-mail without a committed invoice, no invoice without its message."""

import contextlib
from typing import Any

import pytest
from psycopg import Connection, errors

from pgbill import outbox, roles
from tests import actors, post
from tests.shop import findings, run_sql, value


def test_an_invoice_comes_with_a_message_for_each_recipient(
    conn: Connection[Any],
) -> None:
    recipients = {"invoice": ["ap@example.com", "cfo@example.com"], "other": ["x@y.z"]}

    (account,) = post.issue(conn, recipients=recipients)

    messages = post.states(conn, account)
    assert {each.address for each in messages} == set(recipients["invoice"])
    assert {each.state for each in messages} == {"pending"}
    assert {each.number_text for each in messages} == {"NL-000001"}
    assert findings(conn) == {}


def test_an_address_that_is_listed_twice_gets_one_message(
    conn: Connection[Any],
) -> None:
    recipients = {"invoice": ["ap@example.com", "ap@example.com"]}

    (account,) = post.issue(conn, recipients=recipients)

    assert len(post.states(conn, account)) == 1
    assert findings(conn) == {}


def test_no_relay_sees_the_message_before_the_invoice_has_committed(dsn: str) -> None:
    with (
        contextlib.closing(actors.connect(dsn, roles.OWNER)) as issuing,
        contextlib.closing(actors.connect(dsn, roles.WORKER)) as relay,
    ):
        with issuing.transaction():
            (account,) = post.issue(issuing)
            before = outbox.due_buckets(relay, post.ANY)

        assert before == []
        assert outbox.due_buckets(relay, post.ANY) == [account.bucket]


def test_a_message_goes_when_its_invoice_is_rolled_back(conn: Connection[Any]) -> None:
    with conn.transaction(force_rollback=True):
        post.issue(conn)

    assert outbox.states(conn, limit=10) == []


def test_there_is_no_message_without_an_invoice(conn: Connection[Any]) -> None:
    (account,) = post.issue(conn)

    with pytest.raises(errors.ForeignKeyViolation):
        run_sql(
            conn,
            "INSERT INTO pgbill.outbox_message"
            " (bucket, account_id, invoice_id, channel, address)"
            " VALUES (%s, %s, 0, 'email', 'x@example.com')",
            account.bucket,
            account.account_id,
        )


def test_there_is_no_second_message_for_an_address(conn: Connection[Any]) -> None:
    (account,) = post.issue(conn)

    with pytest.raises(errors.UniqueViolation):
        run_sql(
            conn,
            "INSERT INTO pgbill.outbox_message"
            " (bucket, account_id, invoice_id, channel, address)"
            " SELECT bucket, account_id, invoice_id, channel, address"
            " FROM pgbill.outbox_message WHERE account_id = %s",
            account.account_id,
        )


@pytest.mark.parametrize("statement", ["DELETE FROM", "TRUNCATE"])
def test_a_message_stays(conn: Connection[Any], statement: str) -> None:
    post.issue(conn)

    with pytest.raises(errors.Error, match=r"insert-only|cannot truncate"):
        run_sql(conn, f"{statement} pgbill.outbox_message")


def test_without_the_trigger_an_invoice_has_no_message(conn: Connection[Any]) -> None:
    """The mutant: the mechanism is needed, and the audit sees that it is gone."""
    run_sql(conn, "DROP TRIGGER _30_write_message ON pgbill.invoice")

    (account,) = post.issue(conn)

    assert post.states(conn, account) == []
    assert findings(conn) == {
        "p3_invoice_without_message": 1,
        "p3_message_trigger_missing": 1,
    }


def test_a_worker_cannot_write_a_message_by_hand(conn: Connection[Any]) -> None:
    (account,) = post.issue(conn)
    run_sql(conn, "SET LOCAL ROLE pgbill_worker")

    assert value(conn, "SELECT count(*) FROM pgbill.outbox_message") == 1
    with pytest.raises(errors.InsufficientPrivilege):
        run_sql(
            conn,
            "UPDATE pgbill.outbox_message SET closed_at = now() WHERE account_id = %s",
            account.account_id,
        )
