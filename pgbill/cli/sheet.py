"""Print the lines, taxes and totals of a document as tables, issued or not."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import cast

from pgbill.cli import output

_LINES = {
    "line_no": "line",
    "description": "description",
    "service_from": "from",
    "service_until": "until",
    "quantity": "quantity",
    "unit_amount": "unit amount",
    "per": "per",
    "share": "part",
    "discount_amount": "discount",
    "tax_included_amount": "with tax",
    "net_amount": "net",
    "tax": "tax",
}
# What only some lines have.
_RARE = {
    *("unit_amount", "per", "share"),
    *("discount_amount", "tax_included_amount", "tax"),
}
_TAXES = {"tax": "tax", "taxable_amount": "of", "tax_amount": "amount"}
_NAMED = {"name": "", "value": ""}

Rows = Sequence[Mapping[str, object]]


def facts(values: Mapping[str, object]) -> None:
    """Print what is known by its name, one a line."""
    known = [{"name": k, "value": v} for k, v in values.items() if v is not None]
    output.table(known, _NAMED)


def lines(rows: Rows) -> None:
    """Print lines, what they are the sum of, and what was taken off them.

    Columns that would be empty are left out.
    """
    cells = [
        {
            **row,
            "per": None if row["per_quantity"] == 1 else row["per_quantity"],
            "share": _share(row),
            "discount_amount": row["discount_amount"] or None,
            "tax": _tax(row),
        }
        for row in rows
    ]
    columns = {
        name: heading
        for name, heading in _LINES.items()
        if name not in _RARE or any(cell[name] is not None for cell in cells)
    }
    output.table(cells, columns)
    for row in rows:
        if row["sum"]:
            output.line(f"line {row['line_no']}: {row['sum']}")
        for each in cast("list[dict[str, str]]", row["discounts"] or []):
            text = each["text"] or each["key"]
            output.line(f"line {row['line_no']}: {text}: {-Decimal(each['amount'])}")


def taxes(rows: Rows) -> None:
    """Print taxes and the sentences that the law wants."""
    output.table([{**row, "tax": _tax(row)} for row in rows], _TAXES)
    for text in dict.fromkeys(row["legal_text"] for row in rows):
        if text:
            output.line(str(text))


def totals(amounts: Mapping[str, Decimal], currency: str) -> None:
    """Print amounts by their names."""
    rows = [{"name": k, "value": v, "unit": currency} for k, v in amounts.items()]
    output.table(rows, {**_NAMED, "unit": ""})


def _share(row: Mapping[str, object]) -> str | None:
    if row["part"] is None:
        return None
    share = f"{row['part']}" if row["whole"] == 1 else f"{row['part']}/{row['whole']}"
    return share if row["part_unit"] == "periods" else f"{share} {row['part_unit']}"


def _tax(row: Mapping[str, object]) -> str | None:
    if row["tax_category"] is None:
        return None
    return f"{row['tax_category']} {row['tax_rate']} %"
