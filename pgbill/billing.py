"""Run the billing: open a run or join one, start workers, and seal it when all is done.

The run is a row, so two commands that ask for the same join, and a command that was
killed continues where it was. It ends when nothing is due except what is parked, is
held for review or has failed in it for good; leases of dead workers are waited for, and
so are failures that may pass. Workers that die are replaced, a bounded number of times;
an account that kills its workers is parked by the cap on its attempts, not by the end
of the run.
"""

import contextlib
import json
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import __version__, db, drafts, login, roles, schema, taxprovider
from pgbill.alert import Watch
from pgbill.config import Settings
from pgbill.errors import ConfigError, PgbillError, TemporaryError, UsageError
from pgbill.job import GivenUp, Job
from pgbill.lease import Scope
from pgbill.request import (
    Request,
    check_issue_date,
    find_account,
    kept_settings,
    policy,
    terms,
)
from pgbill.summary import Failure, Summary, Total
from pgbill.supervision import OnProgress, Supervision
from pgbill.tax import TaxService

_QUERIES = db.Queries("billing")
_LISTED_FAILURES = 20
_BUCKETS = 256


OnAlert = Callable[[str], None]
"""What to do with the sentence about each alert that the run finds, or about a tax
service that fails."""


@dataclass(frozen=True, slots=True)
class _Run:
    run_id: int
    is_joined: bool
    holds_mail: bool


@dataclass(frozen=True, slots=True)
class _Open:
    is_open: bool


@dataclass(frozen=True, slots=True)
class Due:
    """Accounts that are due, or would be if a person let them."""

    due_count: int
    held_count: int
    parked_count: int
    draft_count: int


@dataclass(frozen=True, slots=True)
class _Text:
    summary: str


@dataclass(frozen=True, slots=True)
class _Statistics:
    are_empty: bool


def run(
    dsn: str,
    settings: Settings,
    request: Request,
    *,
    on_progress: OnProgress,
    on_alert: OnAlert,
) -> Summary:
    """Invoice all that is due.

    SIGTERM and SIGINT drain: what is being committed is finished, the rest given back.
    A second signal ends the workers at once.

    Raises:
        SchemaError: The schema is not that of this version.
        UsageError: The account is unknown, the issue date is too early, or mail is to
            be held and the run that is joined does not.
        TemporaryError: The database or the tax service went away, or all workers died
            again and again.
        ConfigError: The tax provider cannot be
    """
    started = time.monotonic()
    service = taxprovider.chosen(settings)
    with _connected(dsn) as conn:
        schema.require_current(conn)
        account = find_account(conn, request.account_key)
        check_issue_date(conn, settings, request, account)
        drafts.check_limits(conn, settings.review_above)
        due = count_due(conn, Scope(0, request.through_on, account))
        if due.due_count == 0 and not _is_open(conn, settings, request):
            return Summary(
                None,
                is_finished=True,
                parked_before=due.parked_count,
                in_review=due.draft_count,
            )
        opened = _open(conn, settings, request)
        scope = Scope(opened.run_id, request.through_on, account)
        watch = Watch(lambda: _connect(dsn), opened.run_id, on_alert)
        watch.begin(conn)
    # No connection is open now: a forked worker would share it.
    jobs = _jobs(dsn, settings, request, scope, service)
    supervision = Supervision(
        jobs,
        due.due_count,
        on_progress=on_progress,
        on_notice=on_alert,
        watch=watch,
        analyze=lambda: _analyze(dsn),
    )
    supervision.supervise()
    with _connected(dsn) as conn:
        watch.finish_with(conn)
        summary = _conclude(conn, opened, scope, due, started)
    # If the others have finished what was left by one that gave up, all is well.
    if supervision.given_up and not summary.is_finished:
        raise _error(supervision.given_up)
    return summary


@contextlib.contextmanager
def _connected(dsn: str) -> Generator[Connection[Any]]:
    with contextlib.closing(_connect(dsn)) as conn:
        yield conn


