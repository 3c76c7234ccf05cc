"""`pgbill runs`: what runs have done, and another chance for what they could not do."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgbill.cli import output
from pgbill.cli.reason import checked
from pgbill.errors import UsageError

if TYPE_CHECKING:
    from pgbill.runs import Parked, Run

commands = typer.Typer(no_args_is_help=True, help="Look at runs, and after them.")

RunId = Annotated[
    int,
    typer.Argument(
        metavar="RUN", min=1, max=2**63 - 1, help="As shown by pgbill runs list."
    ),
]

_COLUMNS = {
    "run": "run",
    "state": "state",
    "asked": "asked for",
    "started": "started",
    "by": "by",
    "invoiced": "invoiced",
    "failed": "failed",
    "parked": "parked",
    "held": "held",
    "gross": "gross",
}
_COUNTS = {
    "invoiced": "invoices issued",
    "nothing_to_bill": "periods with nothing to bill",
    "carried_forward": "periods carried forward",
    "failed": "accounts that failed",
    "parked": "accounts parked",
    "held": "drafts held for review",
    "leases_lost": "leases lost",
}
_TOTALS = {
    "currency": "currency",
    "invoices": "invoices",
    "net": "net",
    "tax": "tax",
    "gross": "gross",
}


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
    """List runs, the newest first, with what they have done.

    Example: pgbill runs list
    """
    from pgbill import config, runs, server

    with runs.connected(server.dsn(config.load())) as conn:
        found = runs.find(conn, limit=limit)
    if json:
        output.as_json(found)
        return
    output.table([_row(each) for each in found], _COLUMNS)
    if not found:
        output.say("there is no run yet.")


@commands.command()
def show(run_id: RunId, *, json: output.AsJson = False) -> None:
    """Show a run: counts, totals, who, when, with which version and settings.

    Example: pgbill runs show 12
    """
    from dataclasses import asdict

    from pgbill import config, runs, server

    with runs.connected(server.dsn(config.load())) as conn:
        run = runs.get(conn, run_id)
        failures = runs.failures(conn, run_id)
    if json:
        told = {**asdict(run), "command": run.command}
        output.as_json({**told, "failures": [asdict(each) for each in failures]})
        return
    _pairs(_facts(run))
    output.line("")
    _pairs(
        {
            told: run.summary[name]
            for name, told in _COUNTS.items()
            if name in run.summary
        }
    )
    if totals := run.summary.get("totals"):
        output.line("")
        output.table(totals, _TOTALS)
    output.line("")
    _pairs({f"with {name}": it for name, it in run.settings.items() if it is not None})
    for each in failures:
        output.say(f"account {each.account_key} {each.outcome}: {each.reason}")


@commands.command()
def retry(
    run_id: Annotated[
        int | None,
        typer.Argument(
            metavar="RUN",
            min=1,
            max=2**63 - 1,
            help="Whatever failed in this run, or was parked by it."
            " Default: all accounts that are parked.",
        ),
    ] = None,
    *,
    reason: Annotated[str, typer.Option(help="Why; kept with each account.")],
    account: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only this billing account, if it is parked."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    json: output.AsJson = False,
) -> None:
    """Make accounts due again that failed or are parked; the next run takes them.

    All that is due today for an account that was parked is approved by it, however
    many periods. What a person has parked is unparked by name only, or by all.

    Example: pgbill runs retry 12 --reason "tax rate for CH added"
    """
    from pgbill import config, login, runs, server

    if run_id is not None and account is not None:
        raise UsageError("name a run or --account, not both.")
    given: dict[str, Any] = {
        "reason": checked(reason),
        "by": login.who(),
        "dry_run": dry_run,
    }
    command = "pgbill run"
    parked: list[Parked] = []
    with runs.connected(server.dsn(config.load())) as conn:
        if run_id is not None:
            command = runs.get(conn, run_id).command
            found = runs.retry(conn, run_id, **given)
            parked = runs.still_parked(conn, run_id)
        else:
            found = runs.retry_parked(conn, account_key=account, **given)
    if account is not None and not found:
        raise UsageError(f"account {account} is not parked.")
    rows = [{"account": each.account_key, "was": each.was} for each in found]
    output.table(rows, {"account": "account", "was": "was"}, json=json)
    are = ("would be", "would be") if dry_run else ("is", "are")
    accounts = output.count(len(rows), f"account {are[0]}", f"accounts {are[1]}")
    output.say(f"{accounts} due again.")
    freed = {each.account_key for each in found}
    for each in parked:
        if each.account_key not in freed:
            output.say(_stays(each))
    if rows and not dry_run:
        output.say(f"now: {command}")


def _stays(parked: "Parked") -> str:
    by = parked.acted_by or f"run {parked.run_id}"
    return (
        f"account {parked.account_key} stays parked, by {by}: {parked.reason};"
        " see pgbill account unpark."
    )


def asked(run: Any) -> str:  # noqa: ANN401
    """Say what was asked of a run, in short."""
    through = f"through {run.through_on}" if run.through_on else "through yesterday"
    issue = f", dated {run.issue_on}" if run.issue_on else ""
    account = f", account {run.account_key}" if run.account_key else ""
    test = ", test" if run.mode == "test" else ""
    return f"{through}{issue}{account}{test}"


def _row(run: "Run") -> dict[str, object]:
    totals: list[dict[str, str]] = run.summary.get("totals", [])
    return {
        "run": run.run_id,
        "state": run.ending or "open",
        "asked": asked(run),
        "started": f"{run.started_at:%Y-%m-%d %H:%M:%S}",
        "by": run.started_by,
        **{name: run.summary.get(name) for name in _COUNTS},
        "gross": ", ".join(f"{each['currency']} {each['gross']}" for each in totals),
    }


def _facts(run: "Run") -> dict[str, object]:
    if not run.hold_mail:
        mail = None
    elif run.mail_released_at is None:
        mail = f"held: pgbill outbox release --run {run.run_id}"
    else:
        mail = f"released at {run.mail_released_at:%Y-%m-%d %H:%M:%S} UTC by"
        mail += f" {run.mail_released_by}"
    ended = run.sealed_at
    return {
        "run": run.run_id,
        "state": run.ending or "open",
        "asked for": asked(run),
        "command": run.command,
        "started": f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC by {run.started_by}",
        "ended": None if ended is None else f"{ended:%Y-%m-%d %H:%M:%S} UTC",
        "pgbill": run.pgbill_version,
        "mail": mail,
    }


def _pairs(facts: dict[str, object]) -> None:
    rows = [
        {"name": name, "value": value if isinstance(value, int) else str(value)}
        for name, value in facts.items()
        if value is not None
    ]
    output.table(rows, {"name": "", "value": ""})
