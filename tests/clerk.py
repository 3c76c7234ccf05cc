"""A clerk who corrects invoices, as the commands do, and reads what has come of it."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection

from pgbill import correction, invoice, reissue
from pgbill.correction import Correction, Order, Taking
from pgbill.invoice import Header
from tests.builders import Account
from tests.shop import value, values

ORDER = Order("agreed on the phone", "anna@office.example.com")
DRY_RUN = Order(ORDER.reason, ORDER.issued_by, is_dry_run=True)

Triple = tuple[Decimal, Decimal, Decimal]


@dataclass(frozen=True, slots=True)
class Clerk:
    """Corrects the invoices of one account."""

    conn: Connection[Any]
    account: Account

    def number(self, period_end: date, revision: int | None = None) -> str:
        """Return the number of the invoice of a closing: of its newest revision."""
        number: str = value(
            self.conn,
            "SELECT number_text FROM pgbill.invoice_overview WHERE account_id = %s"
            " AND period_end = %s AND revision = coalesce(%s, revision)"
            " ORDER BY revision DESC LIMIT 1",
            self.account.account_id,
            period_end,
            revision,
        )
        return number

    def head(self, number: str) -> Header:
        """Return the head of a document of the account's seller."""
        seller = value(
            self.conn,
            "SELECT key FROM pgbill.seller WHERE seller_id = %s",
            self.account.seller_id,
        )
        return invoice.header(self.conn, number, seller=seller)

    def credit(
        self,
        number: str,
        *lines: tuple[int, str | None],
        amount: str | None = None,
        order: Order = ORDER,
    ) -> Correction:
        """Credit lines with amounts, or an amount with tax, or all that is left."""
        takings = [
            Taking(line_no, None if given is None else Decimal(given))
            for line_no, given in lines
        ]
        return correction.credit(
            self.conn,
            self.head(number),
            order,
            takings=takings or None,
            amount=None if amount is None else Decimal(amount),
        )

    def cancel(self, number: str, order: Order = ORDER) -> Correction:
        """Cancel an invoice."""
        return correction.cancel(self.conn, self.head(number), order)

    def reissue(self, number: str, order: Order = ORDER) -> Correction:
        """Issue an invoice again, with tax by the table of rates."""
        with reissue.opened(None) as reissuing:
            return reissuing.reissue(self.conn, self.head(number), order)

    def left(self, number: str) -> Triple:
        """Return what is left of an invoice: net, tax, gross."""
        head = self.head(number)
        row = self.conn.execute(
            "SELECT sum(net_amount), sum(tax_amount), sum(gross_amount)"
            " FROM pgbill.invoice WHERE bucket = %s AND account_id = %s"
            " AND %s IN (invoice_id, credited_invoice_id)",
            [head.bucket, head.account_id, head.invoice_id],
        ).fetchone()
        assert row is not None
        return row

    def documents(self) -> list[str]:
        """Return all documents of the account: number, gross, what credit has paid."""
        return values(
            self.conn,
            "SELECT concat_ws(' ', number_text, gross_amount,"
            " nullif(prepaid_amount, 0), nullif(state, 'issued'))"
            " FROM pgbill.invoice_overview WHERE account_id = %s ORDER BY invoice_id",
            self.account.account_id,
        )
