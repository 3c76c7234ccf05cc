"""`pgbill invoice`: look at what was issued."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output, rows

if TYPE_CHECKING:
    from pgbill.invoice import Document

commands = typer.Typer(
    no_args_is_help=True, help="Look at issued invoices and credit notes."
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
    "currency": "currency",
}
_LINES = {
    "line_no": "line",
    "description": "description",
    "service_from": "from",
    "service_until": "until",
    "quantity": "quantity",
    "unit_amount": "unit amount",
    "days": "days",
    "net_amount": "net",
    "tax": "tax",
}
_TAXES = {"tax": "tax", "taxable_amount": "of", "tax_amount": "amount"}
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
    }
    output.table(
        [{"name": k, "value": v} for k, v in facts.items() if v is not None],
        {"name": "", "value": ""},
    )
    output.line("")
    _print_lines(document)
    output.line("")
    output.table([_with_tax(row) for row in rows.of(document.taxes)], _TAXES)
    for text in dict.fromkeys(each.legal_text for each in document.taxes):
        if text:
            output.line(text)
    output.line("")
    totals = {
        "net": head.net_amount,
        "tax": head.tax_amount,
        "gross": head.gross_amount,
    }
    output.table(
        [{"name": k, "value": v, "unit": head.currency} for k, v in totals.items()],
        {"name": "", "value": "", "unit": ""},
    )
    output.line("")
    output.table(rows.of(document.deliveries), _DELIVERIES)


def _print_lines(document: "Document") -> None:
    """Print the lines; the days that they are for only if one of them is prorated."""
    lines = [_with_tax(row) for row in rows.of(document.lines)]
    columns = dict(_LINES)
    if all(row["part_days"] is None for row in lines):
        del columns["days"]
    for row in lines:
        if row["part_days"] is not None:
            row["days"] = f"{row['part_days']}/{row['whole_days']}"
    output.table(lines, columns)


def _with_tax(row: dict[str, object]) -> dict[str, object]:
    return {**row, "tax": f"{row['tax_category']} {row['tax_rate']} %"}
