"""The command line: one module for each group of commands, and one way to fail.

Data goes to stdout, everything else to stderr. An error is one sentence and an exit
code (see `errors`); a traceback is a defect of pgbill. Command modules import what they
run inside their commands: `pgbill -h` should not wait for drivers that it does not use.
"""

from typing import Annotated

import typer

from pgbill import __version__
from pgbill.cli import (
    account,
    alert,
    audit,
    catalog,
    close,
    correction,
    demo,
    draft,
    explain,
    export,
    imports,
    invoice,
    outbox,
    output,
    preview,
    relay,
    report,
    retention,
    run,
    runs,
    schema,
    server,
    status,
)

app = typer.Typer(
    name="pgbill",
    cls=output.Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(schema.commands)
app.add_typer(catalog.commands, name="catalog")
app.add_typer(imports.commands, name="import")
app.add_typer(run.commands)
app.add_typer(preview.commands)
app.add_typer(runs.commands, name="runs")
app.add_typer(account.commands, name="account")
app.add_typer(draft.commands, name="draft")
app.add_typer(relay.commands)
app.add_typer(outbox.commands, name="outbox")
app.add_typer(status.commands)
app.add_typer(audit.commands)
app.add_typer(explain.commands)
app.add_typer(close.commands)
app.add_typer(export.commands, name="export")
app.add_typer(report.commands, name="report")
invoice.commands.add_typer(correction.commands)
app.add_typer(invoice.commands, name="invoice")
app.add_typer(alert.commands, name="alert")
app.add_typer(retention.commands, name="retention")
app.add_typer(server.commands, name="server")
app.add_typer(demo.commands)


def _print_version(wanted: bool) -> None:
    if wanted:
        output.line(f"pgbill {__version__}")
        raise typer.Exit


@app.callback()
def pgbill(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and stop.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Bill accounts from PostgreSQL: each once a period, whatever dies on the way.

    Settings come from PGBILL_* variables, then from pgbill.toml. Without
    PGBILL_DSN, an embedded PostgreSQL is started in PGBILL_DATA_DIR.

    Exit codes: 0 done or nothing to do, 1 findings or failures, 2 usage,
    75 try again later, 78 a person must act.
    """
    del version


def main() -> None:
    """Run the command line."""
    output.replace_closed_streams()
    output.write_what_the_terminal_can()
    app()
