"""`pgbill alert`: what a person must look at."""

import contextlib
from typing import Annotated

import typer

from pgbill.cli import output, rows
from pgbill.errors import UsageError

commands = typer.Typer(
    no_args_is_help=True, help="Look at alerts, and say that you have."
)

_Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only this kind: lease_expired, write_refused, account_parked,"
        " hard_limit, message_uncertain.",
    ),
]
_COLUMNS = {
    "alert_id": "id",
    "raised_at": "raised",
    "kind": "kind",
    "account": "account",
    "summary": "what happened",
    "acked_by": "acknowledged by",
}


@commands.command("list")
def list_(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were acknowledged.")
    ] = False,
    kind: _Kind = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many, the newest first.")
    ] = 50,
    json: output.AsJson = False,
) -> None:
    """List the alerts that nobody has acknowledged, the newest first.

    Alerts about one mishap (a lease expired, then a late write was refused) are one
    row. What each kind means, and what to do, stands in docs/alerts.md.

    Example: pgbill alert list --kind account_parked
    """
    from pgbill import alert, config, db, roles, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="alert")
    ) as conn:
        found = alert.find(conn, with_acked=everything, kind=kind, limit=limit)
    if json:
        output.as_json(found)
        return
    columns = {k: v for k, v in _COLUMNS.items() if everything or k != "acked_by"}
    output.table(rows.of(found), columns)


@commands.command()
def ack(
    alert_id: Annotated[
        int | None, typer.Argument(metavar="ID", help="Which alert.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All that are open, or of --kind.")
    ] = False,
    kind: _Kind = None,
    json: output.AsJson = False,
) -> None:
    """Say that you have looked at an alert; it is kept, with your name.

    With it, what else was raised about the same mishap is acknowledged.

    Example: pgbill alert ack 12
    """
    from pgbill import alert, config, db, roles, server

    if (alert_id is None) != everything:
        raise UsageError("give the id of one alert, or --all.")
    if kind is not None and not everything:
        raise UsageError("--kind goes with --all.")
    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="alert")
    ) as conn:
        if alert_id is None:
            acked = alert.acknowledge_all(conn, by=_who(), kind=kind)
        else:
            acked = alert.acknowledge(conn, alert_id, by=_who())
    if json:
        output.as_json({"acknowledged": acked})
    elif acked:
        output.say(f"acknowledged {', '.join(map(str, acked))}.")
    else:
        output.say("nothing to acknowledge.")


def _who() -> str:
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}"
