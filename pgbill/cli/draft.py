"""`pgbill draft`: decide about what runs have held back for review."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgbill.cli import output, rows
from pgbill.cli.reason import checked
from pgbill.errors import UsageError

if TYPE_CHECKING:
    from psycopg import Connection

    from pgbill.drafts import Decision, Draft

commands = typer.Typer(
    no_args_is_help=True, help="Review what runs have held back, before it is issued."
)

DraftId = Annotated[
    int,
    typer.Argument(
        metavar="DRAFT", min=1, max=2**63 - 1, help="As shown by pgbill draft list."
    ),
]
DraftIds = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="DRAFT...", min=1, max=2**63 - 1, help="As shown by pgbill draft list."
    ),
]
OfRun = Annotated[
    int | None,
    typer.Option("--run", min=1, max=2**63 - 1, help="All that wait of this run."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]

_COLUMNS = {
    "draft_id": "draft",
    "account_key": "account",
    "period_end": "period end",
    "currency": "",
    "gross_amount": "gross",
    "previous_gross_amount": "before",
    "run_id": "run",
    "held_at": "held",
    "state": "state",
    "why": "why",
}
_LINES = {
    "description": "line",
    "service": "service",
    "quantity": "quantity",
    "unit_amount": "each",
    "net_amount": "net",
    "tax_rate": "tax %",
}


@commands.command("list")
def list_(
    *,
    run: OfRun = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were decided about.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, envvar="PGBILL_LIMIT", help="How many.")
    ] = 100,
    json: output.AsJson = False,
) -> None:
    """List the drafts that wait for a review, the largest first.

    Example: pgbill draft list --run 12
    """
    from pgbill import config, drafts, runs, server

    with runs.connected(server.dsn(config.load())) as conn:
        found = drafts.find(conn, run_id=run, with_decided=everything, limit=limit)
    if json:
        output.as_json(found)
        return
    output.table([_row(each) for each in found], _COLUMNS)
    if not found:
        output.say("no draft waits.")


@commands.command()
def show(draft_id: DraftId, *, json: output.AsJson = False) -> None:
    """Show a draft: why it was held back, its lines, its amounts.

    Example: pgbill draft show 7
    """
    from dataclasses import asdict

    from pgbill import config, drafts, runs, server

    with runs.connected(server.dsn(config.load())) as conn:
        draft = drafts.get(conn, draft_id)
        lines = drafts.lines(conn, draft)
    if json:
        output.as_json({**asdict(draft), "lines": [asdict(each) for each in lines]})
        return
    hidden = {"bucket", "account_id", "reasons"}
    (facts,) = rows.of([draft])
    output.table(
        [
            {"name": name.replace("_", " "), "value": str(value)}
            for name, value in facts.items()
            if value is not None and name not in hidden
        ],
        {"name": "", "value": ""},
    )
    for each in draft.reasons:
        output.line(f"held because {each}")
    output.line("")
    of_lines = [
        {**row, "service": f"from {row['service_from']} to {row['service_through']}"}
        for row in rows.of(lines)
    ]
    output.table(of_lines, _LINES)


@commands.command()
def approve(
    draft_ids: DraftIds = None,
    *,
    run: OfRun = None,
    reason: Annotated[str | None, typer.Option(help="Why; it is kept.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Approve drafts: the next run issues them, if nothing has changed in them.

    With PGBILL_REVIEW_BY_ANOTHER, whoever has started the run does not approve.

    Example: pgbill draft approve 7 8 --reason "checked with sales"
    """
    why = None if reason is None else checked(reason)
    _decide("approved", draft_ids, run, reason=why, dry_run=dry_run)


@commands.command()
def discard(
    draft_ids: DraftIds = None,
    *,
    run: OfRun = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept.")],
    dry_run: DryRun = False,
) -> None:
    """Discard drafts: the next run rates the accounts anew.

    Mend first what was wrong, or it comes out the same. An account that is not to be
    billed at all is parked: pgbill account park.

    Example: pgbill draft discard 7 --reason "quantity corrected"
    """
    _decide("discarded", draft_ids, run, reason=checked(reason), dry_run=dry_run)


def _decide(
    decision: "Decision",
    draft_ids: list[int] | None,
    run_id: int | None,
    *,
    reason: str | None,
    dry_run: bool,
) -> None:
    from pgbill import config, drafts, login, runs, server

    if bool(draft_ids) == (run_id is not None):
        raise UsageError("name drafts or --run.")
    with runs.connected(server.dsn(config.load())) as conn:
        chosen = _chosen(conn, draft_ids, run_id)
        if not dry_run:
            drafts.decide(conn, chosen, decision, reason=reason, by=login.who())
        held_by = sorted({each.run_id for each in chosen})
        asked = dict.fromkeys(runs.get(conn, each).command for each in held_by)
    are = "would be" if dry_run else "is" if len(chosen) == 1 else "are"
    output.say(f"{output.count(len(chosen), 'draft')} {are} {decision}.")
    if not dry_run:
        for each in asked:
            output.say(f"now: {each}")


def _chosen(
    conn: "Connection[Any]", draft_ids: list[int] | None, run_id: int | None
) -> "list[Draft]":
    from pgbill import drafts, runs

    if run_id is not None:
        runs.get(conn, run_id)
        return drafts.find(conn, run_id=run_id, limit=None)
    return [drafts.get(conn, each) for each in dict.fromkeys(draft_ids or [])]


def _row(draft: "Draft") -> dict[str, object]:
    (row,) = rows.of([draft])
    by = f" by {draft.decided_by}" if draft.decided_by else ""
    return {
        **row,
        "state": f"{draft.decision}{by}" if draft.decision else "waits",
        "why": "; ".join(draft.reasons),
    }
