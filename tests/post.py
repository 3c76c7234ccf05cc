"""Invoices that wait to be delivered, and what a relay does with them, step by step."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from pgbill import outbox
from pgbill.outbox import Kind, Message, MessageState, Outcome, Scope
from tests import actors
from tests.builders import Account
from tests.shop import Shop, value

HOUR = 3600.0
OVER = 0.0
"""A time to live that is over when the claim returns."""

ANY = Scope(("email", "folder"), None)


def issue(conn: Connection[Any], count: int = 1, **columns: Any) -> list[Account]:  # noqa: ANN401
    """Issue an invoice for each of some new accounts of a new shop."""
    mode = columns.pop("mode", "live")
    shop = Shop.open(conn)
    accounts = [shop.account(conn, **columns) for _ in range(count)]
    policy = actors.Policy(mode, issue_on=None, max_due_periods=3, max_attempts=5)
    outcomes = actors.bill_all(conn, *accounts, policy=policy)
    assert outcomes == ["invoiced"] * count
    return accounts


def states(conn: Connection[Any], account: Account) -> list[MessageState]:
    """Return the messages of an account, the newest first."""
    found = outbox.states(conn, limit=1000)
    return [each for each in found if each.account_id == account.account_id]


def state(conn: Connection[Any], account: Account) -> MessageState:
    """Return the newest message of an account."""
    return states(conn, account)[0]


def make_due(conn: Connection[Any], account: Account) -> None:
    """Let deferred messages be due now; needs the rights of the owner."""
    conn.execute(
        "UPDATE pgbill.outbox_message SET due_at = clock_timestamp()"
        " WHERE bucket = %s AND account_id = %s AND due_at < 'infinity'",
        [account.bucket, account.account_id],
    )


def expire(conn: Connection[Any], account: Account) -> None:
    """Let claims be over now; needs the rights of the owner."""
    conn.execute(
        "UPDATE pgbill.outbox_message SET expires_at = clock_timestamp()"
        " WHERE bucket = %s AND account_id = %s AND holder IS NOT NULL",
        [account.bucket, account.account_id],
    )


def alerts(conn: Connection[Any]) -> int:
    """Count the alerts about uncertain messages."""
    count: int = value(
        conn, "SELECT count(*) FROM pgbill.alert WHERE kind = 'message_uncertain'"
    )
    return count


@dataclass(frozen=True, slots=True)
class Relay:
    """A relay, moved by a test."""

    conn: Connection[Any]
    holder: str = "relay"

    def claim(
        self,
        account: Account,
        *,
        ttl_seconds: float = HOUR,
        scope: Scope = ANY,
        limit: int = 100,
    ) -> list[Message]:
        """Claim messages of the account; let go of its neighbours in the bucket."""
        claimed = outbox.claim(
            self.conn,
            bucket=account.bucket,
            scope=scope,
            holder=self.holder,
            ttl_seconds=ttl_seconds,
            limit=limit,
        )
        of_others = [each for each in claimed if each.account_id != account.account_id]
        outbox.release(self.conn, of_others, holder=self.holder)
        return [each for each in claimed if each not in of_others]

    def begin(self, message: Message) -> int | None:
        """Begin an attempt."""
        return outbox.begin_attempt(
            self.conn, message, holder=self.holder, sent_to=message.address
        )

    def record(
        self, message: Message, attempt_no: int, kind: Kind, reply: str = "told"
    ) -> Kind | None:
        """Record an outcome."""
        return outbox.record_outcome(
            self.conn,
            message,
            Outcome(kind, reply),
            attempt_no=attempt_no,
            recorded_by=self.holder,
        )

    def deliver(self, account: Account, *kinds: Kind) -> Message:
        """Deliver the only message of an account, with these outcomes in turn."""
        message = None
        for kind in kinds:
            make_due(self.conn, account)
            (message,) = self.claim(account)
            number = self.begin(message)
            assert number is not None
            assert self.record(message, number, kind) == kind
        assert message is not None
        return message

    def leave_uncertain(self, account: Account) -> Message:
        """Begin an attempt and die."""
        (message,) = self.claim(account)
        assert self.begin(message) is not None
        expire(self.conn, account)
        return message
