"""Issued invoices, read back from the tables that an auditor would ask."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from tests.builders import Account
from tests.catalogs import Table

# The tax of a line alone is not stored; it is what taxes_of says of it.
_LINES = """
SELECT
    line.kind, price.key AS price, line.description, line.quantity, line.unit_amount,
    line.net_amount, line.discount_amount, line.tax_included_amount, line.group_value,
    concat_ws(' ', line.tax_category, trim_scale(line.tax_rate)) AS tax_class,
    tax.tax_amount,
    lower(line.service_period) AS first_on, upper(line.service_period) AS end_on,
    line.rating_input
FROM pgbill.invoice_line AS line
INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)
INNER JOIN pgbill.policy USING (policy_id)
INNER JOIN pgbill.currency USING (currency)
LEFT JOIN pgbill.price USING (price_id)
CROSS JOIN LATERAL pgbill.taxes_of(
    ARRAY[line], currency.digits, policy.tax_rounding_scope, policy.tax_rounding
) AS tax
WHERE line.invoice_id = %s
ORDER BY line.line_no
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an issued invoice."""

    kind: str
    price: str | None
    description: str
    quantity: Decimal
    unit_amount: Decimal | None
    net_amount: Decimal
    discount_amount: Decimal
    tax_included_amount: Decimal | None
    group_value: str | None
    tax_class: str
    tax_amount: Decimal
    first_on: date
    end_on: date
    rating_input: Table

    @property
    def service(self) -> tuple[date, date]:
        """The first day of the service, and the first day after it."""
        return self.first_on, self.end_on


@dataclass(frozen=True, slots=True)
class Invoice:
    """An issued invoice or credit note."""

    kind: str
    period_end: date
    net_amount: Decimal
    tax_amount: Decimal
    gross_amount: Decimal
    prepaid_amount: Decimal
    payable_amount: Decimal
    lines: list[Line]
    taxes: dict[str, tuple[Decimal, Decimal]]
    """By tax class: what is taxed, and the tax."""

    def of_kind(self, *kinds: str) -> list[Line]:
        """Return the lines of some kinds."""
        return [line for line in self.lines if line.kind in kinds]

    def of_price(self, key: str) -> list[Line]:
        """Return the lines of a price."""
        return [line for line in self.lines if line.price == key]


def invoices(conn: Connection[Any], account: Account) -> list[Invoice]:
    """Return the invoices and credit notes of an account, in order."""
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            "SELECT invoice_id, kind, period_end, net_amount, tax_amount, gross_amount,"
            " prepaid_amount, payable_amount FROM pgbill.invoice"
            " WHERE account_id = %s ORDER BY period_end, invoice_id",
            [account.account_id],
        ).fetchall()
    return [
        Invoice(lines=_lines(conn, number), taxes=_taxes(conn, number), **row)
        for row in rows
        if (number := row.pop("invoice_id"))
    ]


def _lines(conn: Connection[Any], invoice_id: int) -> list[Line]:
    with conn.cursor(row_factory=class_row(Line)) as cursor:
        return cursor.execute(_LINES, [invoice_id]).fetchall()


def _taxes(
    conn: Connection[Any], invoice_id: int
) -> dict[str, tuple[Decimal, Decimal]]:
    rows = conn.execute(
        "SELECT concat_ws(' ', tax_category, trim_scale(tax_rate)), taxable_amount,"
        " tax_amount FROM pgbill.invoice_tax WHERE invoice_id = %s",
        [invoice_id],
    )
    return {tax_class: (taxable, tax) for tax_class, taxable, tax in rows}
