"""Run the billing: open a run or join one, start workers, and seal it when all is done.

The run is a row, so two commands that ask for the same join, and a command that was
killed continues where it was. It ends when nothing is due except what is parked, is
held for review or has failed in it for good; leases of dead workers are waited for, and
so are failures that may pass. Workers that die are replaced, a bounded number of times;
an account that kills its workers is parked by the cap on its attempts, not by the end
of the run.
"""

import contextlib
import getpass
import json
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import Connection

from pgbill import __version__, closedmonth, db, drafts, roles, schema, taxprovider
from pgbill.alert import Watch
from pgbill.config import Settings
from pgbill.errors import ConfigError, PgbillError, TemporaryError, UsageError
from pgbill.issuing import Policy
from pgbill.job import GivenUp, Job
from pgbill.lease import Account, Patience, Scope
from pgbill.renewal import Terms
from pgbill.summary import Failure, Summary, Total
from pgbill.supervision import OnProgress, Supervision
from pgbill.tax import HTTP, TABLE, TaxService

_QUERIES = db.Queries("billing")
_LISTED_FAILURES = 20
_BUCKETS = 256

# A typing error in the year would move the date of a series for good.
_ISSUE_DAYS_AHEAD = 60


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a run."""

    through_on: date | None
    """Inclusive; none: by yesterday in each account's zone."""
    issue_on: date | None
    """None: today in the seller's zone."""
    workers: int
    account_key: str | None = None
    hold_mail: bool = False
    """Messages wait until a person releases them."""


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
class _Account:
    bucket: int
    account_id: int


@dataclass(frozen=True, slots=True)
class _Text:
    summary: str


@dataclass(frozen=True, slots=True)
class _IssueDate:
    issued_on: date | None
    seller_key: str | None
    allowed_until: date


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
        ConfigError: The tax provider cannot be asked.
    """
    started = time.monotonic()
    service = tax_service(settings)
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


def who() -> str:
    """Name the person or job that acts: login and host."""
    try:
        login = getpass.getuser()
    except (KeyError, OSError):
        login = "unknown"
    return f"{login}@{socket.gethostname()}"


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


def check_issue_date(
    conn: Connection[Any],
    settings: Settings,
    request: Request,
    account: Account | None,
) -> None:
    """Refuse a date far ahead, or before the last of a series that the run draws from.

    Those are the series of the account's seller, else of sellers with something due.

    Raises:
        UsageError: It is one.
    """
    if request.issue_on is None:
        return
    closedmonth.refuse(conn, request.issue_on, option="--issue-on")
    latest = db.fetch_one(
        conn,
        _QUERIES["latest_issue_date"],
        _IssueDate,
        mode=settings.mode,
        days_ahead=_ISSUE_DAYS_AHEAD,
        through_on=request.through_on,
        bucket=account and account[0],
        account_id=account and account[1],
    )
    if latest and request.issue_on > latest.allowed_until:
        raise UsageError(
            f"--issue-on {request.issue_on} is more than {_ISSUE_DAYS_AHEAD} days from"
            " now.",
            hint="The series could never be dated earlier again: check the year.",
        )
    if latest and latest.issued_on and latest.issued_on > request.issue_on:
        raise UsageError(
            f"--issue-on {request.issue_on} is before the last invoice of seller"
            f" {latest.seller_key}, which was issued on {latest.issued_on}.",
            hint="The dates of a series never go back: take that date or a later one.",
        )


def find_account(conn: Connection[Any], key: str | None) -> Account | None:
    """Return the key of the account that a run is for; none: it is for all.

    Raises:
        UsageError: There is no such account.
    """
    if key is None:
        return None
    found = db.fetch_one(conn, _QUERIES["find_account"], _Account, key=key)
    if found is None:
        raise UsageError(
            f"there is no account {key}.", hint="Check --account against your import."
        )
    return found.bucket, found.account_id


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


def kept_settings(settings: Settings, request: Request) -> str:
    """Return the settings that a run keeps, as JSON."""
    return json.dumps(
        {
            "workers": request.workers,
            "batch_size": settings.batch_size,
            "lease_ttl_seconds": settings.lease_ttl_seconds,
            "renew_every_seconds": settings.renew_every_seconds,
            "hard_limit_seconds": settings.hard_limit_seconds,
            "max_attempts": settings.max_attempts,
            "max_due_periods": settings.max_due_periods,
            "review": settings.review,
            "retry_after_seconds": settings.retry_after_seconds,
            "retry_wait_seconds": settings.retry_wait_seconds,
        }
    )


def terms(settings: Settings) -> Terms:
    """Return how long leases live."""
    return Terms(
        ttl=settings.lease_ttl_seconds,
        every=settings.renew_every_seconds,
        margin=settings.margin_seconds,
        hard_limit=settings.hard_limit_seconds,
    )


def policy(settings: Settings, request: Request) -> Policy:
    """Return what the settings and the request say of invoices."""
    return Policy(
        mode=settings.mode,
        issue_on=request.issue_on,
        max_due_periods=settings.max_due_periods,
        max_attempts=settings.max_attempts,
        patience=Patience(settings.retry_after_seconds, settings.retry_wait_seconds),
    )


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
        started_by=who(),
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


def asks_table(settings: Settings) -> bool:
    """Tell whether tax comes of the table of rates, and not from a service."""
    return _tax_provider(settings) == TABLE


def _tax_provider(settings: Settings) -> str:
    return settings.tax_provider or (HTTP if settings.tax_url else TABLE)


def tax_service(settings: Settings) -> TaxService | None:
    """Return the tax service of the settings; none: the table of rates.

    Raises:
        ConfigError: It cannot be asked: there is no such provider, or no such file.
    """
    name = _tax_provider(settings)
    if name == TABLE:
        return None
    service = TaxService(
        settings.tax_url,
        settings.bearer_token(),
        settings.tax_timeout_seconds,
        settings.tax_in_flight,
        provider=name,
        connect_seconds=settings.tax_connect_seconds,
        read_seconds=settings.tax_read_seconds,
        attempts=settings.tax_attempts,
        retry_seconds=settings.tax_retry_seconds,
        retry_at_most_seconds=settings.tax_retry_at_most_seconds,
        patience_seconds=settings.tax_patience_seconds,
        ca_file=settings.tax_ca_file,
    )
    taxprovider.require(service)
    return service


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
