"""`pgbill status`: runs, leases, outbox, alerts."""

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output, rows

if TYPE_CHECKING:
    from pgbill.status import Run, Status

commands = typer.Typer()

_RUNS = {
    "run": "run",
    "state": "state",
    "asked": "asked for",
    "started": "started",
    "by": "by",
    "invoiced": "invoiced",
    "nothing": "nothing to bill",
}
_UNCERTAIN = {
    "message_id": "message",
    "account": "account",
    "sent_to": "to",
    "attempt_no": "attempt",
    "begun_at": "begun",
    "holder": "by",
}
_ALERTS = {
    "alert_id": "alert",
    "raised_at": "raised",
    "kind": "kind",
    "summary": "what happened",
}
_CLEAR = "\x1b[H\x1b[2J"


@commands.command()
def status(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.2, max=3_600, help="With --watch: seconds.")
    ] = 2,
    json: output.AsJson = False,
) -> None:
    """Tell how everything stands: runs, leases, outbox, open alerts.

    With --json and --watch an object is printed each time. Reads PGBILL_DSN.

    Example: pgbill status --watch
    """
    from pgbill import config, db, roles, server
    from pgbill import status as current

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="status")
    ) as conn:
        while True:
            found = current.read(conn)
            if json:
                output.as_json(found)
            else:
                if watch and sys.stdout.isatty():
                    sys.stdout.write(_CLEAR)
                _print(found)
            if not watch:
                return
            sys.stdout.flush()
            time.sleep(every)


def _print(found: "Status") -> None:
    output.table([_run(each) for each in found.runs], _RUNS)
    if not found.runs:
        output.line("No run yet.")
    leases = found.leases
    output.line("")
    output.line(
        f"Accounts: {leases.account_count}. Due: {leases.due_count},"
        f" held: {leases.held_count}, expired: {leases.expired_count},"
        f" parked: {leases.parked_count}."
    )
    if not leases.due_count and leases.next_due_at:
        output.line(f"The next is due at {leases.next_due_at:%Y-%m-%d %H:%M} UTC.")
    counts = ", ".join(f"{state}: {count}" for state, count in found.outbox.items())
    output.line(f"Messages: {counts}.")
    alerts = ", ".join(f"{each.kind}: {each.alert_count}" for each in found.alerts)
    if alerts:
        output.line(f"Open alerts: {found.incident_count} ({alerts}).")
    else:
        output.line("Open alerts: none.")
    if found.alerts_in_unknown_mails:
        output.line(
            "It is not known whether the mails about"
            f" {found.alerts_in_unknown_mails} of them arrived."
        )
    if found.newest_alerts:
        output.table(rows.of(found.newest_alerts), _ALERTS)
    if found.incident_count > len(found.newest_alerts):
        output.line("… and older ones: pgbill alert list")
    if found.uncertain:
        output.line("")
        output.line("It is not known whether these messages were taken:")
        output.table(rows.of(found.uncertain), _UNCERTAIN)


def _run(run: "Run") -> dict[str, object]:
    through = f"through {run.through_on}" if run.through_on else "through yesterday"
    account = f", account {run.account_key}" if run.account_key else ""
    test = ", test" if run.mode == "test" else ""
    return {
        "run": run.run_id,
        "state": run.ending or "open",
        "asked": f"{through}{account}{test}",
        "started": f"{run.started_at:%Y-%m-%d %H:%M:%S}",
        "by": run.started_by,
        "invoiced": run.invoiced_count,
        "nothing": run.nothing_to_bill_count,
    }
