"""Bill the example company from beginning to end, with the commands that users type.

Each step is a real command in a process of its own, on a real server, in a database
that the demo makes anew each time and that is its own: it never touches the one that
PGBILL_DSN names. Mail goes to a sink on this machine and ends as files; nothing leaves.
"""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection, conninfo, sql

from pgbill import db, resources, server
from pgbill.config import PREFIX, Settings
from pgbill.errors import ConfigError, PgbillError, UsageError

DATABASE = "pgbill_demo"
_MARK = "made by pgbill demo"
_THROUGH = "2026-10-31"
_QUERIES = db.Queries("demo")

# What the demo sets itself, and what must not lead its commands elsewhere.
_KEPT = {"PGBILL_DATA_DIR", "PGBILL_CONFIG"}


@dataclass(frozen=True, slots=True)
class Total:
    """What was invoiced in a currency."""

    currency: str
    invoices: int
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Report:
    """What the demo has done."""

    accounts: int
    usage_records: int
    invoices: int
    totals: list[Total]
    mails: int
    findings: int
    seconds: float
    run_seconds: float
    mail_folder: Path
    dsn: str = field(repr=False)


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Comment:
    comment: str | None


def run(settings: Settings, folder: Path, *, workers: int, say: Say) -> Report:
    """Make the company, import it, bill October 2026, mail, and audit.

    Args:
        settings: Which server; the database is always the demo's own.
        folder: Where the files of the company and the mails go.
        workers: How many processes bill.
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
    company, mails = _folders(folder)
    _make_company(company)
    dsn = _make_database(server.dsn(settings))
    with Sink(mails) as sink:
        steps = _Steps(_environment(dsn, sink.host, sink.port), company, say)
        steps.do("migrate")
        steps.do("catalog", "apply", "catalog.toml")
        accounts = steps.ask("import", "accounts", "accounts.csv")
        steps.ask("import", "subscriptions", "subscriptions.csv")
        usage = steps.ask("import", "usage", "usage.csv")
        billed = steps.ask("run", "--through", _THROUGH, "--workers", str(workers))
        steps.ask("relay", "--once")
        findings = steps.ask("audit", may_find=True)
        mail_count = len(sink.received)
    return Report(
        accounts=accounts["new"],
        usage_records=usage["new"],
        invoices=billed["invoiced"],
        totals=[
            Total(each["currency"], each["invoices"], Decimal(each["gross"]))
            for each in billed["totals"]
        ],
        mails=mail_count,
        findings=sum(each["finding_count"] for each in findings),
        seconds=time.monotonic() - started,
        run_seconds=billed["seconds"],
        mail_folder=mails,
        dsn=dsn,
    )


class _Steps:
    """The commands of the demo, one after the other."""

    def __init__(self, environment: Mapping[str, str], folder: Path, say: Say) -> None:
        self._environment = environment
        self._folder = folder
        self._say = say

    def do(self, *command: str) -> None:
        """Run a command that only has to succeed."""
        self._run(command, ())

    def ask(self, *command: str, may_find: bool = False) -> Any:  # noqa: ANN401
        """Run a command and return its JSON."""
        return json.loads(self._run(command, ("--json",), may_find=may_find))

    def _run(
        self,
        command: tuple[str, ...],
        options: tuple[str, ...],
        *,
        may_find: bool = False,
    ) -> str:
        self._say(f"$ pgbill {shlex.join(command)}")
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pgbill", *command, *options],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        told = done.stderr.strip().replace("pgbill: ", "")
        seconds = time.monotonic() - started
        if done.returncode != 0 and not (may_find and done.returncode == 1):
            raise PgbillError(
                f"the step failed with exit code {done.returncode}: {told}"
            )
        last = told.splitlines()[-1] if told else "done."
        self._say(f"    {last} ({seconds:.1f} s)")
        return done.stdout


def _folders(folder: Path) -> tuple[Path, Path]:
    """Make the folders, and take the mails of an earlier demo away."""
    company, mails = folder / "company", folder / "mails"
    try:
        for each in (company, mails):
            each.mkdir(parents=True, exist_ok=True)
        for old in mails.glob("*.eml"):
            old.unlink()
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}.",
            hint="Choose another place with --folder.",
        ) from error
    return company.absolute(), mails.absolute()


def _make_company(folder: Path) -> None:
    """Run the script of the examples, and put the catalog beside its files."""
    script = resources.path("examples", "make_company.py")
    spec = importlib.util.spec_from_file_location("pgbill_make_company", script)
    if spec is None or spec.loader is None:
        raise ConfigError("the examples are not installed.", hint="Reinstall pgbill.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(folder)
    catalog = resources.path("examples", "catalog.toml")
    (folder / "catalog.toml").write_bytes(catalog.read_bytes())


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
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name in _KEPT
    }
    return {
        **inherited,
        "PGBILL_DSN": dsn,
        "PGBILL_SMTP_HOST": host,
        "PGBILL_SMTP_PORT": str(port),
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
    }
