"""Look at runs, and give accounts that they could not invoice another chance.

A sealed run keeps what it has done: counts, totals, who asked for what, when, and with
which version and settings. An open one is counted when it is asked for. What a person
does to an account is recorded with the name and the reason: the lease knows it until it
is claimed again, and its events for ever.
"""

import contextlib
import shlex
from collections.abc import Generator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg import Connection

from pgbill import db, roles, schema
from pgbill.errors import UsageError
from pgbill.summary import Failure

_QUERIES = db.Queries("runs")
_LISTED_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class Run:
    """A run, with what it has done up to its end, or up to now."""

    run_id: int
    through_on: date | None
    """None: by yesterday in each account's zone."""
    issue_on: date | None
    """None: today in the seller's zone."""
    mode: str
    account_key: str | None
    hold_mail: bool
    mail_released_at: datetime | None
    mail_released_by: str | None
    started_at: datetime
    started_by: str
    pgbill_version: str
    settings: dict[str, Any]
    sealed_at: datetime | None
    ending: str | None
    """None: it is open."""
    summary: dict[str, Any]

    @property
    def command(self) -> str:
        """The command that asks for the same."""
        words = ["pgbill", "run"]
        for option, given in (
            ("--through", self.through_on),
            ("--issue-on", self.issue_on),
            ("--account", self.account_key),
        ):
            words += [option, shlex.quote(str(given))] if given is not None else []
        return " ".join([*words, *(["--hold-mail"] if self.hold_mail else [])])


@dataclass(frozen=True, slots=True)
class Retried:
    """An account that is due again, and what it was: failed or parked."""

    account_key: str
    was: str


@dataclass(frozen=True, slots=True)
class Parked:
    """An account of a run that is parked, and who has done it."""

    account_key: str
    run_id: int | None
    acted_by: str | None
    """None: the run has."""
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Account:
    bucket: int
    account_id: int


@dataclass(frozen=True, slots=True)
class _Done:
    is_done: bool


@contextlib.contextmanager
def connected(dsn: str) -> Generator[Connection[Any]]:
    """Open a connection for this module, to a schema of this version."""
    with contextlib.closing(
        db.connect(dsn, role=roles.WORKER, application="runs")
    ) as conn:
        schema.require_current(conn)
        yield conn


def find(conn: Connection[Any], *, limit: int) -> list[Run]:
    """Return the newest runs, the newest first."""
    return db.fetch_all(conn, _QUERIES["runs"], Run, run_id=None, limit=limit)


def get(conn: Connection[Any], run_id: int) -> Run:
    """Return a run.

    Raises:
        UsageError: There is no such run.
    """
    found = db.fetch_one(conn, _QUERIES["runs"], Run, run_id=run_id, limit=1)
    if found is None:
        raise UsageError(f"there is no run {run_id}.", hint="See pgbill runs list.")
    return found


def failures(conn: Connection[Any], run_id: int) -> list[Failure]:
    """Return accounts that failed or were parked in a run, up to a thousand."""
    return db.fetch_all(
        conn, _QUERIES["failures"], Failure, run_id=run_id, limit=_LISTED_FAILURES
    )


def retry(
    conn: Connection[Any], run_id: int, *, reason: str, by: str, dry_run: bool = False
) -> list[Retried]:
    """Make the accounts that failed or were parked in a run due again.

    Also those that a later run has given up, but not what a person has parked. What is
    due today for those that were parked is approved, however many periods.
    """
    with conn.transaction(force_rollback=dry_run):
        return db.fetch_all(
            conn, _QUERIES["retry_run"], Retried, run_id=run_id, reason=reason, by=by
        )


def still_parked(conn: Connection[Any], run_id: int) -> list[Parked]:
    """Return what failed in a run and is parked now, up to a thousand."""
    return db.fetch_all(
        conn, _QUERIES["still_parked"], Parked, run_id=run_id, limit=_LISTED_FAILURES
    )


def retry_parked(
    conn: Connection[Any],
    *,
    account_key: str | None,
    reason: str,
    by: str,
    dry_run: bool = False,
) -> list[Retried]:
    """Unpark accounts, all or one; what is due for them today is approved.

    Raises:
        UsageError: The account is unknown.
    """
    if account_key is not None:
        _find_account(conn, account_key)
    with conn.transaction(force_rollback=dry_run):
        return db.fetch_all(
            conn,
            _QUERIES["unpark"],
            Retried,
            account_key=account_key,
            reason=reason,
            by=by,
        )


def park(conn: Connection[Any], account_key: str, *, reason: str, by: str) -> bool:
    """Park an account; whoever works on it at this moment loses the lease.

    Returns:
        False if it is parked already: nothing has changed.

    Raises:
        UsageError: The account is unknown.
    """
    account = _find_account(conn, account_key)
    done = db.fetch_one(
        conn,
        _QUERIES["park"],
        _Done,
        bucket=account.bucket,
        account_id=account.account_id,
        reason=reason,
        by=by,
    )
    return done is not None and done.is_done


def _find_account(conn: Connection[Any], key: str) -> _Account:
    found = db.fetch_one(conn, _QUERIES["find_account"], _Account, key=key)
    if found is None:
        raise UsageError(
            f"there is no account {key}.", hint="Check the key against your import."
        )
    return found
