"""`pgbill demo`: the whole way, from files to mails, on this machine alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output

if TYPE_CHECKING:
    from pgbill.demo import Report

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
    json: output.AsJson = False,
) -> None:
    """Import the example company, bill it with eight workers, mail and audit it.

    Uses a database of its own, pgbill_demo, made anew each time. Mail goes to a sink
    on this machine. Exit code 1 if the audit finds anything.

    Example: pgbill demo --folder /var/tmp/pgbill-demo
    """
    from pgbill import config
    from pgbill import demo as process

    report = process.run(config.load(), folder, workers=workers, say=output.whisper)
    if json:
        output.as_json(report)
    else:
        _print(report)
    if report.findings:
        raise typer.Exit(1)


def _print(report: "Report") -> None:
    rate = report.invoices / report.run_seconds if report.run_seconds else 0
    rows = [
        ("accounts", f"{report.accounts:,}"),
        ("usage records", f"{report.usage_records:,}"),
        ("invoices", f"{report.invoices:,} ({rate:,.0f} a second)"),
        *(
            ("", f"{each.invoices:,} in {each.currency}: {each.gross:,} gross")
            for each in report.totals
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
    output.line("To look around: export PGBILL_DSN as below, then try pgbill status,")
    output.line("pgbill invoice list, pgbill explain ACCOUNT.")
    output.line(f'export PGBILL_DSN="{report.dsn}"')
