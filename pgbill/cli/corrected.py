"""Print what corrections have come to, or would come to: documents, or one row each."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from pgbill.cli import output, rows, sheet

if TYPE_CHECKING:
    from pgbill.bulk import Outcome
    from pgbill.correction import Correction, Document

_BULK = {
    "number": "number",
    "state": "outcome",
    "credit_note": "credit note",
    "invoice": "new invoice",
    "old_amount": "old total",
    "left_amount": "left before",
    "new_amount": "new total",
    "difference": "difference",
    "currency": "currency",
    "reason": "reason",
}
_LINES = {
    "credited_line_no": "of line",
    "description": "description",
    "tax_included_amount": "with tax",
    "net_amount": "net",
    "tax_rate": "tax rate",
}


def show(done: "Correction") -> None:
    """Print the documents that were written for an invoice."""
    would = "would be" if done.is_dry_run else "was"
    if done.credit_note is None and done.invoice is None:
        output.say(f"{done.number} {would} cancelled; all of it had been credited.")
    if done.credit_note is not None:
        _print_document(done.credit_note, f"{would} issued for {done.number}")
    if done.invoice is not None:
        if done.credit_note is not None:
            output.line("")
        _print_document(done.invoice, f"{would} issued in place of {done.number}")
        output.line("")
        sheet.totals(_compared(done, done.invoice), done.invoice.currency)


def _compared(done: "Correction", again: "Document") -> dict[str, Decimal]:
    amounts = {
        "old total": done.gross_amount,
        "left before": done.left_amount,
        "new total": again.gross_amount,
        "difference": done.difference_amount,
    }
    return {name: each for name, each in amounts.items() if each is not None}


def _print_document(document: "Document", what: str) -> None:
    kind = document.kind.replace("_", " ")
    name = f"{kind} {document.number}" if document.number else output.a(kind)
    output.line(f"{name} {what}, dated {document.issued_on}:")
    of_lines = rows.of(document.lines)
    columns = {
        name: heading
        for name, heading in _LINES.items()
        if any(row[name] is not None for row in of_lines)
    }
    output.table(of_lines, columns)
    totals = {
        "net": document.net_amount,
        "tax": document.tax_amount,
        "gross": document.gross_amount,
    }
    if document.prepaid_amount:
        totals["prepaid credit"] = -document.prepaid_amount
        totals["payable"] = document.payable_amount
    sheet.totals(totals, document.currency)


def show_all(outcomes: "Sequence[Outcome]") -> None:
    """Print a row for each invoice that a file names."""
    output.table([_row(each) for each in outcomes], _BULK)


def _row(outcome: "Outcome") -> dict[str, object]:
    done = outcome.correction
    row: dict[str, object] = {
        "number": outcome.number,
        "state": outcome.state,
        "reason": outcome.reason,
    }
    if done is None:
        return row
    note, again = done.credit_note, done.invoice
    return row | {
        "credit_note": note.number if note else None,
        "invoice": again.number if again else None,
        "old_amount": done.gross_amount,
        "left_amount": done.left_amount,
        "new_amount": again.gross_amount if again else None,
        "difference": done.difference_amount,
        "currency": again.currency if again else note.currency if note else None,
    }
