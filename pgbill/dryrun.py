"""Say what a run would come to, and how that differs from the period before.

Every bucket is rehearsed and rolled back, so the amounts are those that the run then
issues, as long as nothing is imported in between. With a tax service, what it has not
answered yet is asked under lease, and kept: the run that follows asks nobody again.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from psycopg import Connection

from pgbill import billing, db, drafts, roles, schema, taxprovider
from pgbill.config import Settings
from pgbill.errors import UsageError
from pgbill.forecast import Forecast, Report
from pgbill.inquiry import Inquiry
from pgbill.issuing import Asked
from pgbill.lease import Account, Scope
from pgbill.rehearsal import Plan, Rehearsal, Row
from pgbill.request import (
    Request,
    check_issue_date,
    find_account,
    kept_settings,
    policy,
    terms,
)
from pgbill.supervision import OnProgress, Progress

_RUN_ID = 0
"""Of the claims under which a tax service is asked; no run has it."""
_ASKED_AT_ONCE = 10_000


def dry_run(
    dsn: str,
    settings: Settings,
    request: Request,
    *,
    moved_percent: Decimal,
    on_progress: OnProgress,
    csv_file: Path | None = None,
) -> Forecast:
    """Rehearse the whole run; nothing of it is committed but answers about tax.

    Raises:
        UsageError: The account is unknown, the issue date is too early, or the file
            cannot be written.
        TaxAwayError: The tax service fails and has not recovered.
    """
    service = taxprovider.chosen(settings)

    def connect() -> Connection[Any]:
        return db.connect(dsn, role=roles.WORKER, application="dry run")

    with contextlib.closing(connect()) as conn, _opened(csv_file) as file:
        schema.require_current(conn)
        account = find_account(conn, request.account_key)
        check_issue_date(conn, settings, request, account)
        drafts.check_limits(conn, settings.review_above)
        scope = Scope(_RUN_ID, request.through_on, account)
        due = billing.count_due(conn, scope)
        report = Report(moved_percent, file)
        inquiry = None
        if service is not None:
            # One process asks as many at once as the workers of a run together.
            service = replace(service, in_flight=service.in_flight * request.workers)
            inquiry = Inquiry(connect, service, terms(settings), scope)
        plan = Plan(
            scope=scope,
            policy=policy(settings, request),
            settings=kept_settings(settings, request),
            batch_size=settings.batch_size,
            asks_service=service is not None,
        )
        total = due.due_count + due.parked_count + due.draft_count
        report.forecast.in_progress = due.held_count
        _rehearse(
            conn,
            plan,
            inquiry,
            lambda rows: _tell(report, rows, total, on_progress),
        )
    return report.finished()


def _tell(
    report: "Report", rows: Iterable[Row], total: int, on_progress: OnProgress
) -> None:
    report.add(rows)
    on_progress(Progress(report.account_count, total, 0))


def _rehearse(
    conn: Connection[Any],
    plan: Plan,
    inquiry: Inquiry | None,
    take: Callable[[list[Row]], None],
) -> None:
    """Rehearse bucket by bucket; ask what is not answered, and rehearse these again."""
    problems: dict[Account, str] = {}
    rehearsal = Rehearsal(conn, plan, problems)
    left = [each.bucket for each in _buckets(conn, plan.scope)][::-1]
    again: list[int] = []
    questions: list[Asked] = []
    while left:
        bucket = left.pop()
        done = rehearsal.bucket(bucket)
        if not done.unanswered:
            take(done.rows)
        else:
            again.append(bucket)
            questions += done.unanswered
        if questions and (not left or len(questions) >= _ASKED_AT_ONCE):
            assert inquiry is not None
            problems.update(inquiry.ask(questions))
            left += again
            again, questions = [], []


@dataclass(frozen=True, slots=True)
class _Bucket:
    bucket: int


def _buckets(conn: Connection[Any], scope: Scope) -> list[_Bucket]:
    """Return where accounts are due, also if they are parked or wait for a review."""
    return db.fetch_all(
        conn,
        db.Queries("rehearsal")["buckets"],
        _Bucket,
        through_on=scope.through_on,
        account_id=scope.account and scope.account[1],
    )


@contextlib.contextmanager
def _opened(path: Path | None) -> "Generator[IO[str] | None]":
    if path is None:
        yield None
        return
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}.") from error
    with file:
        yield file
