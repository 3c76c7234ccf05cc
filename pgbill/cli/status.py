"""`pgbill status`: runs, leases, outbox, alerts."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output, rows, watching

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

    With --watch: how far the open runs are, how fast and how long they will take, who
    holds leases, and accounts that take long. On a terminal it is one page that
    changes; else a line each time, or with --json an object on a line. It reads
    PGBILL_DSN.

    Example: pgbill status --watch
    """
    from pgbill import config, db, roles, server
    from pgbill import status as current

    dsn = server.dsn(config.load())
    if watch:
        watching.watch(dsn, every_seconds=every, json=json)
        return
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="status")
    ) as conn:
        found = current.read(conn)
    if json:
        output.as_json(found)
    else:
        _print(found)


def _print(found: "Status") -> None:
    output.table([_run(each) for each in found.runs], _RUNS)
    if not found.runs:
        output.line("No run yet.")
    leases = found.leases
    output.line("")
    output.line(
        f"Accounts: {leases.account_count}. Due: {leases.due_count},"
        f" held: {leases.held_count}, expired: {leases.expired_count},"
        f" parked: {leases.parked_count}, in review: {leases.draft_count}."
    )
    _print_work(found)
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


def _print_work(found: "Status") -> None:
    for each in found.progress:
        output.line(watching.progress(each))
    if found.workers:
        output.table(watching.workers(found), watching.WORKERS)
    if found.slow:
        output.table(watching.slow(found), watching.SLOW)


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
