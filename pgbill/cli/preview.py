"""`pgbill preview`: the next invoice of an account before it is issued."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output, rows, sheet

if TYPE_CHECKING:
    from pgbill.preview import Preview

commands = typer.Typer()


@commands.command()
def preview(
    account: Annotated[str, typer.Argument(help="The key of the billing account.")],
    *,
    json: output.AsJson = False,
) -> None:
    """Show what the next invoice of an account would be if it were issued now.

    Its earliest open period is rated as a run does it, with what is known at this
    moment. Nothing is written. A tax service is not asked: an answer that it has
    given before to the same question counts, else there is no tax.

    Exits with 1 if a run could not bill the account. Reads PGBILL_DSN,
    PGBILL_MAX_DUE_PERIODS and PGBILL_TAX_URL.

    Example: pgbill preview A-1042
    """
    from pgbill import config, db, preview, roles, server, taxprovider

    settings = config.load()
    by_table = taxprovider.chosen(settings) is None
    dsn = server.dsn(settings)
    with contextlib.closing(
        db.connect(dsn, role=roles.WORKER, application="preview")
    ) as conn:
        shown = preview.look(
            conn,
            account,
            max_due_periods=settings.max_due_periods,
            tax_by_table=by_table,
        )
    if json:
        output.as_json(shown)
    else:
        _print(shown)
    if shown.totals.problem is not None:
        raise typer.Exit(1)


def _print(shown: "Preview") -> None:
    account, totals = shown.account, shown.totals
    sheet.facts(
        {
            "account": f"{account.legal_name} ({account.key})",
            "period": f"{totals.period_start} to {totals.period_end}",
        }
    )
    for remark in shown.remarks:
        output.line(remark)
    if shown.lines:
        output.line("")
        sheet.lines(rows.of(shown.lines))
    if shown.taxes:
        output.line("")
        sheet.taxes(rows.of(shown.taxes))
    amounts = {
        "net": totals.net_amount,
        "tax": totals.tax_amount,
        "gross": totals.gross_amount,
        "prepaid credit available": totals.prepaid_left_amount or None,
    }
    known = {name: amount for name, amount in amounts.items() if amount is not None}
    if known:
        output.line("")
        sheet.totals(known, account.currency)
