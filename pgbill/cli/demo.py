"""`pgbill demo`: the whole way, from files to mails, and the incident replayed."""

import signal
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output

if TYPE_CHECKING:
    from pgbill.demo import Incident, Report

_WIDTH = 88

commands = typer.Typer()


@commands.command()
def demo(
    *,
    folder: Annotated[
        Path,
        typer.Option(
            envvar="PGBILL_DEMO_FOLDER", help="Where the company's files and mails go."
        ),
    ] = Path("pgbill-demo"),
    workers: Annotated[
        int,
        typer.Option(min=1, max=64, envvar="PGBILL_WORKERS", help="Worker processes."),
    ] = 8,
    incident: Annotated[
        bool,
        typer.Option(
            "--incident/--no-incident",
            help="Replay the incident, against a lock that expires.",
        ),
    ] = True,
    json: output.AsJson = False,
) -> None:
    """Bill the example company with eight workers, then replay the incident.

    Uses a database of its own, pgbill_demo, made anew each time. Mail goes to a sink
    on this machine. The incident is replayed twice, behind a lock that expires and
    with pgbill: a slow tax service, a worker that is stopped, one that is killed. Exit
    code 1 if the audit finds anything.

    Example: pgbill demo --folder my-demo
    """
    from pgbill import config
    from pgbill import demo as process

    # What was started is ended as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = process.run(
        config.load(),
        folder,
        workers=workers,
        has_incident=incident,
        say=output.whisper,
    )
    if json:
        output.as_json(report)
    else:
        _print(report)
    if report.findings:
        raise typer.Exit(1)


def _print(report: "Report") -> None:
    billed = report.billed
    rate = billed.invoices / billed.run_seconds if billed.run_seconds else 0
    rows = [
        ("accounts", f"{billed.accounts:,}"),
        ("usage records", f"{billed.usage_records:,}"),
        ("invoices", f"{billed.invoices:,} ({rate:,.0f} a second)"),
        *(
            ("", f"{each.invoices:,} in {each.currency}: {each.gross:,} gross")
            for each in billed.totals
        ),
        ("mails", f"{report.mails:,} in {report.mail_folder}"),
        ("audit findings", str(report.findings)),
        ("seconds", f"{report.seconds:.0f}"),
    ]
    output.line("")
    output.table(
        [{"what": what, "how_many": how_many} for what, how_many in rows],
        {"what": "", "how_many": ""},
    )
    output.line("")
    if report.incident is not None:
        _print_incident(report.incident)
    output.line("To look around: export PGBILL_DSN as below, then try pgbill status,")
    output.line("pgbill invoice list, pgbill explain ACCOUNT.")
    output.line(f'export PGBILL_DSN="{report.dsn}"')


def _print_incident(incident: "Incident") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from pgbill import comparison

    plan, lock, pgbill = incident.plan, incident.lock, incident.pgbill
    told = (
        f"The incident: the other {len(plan.due)} accounts, {plan.workers} workers, an"
        f" expiry of {plan.ttl_seconds:g} s, and a tax service that needs longer for"
        f" {len(plan.slow)} of them. One worker is stopped and woken, one is killed."
    )
    output.line(textwrap.fill(told, _WIDTH))
    output.line("")
    table = Table(box=None, pad_edge=False)
    table.add_column("what happened")
    table.add_column("a lock that expires", justify="right")
    table.add_column("pgbill", justify="right")
    for row in comparison.rows(plan, lock, pgbill):
        ours = "bold red" if row.pgbill_is_bad else "green" if row.lock_is_bad else ""
        table.add_row(
            Text(row.what),
            Text(row.lock, "bold red" if row.lock_is_bad else ""),
            Text(row.pgbill, ours),
        )
    Console(file=sys.stdout, soft_wrap=True).print(table)
    output.line("")
    for sentence in comparison.sentences(plan, lock, pgbill):
        output.line(textwrap.fill(sentence, _WIDTH))
    output.line("")
    output.line(f"Who held what when: {incident.page}")
    output.line("")
