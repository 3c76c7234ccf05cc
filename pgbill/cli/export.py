"""`pgbill export`: hand over what is open, and the journal, to other systems."""

import contextlib
from datetime import date
from typing import Annotated, Literal

import typer

from pgbill.cli import output
from pgbill.cli.days import day

commands = typer.Typer(
    help="Hand over to bookkeeping what is open, and what was issued.",
    no_args_is_help=True,
)

_Seller = Annotated[
    str | None, typer.Option(metavar="KEY", help="Only of this seller.")
]


@commands.command()
def receivables(
    *,
    as_of: Annotated[
        date | None,
        typer.Option(
            parser=day, metavar="DATE", help="At the end of this day. Default: today."
        ),
    ] = None,
    seller: _Seller = None,
    format_: Annotated[
        Literal["csv", "json"], typer.Option("--format", help="The format.")
    ] = "csv",
) -> None:
    """Print what is still to be paid, by document, with its age.

    Of invoices in part, of those of a system before, of credit notes that stand alone,
    and of what was paid without an invoice to fill. Nobody is reminded by it. Reads
    PGBILL_DSN.

    Example: pgbill export receivables --as-of 2026-10-31 > open.csv
    """
    from dataclasses import asdict, fields

    from pgbill import config, db, roles, server
    from pgbill import receivables as open_items

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="export receivables")
    ) as conn:
        found = open_items.find(conn, as_of=as_of, seller=seller)
    if format_ == "json":
        output.as_json(found)
        return
    columns = [each.name for each in fields(open_items.OpenItem)]
    output.csv([asdict(each) for each in found], columns)
