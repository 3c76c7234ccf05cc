"""`pgbill import`: accounts, what they have agreed to, used and paid, from files."""

import contextlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pgbill.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from pgbill.importing import Report

commands = typer.Typer(
    help="Import from CSV (with a header) or JSON lines: all of a file, or nothing.",
    no_args_is_help=True,
)

Kind = Literal[
    "accounts",
    "subscriptions",
    "usage",
    "discounts",
    "prepaid",
    "invoices",
]
File = Annotated[str, typer.Argument(help="The file, or - for standard input.")]
Format = Annotated[
    Literal["csv", "jsonl"] | None,
    typer.Option(
        "--format",
        help="The format, if the file's name does not end in .csv or .jsonl.",
    ),
]


@commands.command()
def accounts(
    file: File, *, format_: Format = None, json: output.AsJson = False
) -> None:
    """Import accounts, or changes to them.

    A row is the whole account. Seller, currency, anchor_on and first_period_on
    stay as they were first imported. Reads PGBILL_DSN.

    Example: pgbill import accounts accounts.csv
    """
    _import("accounts", file, format_, json=json)


@commands.command()
def subscriptions(
    file: File, *, format_: Format = None, json: output.AsJson = False
) -> None:
    """Import subscriptions, one row for each price and quantity.

    Later only their ends may move, and rows may be added. Exit code 75 if an
    account is being invoiced at this moment. Reads PGBILL_DSN.

    Example: pgbill import subscriptions subscriptions.csv
    """
    _import("subscriptions", file, format_, json=json)


@commands.command()
def usage(file: File, *, format_: Format = None, json: output.AsJson = False) -> None:
    """Import usage records; a run may go on meanwhile. Reads PGBILL_DSN.

    Example: pgbill import usage usage.csv
    """
    _import("usage", file, format_, json=json)


@commands.command()
def charges(file: File, *, format_: Format = None, json: output.AsJson = False) -> None:
    """Import one-off charges, and credits; a run may go on meanwhile.

    The first closing after its service date bills a charge. A charge never changes:
    take it back by another one, below zero. Tax classes that no tax rate and no price
    knows are told. Reads PGBILL_DSN, PGBILL_TAX_URL and PGBILL_TAX_PROVIDER.

    Example: pgbill import charges charges.csv
    """
    from pgbill import config, importing, taxprovider

    by_table = taxprovider.is_table(config.load())
    with _connected("charges") as conn, _progress("charges") as on_progress:
        report = importing.charges(
            conn,
            file,
            format_=format_,
            on_progress=on_progress,
            tax_by_table=by_table,
        )
    _print(_counts(report), json=json)
    for remark in report.remarks:
        output.whisper(remark)


@commands.command()
def discounts(
    file: File, *, format_: Format = None, json: output.AsJson = False
) -> None:
    """Import discounts; only their ends may move later.

    Exit code 75 if an account is being invoiced at this moment. Reads PGBILL_DSN.

    Example: pgbill import discounts discounts.csv
    """
    _import("discounts", file, format_, json=json)


@commands.command()
def prepaid(file: File, *, format_: Format = None, json: output.AsJson = False) -> None:
    """Import prepaid credits, which the next invoices use up.

    A credit never changes, and a run may go on meanwhile. Reads PGBILL_DSN.

    Example: pgbill import prepaid prepaid.csv
    """
    _import("prepaid", file, format_, json=json)


@commands.command()
def invoices(
    file: File, *, format_: Format = None, json: output.AsJson = False
) -> None:
    """Import invoices that another system has issued, with what is open of them.

    They are references for payments and for the list of what is open; pgbill does
    nothing else with them, and they never change. Reads PGBILL_DSN.

    Example: pgbill import invoices invoices.csv
    """
    _import("invoices", file, format_, json=json)


@commands.command()
def payments(
    file: File,
    *,
    format_: Format = None,
    allow_unmatched: Annotated[
        bool,
        typer.Option(
            "--allow-unmatched",
            help="Keep what matches no invoice and no account, instead of refusing"
            " the file.",
        ),
    ] = False,
    json: output.AsJson = False,
) -> None:
    """Import payments, by the number of an invoice, a text that holds it, or account.

    A payment never changes: take it back by another one, below zero. Reads PGBILL_DSN.

    Example: pgbill import payments bank.csv --allow-unmatched
    """
    from pgbill import importing

    with _connected("payments") as conn, _progress("payments") as on_progress:
        report = importing.payments(
            conn,
            file,
            format_=format_,
            on_progress=on_progress,
            allow_unmatched=allow_unmatched,
        )
    counts = {**_counts(report), "unmatched": report.unmatched}
    _print(counts, json=json)
    for remark in report.remarks:
        output.whisper(remark)
    if report.unmatched:
        output.say(
            f"{report.unmatched} payments match nothing; they are kept in"
            " unmatched_payment until their keys come again with what they are for."
        )


def _import(
    kind: Kind,
    file: str,
    format_: Literal["csv", "jsonl"] | None,
    *,
    json: bool,
) -> None:
    from pgbill import importing

    run = {
        "accounts": importing.accounts,
        "subscriptions": importing.subscriptions,
        "usage": importing.usage,
        "discounts": importing.discounts,
        "prepaid": importing.prepaid,
        "invoices": importing.invoices,
    }[kind]
    with _connected(kind) as conn, _progress(kind) as on_progress:
        report = run(conn, file, format_=format_, on_progress=on_progress)
    _print(_counts(report), json=json)


@contextmanager
def _connected(kind: str) -> "Generator[Connection[Any]]":
    """Connect as the owner of the schema, which must be of this version."""
    from pgbill import config, db, roles, schema, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application=f"import {kind}")
    ) as conn:
        schema.require_current(conn)
        yield conn


def _counts(report: "Report") -> dict[str, int]:
    return {
        "read": report.read,
        "new": report.new,
        "changed": report.changed,
        "unchanged": report.unchanged,
    }


def _print(counts: dict[str, int], *, json: bool) -> None:
    if json:
        output.as_json(counts)
    else:
        output.table([counts], {name: name for name in counts})


@contextmanager
def _progress(kind: str) -> "Generator[Callable[[int], None] | None]":
    """Count on stderr while a file is read, if a person looks on."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"Reading {kind} …") as status:
        yield lambda count: status.update(f"Reading {kind}: {count:,} records …")
