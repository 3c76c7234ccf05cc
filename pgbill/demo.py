"""Bill the example company from beginning to end, with the commands that users type.

Each step is a real command in a process of its own, on a real server, in a database
that the demo makes anew each time and that is its own: it never touches the one that
PGBILL_DSN names. Mail goes to a sink on this machine and ends as files; nothing leaves.
"""

import importlib.util
import time
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, conninfo, sql

from pgbill import company, db, page, replay, server
from pgbill.config import Settings
from pgbill.errors import ConfigError, UsageError
from pgbill.incident import Outcome, Plan
from pgbill.replay import Mailbox
from pgbill.steps import Say, Steps, environment

DATABASE = "pgbill_demo"
_MARK = "made by pgbill demo"
_THROUGH = "2026-10-31"
_BEFORE_THE_INCIDENT = "2026-10-30"
_HELD_BACK = "held-back"
_HELD_BACK_COUNT = 240
_QUERIES = db.Queries("demo")


@dataclass(frozen=True, slots=True)
class Total:
    """What was invoiced in a currency."""

    currency: str
    invoices: int
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Billed:
    """What came of billing the company."""

    accounts: int
    usage_records: int
    invoices: int
    totals: list[Total]
    run_seconds: float


@dataclass(frozen=True, slots=True)
class Incident:
    """What came of replaying the incident, and the page that shows it."""

    plan: Plan
    lock: Outcome
    pgbill: Outcome
    page: Path


@dataclass(frozen=True, slots=True)
class Report:
    """What the demo has done."""

    billed: Billed
    incident: Incident | None
    mails: int
    findings: int
    seconds: float
    mail_folder: Path
    dsn: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Comment:
    comment: str | None


def run(
    settings: Settings, folder: Path, *, workers: int, has_incident: bool, say: Say
) -> Report:
    """Make the company, import it, bill October 2026, replay the incident, and audit.

    Args:
        settings: Which server; the database is always the demo's own.
        folder: Where the files of the company, the mails and the page go.
        workers: How many processes bill.
        has_incident: Whether the incident is replayed, with accounts held back for it.
        say: Told each command, before it runs, and what came of it.

    Raises:
        ConfigError: The extra `demo` is not installed, or no database can be made.
        PgbillError: A command failed.
    """
    if importlib.util.find_spec("aiosmtpd") is None:
        raise ConfigError(
            "the demo needs a mail sink, which is not installed.",
            hint="Run: pip install 'pgbill[demo]'.",
        )
    # Not at the top: it comes with the extra.
    from pgbill.sink import Sink  # noqa: PLC0415

    started = time.monotonic()
    files, mails, lock_mails = _folders(folder, "company", "mails", "mails-of-the-lock")
    company.make(files)
    if has_incident:
        company.hold_back(files, _HELD_BACK, count=_HELD_BACK_COUNT)
    dsn = _make_database(server.dsn(settings))
    with Sink(mails) as sink:
        steps = Steps(_environment(dsn, sink.host, sink.port), files, say)
        steps.do("migrate")
        steps.do("catalog", "apply", "catalog.toml")
        billed = _bill(steps, through=_THROUGH, workers=workers)
        steps.ask("relay", "--once")
        incident = None
        if has_incident:
            with Sink(lock_mails) as lock_sink:
                incident = _replay(steps, dsn, lock_sink, workers=workers)
        findings = (
            replay.findings(steps) if incident is None else incident.pgbill.findings
        )
        mail_count = len(sink.received)
    return Report(
        billed=billed,
        incident=incident,
        mails=mail_count,
        findings=findings or 0,
        seconds=time.monotonic() - started,
        mail_folder=mails,
        dsn=dsn,
    )


def _bill(steps: Steps, *, through: str, workers: int) -> Billed:
    """Import the files of the folder, and bill."""
    accounts = steps.ask("import", "accounts", "accounts.csv")
    steps.ask("import", "subscriptions", "subscriptions.csv")
    usage = steps.ask("import", "usage", "usage.csv")
    billed = steps.ask("run", "--through", through, "--workers", str(workers))
    return Billed(
        accounts=accounts["new"],
        usage_records=usage["new"],
        invoices=billed["invoiced"],
        totals=[
            Total(each["currency"], each["invoices"], Decimal(each["gross"]))
            for each in billed["totals"]
        ],
        run_seconds=billed["seconds"],
    )


def _replay(steps: Steps, dsn: str, mailbox: Mailbox, *, workers: int) -> Incident:
    """Import what was held back, and let October happen to it twice."""
    apart = steps.in_folder(steps.folder / _HELD_BACK)
    # What was due before; each account then has one period to be billed.
    _bill(apart, through=_BEFORE_THE_INCIDENT, workers=workers)
    plan = replay.plan(dsn, through=_THROUGH, workers=workers)
    both = replay.run(dsn, plan, apart, mailbox)
    file = steps.folder.parent / "incident.html"
    file.write_text(page.render(both), encoding="utf-8")
    return Incident(plan, both.lock, both.pgbill, file)


def _folders(folder: Path, *names: str) -> list[Path]:
    """Make the folders, and take the mails of an earlier demo away."""
    made = [folder.absolute() / name for name in names]
    try:
        for each in made:
            each.mkdir(parents=True, exist_ok=True)
            for old in each.glob("*.eml"):
                old.unlink()
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}.",
            hint="Choose another place with --folder.",
        ) from error
    return made


def _make_database(admin_dsn: str) -> str:
    """Make the demo's database anew, and return how to connect to it.

    Raises:
        ConfigError: A database of that name is not the demo's, or none can be made.
    """
    with db.connect(admin_dsn, application="demo") as conn:
        _refuse_a_stranger(conn)
        name = sql.Identifier(DATABASE)
        try:
            conn.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name)
            )
            conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigError(
                f"the login {conn.info.user} may not create the database {DATABASE}.",
                hint="Unset PGBILL_DSN to use an embedded server.",
            ) from error
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
        conn.execute(comment.format(name, sql.Literal(_MARK)))
    return conninfo.make_conninfo(admin_dsn, dbname=DATABASE)


def _refuse_a_stranger(conn: Connection[Any]) -> None:
    found = db.fetch_one(conn, _QUERIES["comment"], _Comment, name=DATABASE)
    if found is not None and found.comment != _MARK:
        raise ConfigError(
            f"there is a database {DATABASE} that the demo has not made.",
            hint="Rename it, or unset PGBILL_DSN to use an embedded server.",
        )


def _environment(dsn: str, host: str, port: int) -> dict[str, str]:
    return environment(
        {"PGBILL_DSN": dsn, "PGBILL_SMTP_HOST": host, "PGBILL_SMTP_PORT": str(port)}
    )
