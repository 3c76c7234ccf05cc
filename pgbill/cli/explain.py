"""`pgbill explain`: the whole story of an account."""

import contextlib
import sys
from typing import Annotated

import typer

from pgbill.cli import output

commands = typer.Typer()


@commands.command()
def explain(
    account: Annotated[str, typer.Argument(help="The key of the billing account.")],
    period: Annotated[
        str | None,
        typer.Argument(
            help="The month in which a billing period begins (2026-10), or the day on"
            " which it ends (2026-11-01). Default: everything."
        ),
    ] = None,
    *,
    json: output.AsJson = False,
) -> None:
    """Tell the whole story of an account, in order of time.

    Who claimed it, with which fencing token, what became of that; what was closed and
    issued; every message, attempt and outcome; every alert. Times are UTC, of the
    database's clock. Reads PGBILL_DSN.

    Example: pgbill explain A-1042

    Example: pgbill explain A-1042 2026-10
    """
    from pgbill import config, db, roles, server, story

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="explain")
    ) as conn:
        told = story.tell(conn, account, period)
    if json:
        output.as_json(told)
        return
    about = f", periods that end on {', '.join(told.periods)}" if told.periods else ""
    output.line(f"{told.account}, {told.legal_name} ({told.zone}){about}")
    rows = [
        {"at": f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at:%f}"[:-3], "text": entry.text}
        for entry in told.entries
    ]
    if not rows:
        output.line("Nothing has happened yet.")
    elif sys.stdout.isatty():
        # A table breaks long sentences beside the time, not below it.
        output.table(rows, {"at": "", "text": ""})
    else:
        for row in rows:
            output.line(f"{row['at']}  {row['text']}")
    output.line(f"Now: {told.now}")
