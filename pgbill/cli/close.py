"""`pgbill close`: no document is dated into a month any more."""

import contextlib
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output
from pgbill.errors import UsageError

if TYPE_CHECKING:
    from pgbill.closing import Closed

commands = typer.Typer()


@commands.command()
def close(
    month: Annotated[str, typer.Argument(help="The month, such as 2026-10.")],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    json: output.AsJson = False,
) -> None:
    """Close a month, and all before it: no document is dated into them any more.

    A closed month stays closed; what was wrong in it is corrected by a document of a
    month that is open. Warns of documents that were not exported. Reads PGBILL_DSN.

    Example: pgbill close 2026-10
    """
    from pgbill import closing, config, db, login, roles, schema, server

    month_on = _month(month)
    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="close")
    ) as conn:
        schema.require_current(conn)
        closed = closing.close(conn, month_on, by=login.who(), dry_run=dry_run)
    if json:
        output.as_json(closed)
    _tell(closed, dry_run=dry_run)


def _tell(closed: "Closed", *, dry_run: bool) -> None:
    month = f"{closed.month_on:%Y-%m}"
    if not closed.is_new:
        output.say(f"{month} is closed already; nothing has changed.")
    elif dry_run:
        output.say(f"{month} would be closed; nothing was changed: --dry-run.")
    else:
        output.say(f"{month} is closed, with {closed.document_count} documents.")
    if closed.unexported_count:
        output.say(
            f"{closed.unexported_count} documents up to its end are in no export yet:"
            " pgbill export journal hands them over."
        )


def _month(text: str) -> date:
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise UsageError(f"{text!r} is not a month such as 2026-10.") from None
