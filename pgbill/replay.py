"""Replay the incident: the same schedule for a lock that expires, and for pgbill.

The same accounts, the same tax service, the same eight workers, the same expiry, both
on one server. For the largest accounts the service takes several times the expiry; one
worker sleeps past it and wakes up, another is killed. First the naive pipeline, really
run, in a schema of its own that is dropped afterwards; then `pgbill run`. What each has
done is counted in its own tables.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import psycopg
from psycopg import Connection

from pgbill import db, naive, steps, timeline
from pgbill.errors import LeaseLostError, PgbillError
from pgbill.incident import Outcome, Plan, Replay
from pgbill.mishap import Held, Mishaps
from pgbill.steps import Process, Steps
from pgbill.taxserver import TaxServer
from pgbill.timeline import Event, Timeline

TTL_SECONDS = 1.5
_WATCH_SECONDS = 0.05
_PATIENCE_SECONDS = 180
_BATCH_SIZE = 8

_QUERIES = db.Queries("replay")


class Mailbox(Protocol):
    """Where the mails of the naive pipeline go."""

    @property
    def host(self) -> str:
        """Where it listens."""
        ...

    @property
    def port(self) -> int:
        """On which port."""
        ...

    @property
    def received(self) -> Sequence[object]:
        """The mails that have come."""
        ...


@dataclass(frozen=True, slots=True)
class _Key:
    key: str


@dataclass(frozen=True, slots=True)
class _Count:
    how_many: int


@dataclass(frozen=True, slots=True)
class _Claim:
    bucket: int
    account_id: int
    fencing_token: int


@dataclass(frozen=True, slots=True)
class _Clock:
    now: datetime


def plan(
    dsn: str, *, through: str, workers: int, ttl_seconds: float = TTL_SECONDS
) -> Plan:
    """Take what is due; the tax service will be slow for the largest accounts."""
    with _connected(dsn) as conn:
        found = db.fetch_all(conn, _QUERIES["due"], _Key, through_on=through)
    due = [each.key for each in found]
    return Plan.of(due, through=through, workers=workers, ttl_seconds=ttl_seconds)


def run(dsn: str, plan: Plan, commands: Steps, mailbox: Mailbox) -> Replay:
    """Let both pipelines bill what is planned, then deliver and audit.

    Args:
        dsn: The demo's database; the naive pipeline gets a schema of its own there.
        plan: What is due and how slow it is.
        commands: How pgbill's commands are run.
        mailbox: For the naive pipeline; pgbill's is set in the commands.

    Raises:
        PgbillError: One of them did not get to an end.
    """
    with _connected(dsn) as conn, _naive_schema(conn, plan):
        commands.say(
            f"The naive pipeline: {plan.workers} workers behind a lock that expires"
            f" after {plan.ttl_seconds:g} s."
        )
        lock, lock_timeline = _run_naive(conn, dsn, plan, mailbox)
        commands.say(f"    {lock.copies.invoices} invoices. ({lock.seconds:.1f} s)")
    with _connected(dsn) as conn:
        ours, ours_timeline = _run_pgbill(conn, plan, commands)
    return Replay(plan, lock, ours, lock_timeline, ours_timeline)


@contextlib.contextmanager
def _connected(dsn: str) -> Generator[Connection[Any]]:
    with contextlib.closing(db.connect(dsn, application="replay")) as conn:
        conn.execute("SET statement_timeout = '30s'")
        yield conn


@contextlib.contextmanager
def _naive_schema(conn: Connection[Any], plan: Plan) -> Generator[None]:
    db.execute(conn, naive.queries()["drop"])
    db.execute(conn, naive.queries()["create"])
    try:
        db.execute(conn, naive.queries()["fill"], through_on=plan.through)
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            db.execute(conn, naive.queries()["drop"])


def _run_naive(
    conn: Connection[Any], dsn: str, plan: Plan, mailbox: Mailbox
) -> tuple[Outcome, Timeline]:
    with (
        TaxServer(plan.latency) as taxes,
        _naive_workers(dsn, plan, mailbox, taxes.url) as workers,
        Mishaps(plan.schedule) as mishaps,
    ):
        begun = time.monotonic()
        for worker in workers:
            worker.write(b"go\n")
        _watch(
            conn,
            mishaps,
            lambda: db.fetch_all(conn, naive.queries()["held"], Held),
            is_over=lambda: all(worker.has_ended for worker in workers),
        )
        seconds = time.monotonic() - begun
    events = db.fetch_all(conn, naive.queries()["events"], Event)
    ttl = timedelta(seconds=plan.ttl_seconds)
    expiries = {each.claim: each.at + ttl for each in events if each.kind == "claimed"}
    laid_out = timeline.build(events, expiries=expiries, strikes=mishaps.strikes)
    invoiced = [each.account for each in events if each.kind == "invoiced"]
    foreign_keys = sum(
        each.kind == "released" and each.detail not in (None, each.claim)
        for each in events
    )
    outcome = Outcome.of(
        invoiced, laid_out, seconds=seconds, mails=len(mailbox.received)
    )
    return replace(outcome, foreign_keys=foreign_keys), laid_out


@contextlib.contextmanager
def _naive_workers(
    dsn: str, plan: Plan, mailbox: Mailbox, tax_url: str
) -> Generator[list[Process]]:
    """Start them all, and hand them over when they are ready to begin."""
    with contextlib.ExitStack() as stack:
        workers: list[Process] = []
        for number in range(1, plan.workers + 1):
            job = naive.Job(
                number, dsn, plan.ttl_seconds, tax_url, mailbox.host, mailbox.port
            )
            program = steps.started("-m", naive.__name__, env=steps.environment({}))
            workers.append(stack.enter_context(program))
            workers[-1].write(job.to_line())
        for worker in workers:
            worker.read_line()
        yield workers


def _run_pgbill(
    conn: Connection[Any], plan: Plan, commands: Steps
) -> tuple[Outcome, Timeline]:
    with TaxServer(plan.latency) as taxes, Mishaps(plan.schedule) as mishaps:
        settings = {
            "tax_url": taxes.url,
            "lease_ttl_seconds": plan.ttl_seconds,
            "renew_every_seconds": plan.ttl_seconds / 3,
            "lease_margin_seconds": plan.ttl_seconds / 4,
            # Few for each, so that one worker does not have them all.
            "batch_size": _BATCH_SIZE,
            "tax_in_flight": 2 * _BATCH_SIZE,
            # Expiries are frequent here; an account need not be parked for them.
            "max_attempts": 20,
        }
        command = "run", "--through", plan.through, "--workers", str(plan.workers)
        host = socket.gethostname()
        with commands.with_settings(**settings).start(*command, "--json") as running:
            seen = _watch(
                conn,
                mishaps,
                lambda: db.fetch_all(conn, _QUERIES["held"], Held, host=host),
                is_over=lambda: running.process.has_ended,
            )
            told = "done, whatever became of its workers."
            summary = json.loads(running.finish(may_find=True, told=told))
    run_id = summary["run_id"]
    commands.ask("relay", "--once")
    found = findings(commands)
    events = db.fetch_all(conn, _QUERIES["events"], Event, run_id=run_id)
    laid_out = timeline.build(events, expiries=seen, strikes=mishaps.strikes)
    invoiced = db.fetch_all(conn, _QUERIES["invoices"], _Key, run_id=run_id)
    outcome = Outcome.of(
        [each.key for each in invoiced],
        laid_out,
        seconds=summary["seconds"],
        mails=_count(conn, "mails", run_id),
    )
    return replace(
        outcome,
        refused=_write_late(conn, run_id),
        alerts=_count(conn, "alerts", run_id),
        findings=found,
    ), laid_out


def _write_late(conn: Connection[Any], run_id: int) -> int:
    """Write with the tokens of all lost leases, as a sleeper would; count refusals.

    Raises:
        PgbillError: One was not refused. Nothing of it stays all the same.
    """
    refused = 0
    claims = db.fetch_all(conn, _QUERIES["lost_claims"], _Claim, run_id=run_id)
    for claim in claims:
        try:
            with conn.transaction(force_rollback=True):
                db.execute(
                    conn,
                    _QUERIES["write_late"],
                    bucket=claim.bucket,
                    account_id=claim.account_id,
                    token=claim.fencing_token,
                    run_id=run_id,
                )
        except LeaseLostError:
            refused += 1
        else:
            raise PgbillError(
                f"a write with the token {claim.fencing_token} was taken."
            )
    return refused


def findings(commands: Steps) -> int:
    """Ask every audit, and count what they find."""
    audits = commands.ask("audit", may_find=True)
    return sum(each["finding_count"] for each in audits)


def _count(conn: Connection[Any], name: str, run_id: int) -> int:
    counted = db.fetch_one(conn, _QUERIES[name], _Count, run_id=run_id)
    return counted.how_many if counted else 0


def _watch(
    conn: Connection[Any],
    mishaps: Mishaps,
    held: Callable[[], list[Held]],
    *,
    is_over: Callable[[], bool],
) -> dict[str, datetime]:
    """Let mishaps happen until it is over; return when each claim would expire.

    Raises:
        PgbillError: It does not come to an end.
    """
    expiries: dict[str, datetime] = {}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_over():
        if time.monotonic() > deadline:
            raise PgbillError(f"the replay did not end within {_PATIENCE_SECONDS} s.")
        clock = db.fetch_one(conn, _QUERIES["clock"], _Clock)
        assert clock is not None
        seen = held()
        expiries |= {each.claim: each.expires_at for each in seen}
        mishaps.watch(seen, clock.now)
        time.sleep(_WATCH_SECONDS)
    return expiries
