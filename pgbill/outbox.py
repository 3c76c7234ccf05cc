"""Claim messages, begin attempts, record outcomes.

Mail cannot be fenced: no mail server checks a token. What is left is to send nothing
while something is unknown. Before a message goes out its attempt is committed; the next
attempt needs the outcome "deferred" of this one, by a foreign key. So a message whose
relay died in between is uncertain: it stays where it is until an outcome is recorded,
late by the relay or by a person. Claims only keep relays out of each other's way.

Every function that writes is one statement and needs a connection in autocommit mode.
"""

import getpass
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from psycopg import Connection, errors

from pgbill import db
from pgbill.errors import TemporaryError, UsageError

_QUERIES = db.Queries("outbox")

Channel = Literal["email", "folder"]
Kind = Literal["accepted", "deferred", "failed"]
State = Literal[
    "held", "pending", "claimed", "deferred", "accepted", "failed", "uncertain"
]

_OPEN: frozenset[State] = frozenset(
    {"held", "pending", "claimed", "deferred", "uncertain"}
)
_REPLY_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is claimed: the intent to deliver one document to one address."""

    bucket: int
    account_id: int
    message_id: int
    invoice_id: int
    channel: Channel
    address: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt, and what the other side answered."""

    kind: Kind
    reply_text: str
    reply_code: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Which messages a relay takes; without a mode, those of all invoices."""

    channels: tuple[Channel, ...]
    mode: str | None


@dataclass(frozen=True, slots=True)
class MessageState:
    """How a message stands, for people."""

    bucket: int
    account_id: int
    account_key: str
    message_id: int
    number_text: str | None
    mode: str
    channel: Channel
    address: str
    state: State
    attempt_count: int
    last_attempt_at: datetime | None
    reply_code: int | None
    reply_text: str | None
    due_at: datetime | None
    retry_of: int | None
    retry_reason: str | None
    retried_by: str | None
    retried_as: int | None
    held_at: datetime | None
    """Since when its run held it; none: it was never held."""
    released_at: datetime | None
    released_by: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt with its outcome; without one, all that belongs to it is none."""

    attempt_no: int
    begun_at: datetime
    holder: str
    sent_to: str
    outcome: Kind | None
    reply_code: int | None
    reply_text: str | None
    recorded_by: str | None
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Bucket:
    bucket: int


@dataclass(frozen=True, slots=True)
class _Begun:
    attempt_no: int | None


@dataclass(frozen=True, slots=True)
class _Recorded:
    outcome: Kind | None


@dataclass(frozen=True, slots=True)
class _Held:
    holds_mail: bool
    is_sealed: bool
    message_count: int


@dataclass(frozen=True, slots=True)
class _Released:
    message_count: int


@dataclass(frozen=True, slots=True)
class _Retried:
    message_id: int | None


def new_holder() -> str:
    """Name this process, for people, so that no other process has the same name."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def person() -> str:
    """Name whoever runs this command."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def due_buckets(conn: Connection[Any], scope: Scope) -> list[int]:
    """Tell in which buckets messages are due that nobody has claimed."""
    found = db.fetch_all(
        conn,
        _QUERIES["due_buckets"],
        _Bucket,
        channels=list(scope.channels),
        mode=scope.mode,
    )
    return [each.bucket for each in found]


def claim(
    conn: Connection[Any],
    *,
    bucket: int,
    scope: Scope,
    holder: str,
    ttl_seconds: float,
    limit: int,
) -> list[Message]:
    """Claim up to `limit` messages of a bucket, the oldest first.

    Messages that are found uncertain are left alone; each raises one alert.

    Returns:
        The messages. Empty does not mean that the bucket has nothing more to claim:
        all that were found may have been uncertain.
    """
    return db.fetch_all(
        conn,
        _QUERIES["claim"],
        Message,
        bucket=bucket,
        channels=list(scope.channels),
        mode=scope.mode,
        holder=holder,
        ttl_seconds=ttl_seconds,
        limit=limit,
    )


def renew(
    conn: Connection[Any],
    messages: Sequence[Message],
    *,
    holder: str,
    ttl_seconds: float,
) -> None:
    """Extend the claims that are still ours."""
    db.execute(
        conn,
        _QUERIES["renew"],
        **_keys(messages),
        holder=holder,
        ttl_seconds=ttl_seconds,
    )


