"""`pgbill invoice`: look at what was issued; `cli.correction` adds what corrects it."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output, rows, sheet

if TYPE_CHECKING:
    from pgbill.invoice import Document

commands = typer.Typer(
    no_args_is_help=True,
    help="Look at issued invoices and credit notes, and correct them.",
)

_LIST = {
    "number": "number",
    "account": "account",
    "buyer": "buyer",
    "state": "state",
    "period_start": "from",
    "period_end": "until",
    "issued_on": "issued",
    "payable_on": "payable",
    "gross_amount": "gross",
    "payable_amount": "to pay",
    "currency": "currency",
}
_DELIVERIES = {
    "message_id": "message",
    "address": "to",
    "state": "state",
    "attempts": "attempts",
    "last_attempt_at": "last attempt",
    "reply": "reply",
}


@commands.command("list")
def list_(
    *,
    account: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only of this billing account.")
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(min=1, max=2**63 - 1, help="Only those that a run issued."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many, the newest first.")
    ] = 50,
    json: output.AsJson = False,
) -> None:
    """List issued invoices, the newest first.

    Example: pgbill invoice list --account A-1042
    """
    from pgbill import config, db, invoice, roles, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="invoice")
    ) as conn:
        found = invoice.find(conn, account_key=account, run_id=run, limit=limit)
    if json:
        output.as_json(found)
    else:
        output.table(rows.of(found), _LIST)


@commands.command()
def show(
    number: Annotated[str, typer.Argument(help="As printed: NL-000042.")],
    *,
    seller: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Needed if several sellers use the number."),
    ] = None,
    json: output.AsJson = False,
) -> None:
    """Show an invoice: its lines, taxes and totals, and how its delivery stands.

    Example: pgbill invoice show NL-000042
    """
    from pgbill import config, db, invoice, roles, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.READER, application="invoice")
    ) as conn:
        document = invoice.get(conn, number, seller=seller)
    if json:
        output.as_json(document)
    else:
        _print(document)


def _print(document: "Document") -> None:
    head = document.header
    period = f"{head.period_start} to {head.period_end}" if head.period_end else None
    state = f"{head.state}: {head.cancellation_reason}"
    facts = {
        "number": head.number,
        "kind": head.kind.replace("_", " "),
        "mode": head.mode,
        "state": state if head.cancellation_reason else head.state,
        "seller": f"{head.seller_name} ({head.seller})",
        "buyer": f"{head.buyer_name} ({head.account})",
        "period": period,
        "issued": f"{head.issued_on} (at {head.issued_at:%Y-%m-%d %H:%M:%S} UTC)",
        "tax point": head.tax_point_on,
        "payable": head.payable_on,
        "run": head.run_id,
        "issued by": head.issued_by and f"{head.issued_by}: {head.reason}",
    }
    sheet.facts(facts)
    for each in document.related:
        output.line(
            f"{each.relation} {each.number} of {each.gross_amount} {head.currency},"
            f" issued on {each.issued_on}"
        )
    output.line("")
    sheet.lines(rows.of(document.lines))
    output.line("")
    sheet.taxes(rows.of(document.taxes))
    output.line("")
    totals = {
        "net": head.net_amount,
        "tax": head.tax_amount,
        "gross": head.gross_amount,
    }
    if head.prepaid_amount:
        totals["prepaid credit"] = -head.prepaid_amount
        totals["payable"] = head.payable_amount
    sheet.totals(totals, head.currency)
    output.line("")
    output.table(rows.of(document.deliveries), _DELIVERIES)