def _connect(dsn: str) -> Connection[Any]:
    return db.connect(dsn, role=roles.WORKER, application="run")


def _analyze(dsn: str) -> None:
    """Refresh the statistics of what a run writes, if they tell of empty tables."""
    with (
        # Nobody waits for them: it is no reason to end a run.
        contextlib.suppress(TemporaryError, psycopg.OperationalError),
        _connected(dsn) as conn,
    ):
        found = db.fetch_one(conn, _QUERIES["statistics_are_empty"], _Statistics)
        if found and found.are_empty:
            db.execute(conn, _QUERIES["analyze"])


def count_due(conn: Connection[Any], scope: Scope) -> Due:
    """Count what a run has before it."""
    counted = db.fetch_one(
        conn,
        _QUERIES["due_count"],
        Due,
        through_on=scope.through_on,
        run_id=scope.run_id,
        account_id=scope.account and scope.account[1],
    )
    return counted or Due(0, 0, 0, 0)


def _is_open(conn: Connection[Any], settings: Settings, request: Request) -> bool:
    """Tell whether such a run was killed between its last invoice and its end."""
    found = db.fetch_one(
        conn,
        _QUERIES["is_open"],
        _Open,
        through_on=request.through_on,
        issue_on=request.issue_on,
        mode=settings.mode,
        account_key=request.account_key,
    )
    return found is not None and found.is_open


def _open(conn: Connection[Any], settings: Settings, request: Request) -> _Run:
    opened = db.fetch_one(
        conn,
        _QUERIES["open_run"],
        _Run,
        through_on=request.through_on,
        issue_on=request.issue_on,
        mode=settings.mode,
        account_key=request.account_key,
        settings=kept_settings(settings, request),
        started_by=login.who(),
        version=__version__,
        hold_mail=request.hold_mail,
    )
    if opened is None:
        raise ConfigError("the run could not be opened.", hint="Run pgbill check.")
    if request.hold_mail and not opened.holds_mail:
        raise UsageError(
            f"run {opened.run_id}, which asks for the same, is open and does not hold"
            " its mail.",
            hint="Finish it without --hold-mail.",
        )
    return opened


def _error(given_up: GivenUp) -> PgbillError:
    """Turn the last word of a worker into the error that ends the run."""
    kind = (
        ConfigError if given_up.exit_code == ConfigError.exit_code else TemporaryError
    )
    return kind(given_up.message, hint=given_up.hint)


def _jobs(
    dsn: str,
    settings: Settings,
    request: Request,
    scope: Scope,
    service: TaxService | None,
) -> list[Job]:
    return [
        Job(
            dsn=dsn,
            scope=scope,
            policy=policy(settings, request),
            terms=terms(settings),
            batch_size=settings.batch_size,
            first_bucket=number * _BUCKETS // request.workers,
            tax=service,
        )
        for number in range(request.workers)
    ]


def _conclude(
    conn: Connection[Any], opened: _Run, scope: Scope, due: Due, started: float
) -> Summary:
    """Seal the run if nothing is left, and tell what it has done."""
    left = count_due(conn, scope)
    is_finished = left.due_count == 0
    query = _QUERIES["seal" if is_finished else "summary"]
    text = db.fetch_one(conn, query, _Text, run_id=scope.run_id)
    told: dict[str, Any] = json.loads(text.summary) if text else {}
    failures = db.fetch_all(
        conn, _QUERIES["failures"], Failure, run_id=scope.run_id, limit=_LISTED_FAILURES
    )
    totals = [
        Total(
            each["currency"],
            each["invoices"],
            Decimal(each["net"]),
            Decimal(each["tax"]),
            Decimal(each["gross"]),
        )
        for each in told.pop("totals", [])
    ]
    return Summary(
        **told,
        is_finished=is_finished,
        still_due=left.due_count,
        parked_before=due.parked_count,
        in_review=left.draft_count,
        holds_mail=opened.holds_mail,
        seconds=round(time.monotonic() - started, 3),
        totals=totals,
        failures=failures,
    )