def release(conn: Connection[Any], messages: Sequence[Message], *, holder: str) -> None:
    """Let go of messages; one with an attempt without outcome is uncertain now."""
    db.execute(conn, _QUERIES["release"], **_keys(messages), holder=holder)


def _keys(messages: Sequence[Message]) -> dict[str, list[int]]:
    return {
        "buckets": [each.bucket for each in messages],
        "account_ids": [each.account_id for each in messages],
        "message_ids": [each.message_id for each in messages],
    }


def begin_attempt(
    conn: Connection[Any], message: Message, *, holder: str, sent_to: str
) -> int | None:
    """Commit that the message is about to be sent to `sent_to`.

    Returns:
        The number of the attempt. None: do not send. The claim is another's by now, or
        it is not known whether an earlier attempt was taken.
    """
    try:
        begun = db.fetch_one(
            conn,
            _QUERIES["begin_attempt"],
            _Begun,
            bucket=message.bucket,
            account_id=message.account_id,
            message_id=message.message_id,
            holder=holder,
            sent_to=sent_to,
        )
    except (errors.ForeignKeyViolation, errors.UniqueViolation):
        return None
    return begun and begun.attempt_no


def record_outcome(
    conn: Connection[Any],
    message: Message | MessageState,
    outcome: Outcome,
    *,
    attempt_no: int,
    recorded_by: str,
) -> Kind | None:
    """Record what became of an attempt, at any time; the first outcome counts.

    Returns:
        What was recorded: a message that was deferred too often has failed. None if
        an earlier outcome counts.
    """
    recorded = db.fetch_one(
        conn,
        _QUERIES["record_outcome"],
        _Recorded,
        bucket=message.bucket,
        account_id=message.account_id,
        message_id=message.message_id,
        attempt_no=attempt_no,
        outcome=outcome.kind,
        reply_code=outcome.reply_code,
        reply_text=_storable(outcome.reply_text),
        recorded_by=recorded_by,
    )
    return recorded and recorded.outcome


def _storable(text: str) -> str:
    """Make a text of what a server said, whatever it said: the outcome matters more."""
    cleaned = text.encode("utf-8", "replace").decode().replace("\x00", "?")
    return cleaned[:_REPLY_LIMIT]


def retry(
    conn: Connection[Any],
    message: MessageState,
    *,
    address: str | None,
    reason: str,
    retried_by: str,
) -> int | None:
    """Write a new message in place of one that has failed.

    Returns:
        Its id. None if the message has not failed, or was retried already.
    """
    retried = db.fetch_one(
        conn,
        _QUERIES["retry"],
        _Retried,
        bucket=message.bucket,
        account_id=message.account_id,
        message_id=message.message_id,
        address=address,
        reason=reason,
        retried_by=retried_by,
    )
    return retried and retried.message_id


def release_held(
    conn: Connection[Any], run_id: int, *, by: str, dry_run: bool = False
) -> int:
    """Let the relays have what a run has held; return how many messages.

    The second time nothing is left to release.

    Raises:
        UsageError: There is no such run, or it does not hold its mail.
        TemporaryError: It has not ended.
    """
    held = db.fetch_one(conn, _QUERIES["held_of_run"], _Held, run_id=run_id)
    if held is None:
        raise UsageError(f"there is no run {run_id}.", hint="See pgbill runs list.")
    if not held.holds_mail:
        raise UsageError(
            f"run {run_id} does not hold its mail: none is to be released."
        )
    if not held.is_sealed:
        raise TemporaryError(
            f"run {run_id} has not ended.", hint="Release its mail when it has."
        )
    if dry_run:
        return held.message_count
    released = db.fetch_one(
        conn, _QUERIES["release_held"], _Released, run_id=run_id, released_by=by
    )
    return released.message_count if released else 0


def states(
    conn: Connection[Any],
    *,
    state: State | None = None,
    message_id: int | None = None,
    limit: int,
) -> list[MessageState]:
    """Return messages and how they stand, the newest first."""
    return db.fetch_all(
        conn,
        _QUERIES["states"],
        MessageState,
        state=state,
        only_open=state in _OPEN,
        message_id=message_id,
        limit=limit,
    )


def attempts(conn: Connection[Any], message: Message | MessageState) -> list[Attempt]:
    """Return the attempts of a message, in order."""
    return db.fetch_all(
        conn,
        _QUERIES["attempts"],
        Attempt,
        bucket=message.bucket,
        account_id=message.account_id,
        message_id=message.message_id,
    )
