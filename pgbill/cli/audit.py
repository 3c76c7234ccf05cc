"""`pgbill audit`: look for broken promises."""

import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output
from pgbill.errors import FindingsError

if TYPE_CHECKING:
    from pgbill.audit import Audit

commands = typer.Typer()

_SERIES = {
    "seller": "seller",
    "kind": "kind",
    "mode": "mode",
    "prefix": "prefix",
    "first_number": "begins with",
    "lowest": "first",
    "highest": "last",
    "document_count": "documents",
    "first_on": "from",
    "last_on": "until",
    "findings": "findings",
}

# The key says who it is; the two numbers are for SQL.
_FOR_PROGRAMS = {"bucket", "account_id"}


@commands.command()
def audit(
    view: Annotated[
        str | None,
        typer.Argument(
            help="One audit view, or the word numbers: the series of numbers."
            " Default: all views."
        ),
    ] = None,
    *,
    limit: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            envvar="PGBILL_LIMIT",
            help="Findings to print of each view; all are counted.",
        ),
    ] = 20,
    json: output.AsJson = False,
) -> None:
    """Run the audit views, in which every row is a finding.

    Exit code 1 if there are findings. The views are in the schema pgbill_audit, to be
    queried in SQL as well. They only read, and may run beside everything else. Reads
    PGBILL_DSN.

    Example: pgbill audit

    Example: pgbill audit p6_usage_billed_twice --limit 100

    Example: pgbill audit numbers
    """
    from pgbill import audit as audits
    from pgbill import config, db, roles, server

    dsn = server.dsn(config.load())
    if view == "numbers":
        _numbers(dsn, json=json)
        return
    done: list[Audit] = []
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="audit")
    ) as conn:
        for each in audits.run(conn, view, limit=limit):
            done.append(each)
            if not json:
                _print(each)
    if json:
        output.as_json(done)
    count = sum(each.finding_count for each in done)
    output.say(f"{_plural(count, 'finding')} in {_plural(len(done), 'audit')}.")
    if count:
        raise typer.Exit(FindingsError.exit_code)


def _numbers(dsn: str, *, json: bool) -> None:
    """Show each series of numbers: first, last, how many, and what is wrong."""
    from pgbill import db, numbering, roles

    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="audit numbers")
    ) as conn:
        found = numbering.look(conn)
    rows = [{**asdict(each), "findings": each.findings} for each in found]
    if json:
        output.as_json(rows)
    else:
        told = [
            {**row, "findings": "; ".join(each.findings) or "none"}
            for row, each in zip(rows, found, strict=True)
        ]
        output.table(told, _SERIES)
    count = sum(bool(each.findings) for each in found)
    output.say(f"{_plural(count, 'finding')} in {len(found)} series.")
    if count:
        raise typer.Exit(FindingsError.exit_code)


def _print(done: "Audit") -> None:
    """Print a line, and if something was found what it means and where."""
    if not done.finding_count:
        output.line(f"{done.name}: no finding")
        return
    output.line(f"{done.name}: {_plural(done.finding_count, 'finding')}")
    output.line(f"  {done.explanation}")
    columns = [name for name in done.findings[0] if not _hidden(name, done)]
    output.table(done.findings, {name: name for name in columns})
    if more := done.finding_count - len(done.findings):
        output.line(f"… and {more} more")


def _hidden(name: str, done: "Audit") -> bool:
    return name in _FOR_PROGRAMS and "account" in done.findings[0]


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
