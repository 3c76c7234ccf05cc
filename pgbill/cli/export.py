"""`pgbill export`: hand over what is open, and the journal, to other systems."""

import contextlib
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pgbill.cli import output, rows
from pgbill.cli.days import day
from pgbill.errors import UsageError

if TYPE_CHECKING:
    from psycopg import Connection

commands = typer.Typer(
    help="Hand over to bookkeeping what is open, and what was issued.",
    no_args_is_help=True,
)

_EXPORTS = {
    "export_id": "export",
    "seller": "seller",
    "through_on": "through",
    "document_count": "documents",
    "formats": "formats",
    "exported_at": "exported",
    "exported_by": "by",
}
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


@commands.command()
def journal(
    *,
    through: Annotated[
        date | None,
        typer.Option(
            parser=day,
            metavar="DATE",
            help="Export all documents dated up to this day, inclusive, that no export"
            " has handed over yet.",
        ),
    ] = None,
    export: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**63 - 1,
            help="Print the file of this export again, to the byte.",
        ),
    ] = None,
    format_: Annotated[
        Literal["csv", "datev", "saft"] | None,
        typer.Option(
            "--format", help="The format. Default: csv, or what the export was made in."
        ),
    ] = None,
    seller: _Seller = None,
) -> None:
    """Hand documents over to the ledger, each in exactly one export.

    The file goes to stdout. It is kept: whoever has lost it asks for the export by its
    number. Reads PGBILL_DSN, PGBILL_LEDGER_* and PGBILL_DATEV_*.

    Example: pgbill export journal --through 2026-10-31 --format datev > october.csv

    Example: pgbill export journal --export 7 > october.csv
    """
    from pgbill import config, login, server
    from pgbill import journal as journals

    if (through is None) == (export is None):
        raise UsageError("name either --through DATE or --export NUMBER.")
    if export is not None and seller is not None:
        raise UsageError("--export names its seller already.")
    settings = config.load()
    with _owning(server.dsn(settings)) as conn:
        if export is not None:
            format_ = journals.again(conn, settings, export, format_)
        else:
            assert through is not None
            format_ = format_ or "csv"
            done = journals.export(
                conn,
                settings,
                through=through,
                format_=format_,
                by=login.who(),
                seller=seller,
            )
            if done is None:
                output.say(f"nothing dated up to {through} is left to export.")
                return
            export = done.export_id
            output.say(
                f"export {export}: {done.document_count} documents. It is printed again"
                f" by pgbill export journal --export {export}."
            )
        for piece in journals.pieces(conn, export, format_):
            output.data(piece)


@commands.command("list")
def list_(
    *,
    limit: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, envvar="PGBILL_LIMIT", help="How many, the newest first."
        ),
    ] = 20,
    json: output.AsJson = False,
) -> None:
    """List the exports of the journal, the newest first.

    Example: pgbill export list
    """
    from pgbill import config, db, journal, roles, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="export list")
    ) as conn:
        found = journal.find(conn, limit=limit)
    if json:
        output.as_json(found)
        return
    output.table(rows.of(found), _EXPORTS)
    if not found:
        output.say("there is no export yet.")


@contextmanager
def _owning(dsn: str) -> "Generator[Connection[Any]]":
    """Connect as the owner of the schema, which must be of this version."""
    from pgbill import db, roles, schema

    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="export")
    ) as conn:
        schema.require_current(conn)
        yield conn
