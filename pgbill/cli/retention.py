"""`pgbill retention`: drop usage that is no longer needed."""

import contextlib
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output
from pgbill.errors import FindingsError, UsageError

if TYPE_CHECKING:
    from pgbill.retention import Month

commands = typer.Typer(
    help="Drop usage that is billed and no longer needed.", no_args_is_help=True
)

_OTHER_ZONES = (
    "months are those of UTC: in other zones late usage also ends for the local month"
    " before (west of Greenwich) or after (east of it), which reaches into a month that"
    " would go."
)


@commands.callback()
def retention() -> None:
    """Drop usage that is billed and no longer needed."""


@commands.command()
def drop(
    *,
    before: Annotated[
        str,
        typer.Option(
            metavar="MONTH", help="The first month to keep, such as 2026-01 (UTC)."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be dropped.")
    ] = False,
    json: output.AsJson = False,
) -> None:
    """Drop the months of usage before another, if all of each is billed or rejected.

    A month with a record that waits, or whose invoice is cancelled and not reissued,
    stays whole: exit code 1. The audits still add up afterwards, but they can no longer
    sum again what is gone, and records of such a month, or of a period that began in
    it, cannot be imported any more. A run may go on meanwhile. Reads PGBILL_DSN.

    A month is one of UTC, and a period that reaches into it takes no late usage any
    more. For accounts in other zones these are two: with September that ends for the
    local September, and west of Greenwich for the local August, whose last hours are
    of September in UTC; east of it for the local October, by its first hours.

    Example: pgbill retention drop --before 2025-01 --dry-run
    """
    from pgbill import config, db, roles, schema, server
    from pgbill import retention as months_of_usage

    first_kept = _month(before)
    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="retention")
    ) as conn:
        schema.require_current(conn)
        months = months_of_usage.drop(conn, first_kept, is_dry_run=dry_run)
    _print(months, json=json)
    kept = [month for month in months if month.unfinished_count]
    for month in kept:
        output.say(
            f"{month.month_on:%Y-%m} stays: of its records, {month.unfinished_count}"
            f" are not done with. The first: {month.reason}."
        )
    if dry_run:
        if len(kept) < len(months):
            output.say(_OTHER_ZONES)
        output.say("nothing was dropped: --dry-run.")
    if kept:
        raise typer.Exit(FindingsError.exit_code)


def _month(text: str) -> date:
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise UsageError(f"{text!r} is not a month such as 2026-01.") from None


def _print(months: list["Month"], *, json: bool) -> None:
    rows = [
        {
            "month": f"{month.month_on:%Y-%m}",
            "records": month.record_count,
            "unfinished": month.unfinished_count,
        }
        for month in months
    ]
    names = {"month": "month", "records": "records", "unfinished": "not done with"}
    output.table(rows, names, json=json)
