"""`pgbill report`: figures for the end of a month."""

import contextlib
from datetime import date
from typing import Annotated

import typer

from pgbill.cli import output, rows
from pgbill.cli.days import day
from pgbill.errors import PgbillError

commands = typer.Typer(
    help="Report figures for the end of a month.", no_args_is_help=True
)

_COLUMNS = {
    "seller": "seller",
    "revenue_account": "revenue account",
    "currency": "currency",
    "accrued_amount": "accrued",
    "deferred_amount": "deferred",
}


@commands.callback()
def report() -> None:
    """Report figures for the end of a month."""


@commands.command()
def unbilled(
    *,
    as_of: Annotated[
        date,
        typer.Option(
            parser=day, metavar="DATE", help="At the end of this day, inclusive."
        ),
    ],
    json: output.AsJson = False,
) -> None:
    """Report what is earned and not invoiced, and invoiced and not earned.

    Net of tax, by revenue account and currency. Rated with what is known now, by the
    functions of a run; nothing is written. Exit code 1 if accounts could not be rated:
    they are named, and not in it. Reads PGBILL_DSN.

    Example: pgbill report unbilled --as-of 2026-10-31
    """
    from pgbill import config, db, roles, schema, server
    from pgbill import unbilled as accruals

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.WORKER, application="report")
    ) as conn:
        schema.require_current(conn)
        found = accruals.report(conn, as_of)
    if json:
        output.as_json(found)
    else:
        output.table(rows.of(found.accruals), _COLUMNS)
    for each in found.problems:
        output.say(f"account {each.account} cannot be rated: {each.problem}.")
    if found.problems:
        raise typer.Exit(PgbillError.exit_code)
