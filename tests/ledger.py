"""The invoices of one account, as an accountant reads them.

A `Ledger` is a seller with one account. What is written for it is told in short lines,
so that a test is a story and a column of figures, each of which can be computed by
hand: `lines` with unit amount and tax, `entries` with what was taken off.
"""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from psycopg import Connection

from tests import builders
from tests.actors import POLICY, bill_all
from tests.builders import Account, Price
from tests.shop import FIRST_DAY, value, values

# However long ago the last closing is: a story often begins long before its point.
_PATIENT = replace(POLICY, max_due_periods=1000)

_ENTRY = """
SELECT format(
    '%%s %%s..%%s%%s: %%s = %%s',
    line.kind,
    lower(line.service_period),
    upper(line.service_period) - 1,
    ' [' || line.group_value || ']',
    trim_scale(line.quantity),
    coalesce(line.tax_included_amount, line.net_amount) + line.discount_amount
) || coalesce(
    (
        SELECT string_agg(format(' - %%s %%s', each ->> 'amount', each ->> 'key'), '')
        FROM jsonb_array_elements(line.discounts) AS each
    ),
    ''
) || CASE
    WHEN line.discount_amount = 0 AND line.discounts IS NULL THEN ''
    ELSE format(' = %%s', coalesce(line.tax_included_amount, line.net_amount))
END
"""


class Ledger:
    """A seller in Germany, and the invoices of one account."""

    def __init__(
        self,
        conn: Connection[Any],
        *,
        policy: dict[str, object] | None = None,
        **account: Any,  # noqa: ANN401
    ) -> None:
        """Open an account; there is no tax rate yet."""
        self.conn = conn
        policies: dict[str, Any] = {}
        if policy:
            policies["policy_id"] = builders.policy(conn, **policy)
        self.seller_id = builders.seller(conn, **policies)
        self.account: Account = builders.account(conn, self.seller_id, **account)
        self._runs = 0

    def price(self, unit_amount: str = "10", **columns: Any) -> Price:  # noqa: ANN401
        """Add a price in the currency of the account."""
        return builders.price(
            self.conn,
            self.seller_id,
            amount=unit_amount,
            currency=self.account.currency,
            **columns,
        )

    def metered(
        self,
        unit_amount: str = "1",
        *,
        meter: dict[str, Any] | None = None,
        **columns: Any,  # noqa: ANN401
    ) -> int:
        """Subscribe the account to a price of a new meter; return the meter."""
        meter_id = builders.meter(self.conn, **meter or {})
        self.subscribe(self.price(unit_amount, meter_id=meter_id, **columns))
        return meter_id

    def subscribe(
        self,
        *prices: Price | tuple[Price, str],
        starts_on: date = FIRST_DAY,
        ends_on: date | None = None,
        **columns: Any,  # noqa: ANN401
    ) -> int:
        """Subscribe the account; return the subscription."""
        return builders.subscription(
            self.conn,
            self.account,
            *prices,
            starts_on=starts_on,
            ends_on=ends_on,
            **columns,
        )

    def change(
        self,
        subscription_id: int,
        price: Price,
        on: date,
        *,
        quantity: str = "1",
        to: Price | None = None,
    ) -> None:
        """Let a subscription have another quantity of a price, or another price."""
        self.cancel(subscription_id, price, on)
        builders.segment(
            self.conn,
            self.account,
            subscription_id,
            to or price,
            quantity=quantity,
            starts_on=on,
        )

    def cancel(self, subscription_id: int, price: Price, on: date) -> None:
        """End a price of a subscription."""
        builders.end_segment(self.conn, self.account, subscription_id, price, on)

    def use(
        self,
        meter_id: int,
        *quantities: str,
        on: date = date(2026, 1, 15),
        **columns: Any,  # noqa: ANN401
    ) -> None:
        """Import usage of a day, from noon in Greenwich on."""
        columns.setdefault(
            "occurred_at", datetime(on.year, on.month, on.day, 12, tzinfo=UTC)
        )
        builders.usage(self.conn, self.account, meter_id, *quantities, **columns)

    def bill(
        self, through_on: date = FIRST_DAY, *, issue_on: date | None = None
    ) -> list[str]:
        """Bill through a day, in a run of its own; return the outcomes."""
        self._runs += 1
        return bill_all(
            self.conn,
            self.account,
            through_on=through_on,
            policy=replace(_PATIENT, issue_on=issue_on),
            run_id=self._runs,
        )

    def problem(self) -> str | None:
        """Return why the account was not billed."""
        return self._all("SELECT detail FROM pgbill.lease WHERE account_id = %s")[0]

    def lines(self, period_end: date) -> list[str]:
        """Return the lines of an invoice: kind, first and last day, sum, tax."""
        return self._of(
            period_end,
            "SELECT format('%%s %%s..%%s: %%s * %%s = %%s, %%s %%s', line.kind,"
            " lower(service_period), upper(service_period) - 1, quantity, unit_amount,"
            " line.net_amount, tax_category, trim_scale(tax_rate))"
            " FROM pgbill.invoice_line AS line"
            " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
            " WHERE account_id = %s AND period_end = %s ORDER BY line_no",
        )

    def entries(self, period_end: date) -> list[str]:
        """Return the lines of an invoice: what is priced, and what is taken off.

        Amounts include tax where the price does.
        """
        return self._of(
            period_end,
            _ENTRY + " FROM pgbill.invoice_line AS line"
            " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
            " WHERE account_id = %s AND period_end = %s ORDER BY line_no",
        )

    def carried(self, period_end: date) -> list[str]:
        """Return the lines that a closing without an invoice has kept."""
        return self._of(
            period_end,
            _ENTRY + " FROM pgbill.carried_line CROSS JOIN LATERAL"
            " jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line)"
            " AS line WHERE carried_line.account_id = %s"
            " AND carried_line.period_end = %s ORDER BY carried_line.line_no",
        )

    def taxes(self, period_end: date) -> list[str]:
        """Return the taxes of an invoice: category, rate, taxable amount, tax."""
        return self._of(
            period_end,
            "SELECT format('%%s %%s: %%s -> %%s', tax_category, trim_scale(tax_rate),"
            " taxable_amount, tax.tax_amount) FROM pgbill.invoice_tax AS tax"
            " INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id)"
            " WHERE account_id = %s AND period_end = %s ORDER BY 1",
        )

    def totals(self, period_end: date) -> tuple[Decimal, Decimal, Decimal]:
        """Return net, tax and gross of an invoice."""
        net, tax, gross = self._of(
            period_end,
            "SELECT unnest(ARRAY[net_amount, tax_amount, gross_amount])"
            " FROM pgbill.invoice WHERE account_id = %s AND period_end = %s",
        )
        return net, tax, gross

    def prepaid(self) -> list[str]:
        """Return for each invoice: gross, and what credit has paid of it, by key."""
        return self._all(
            "SELECT format('%%s: %%s', gross_amount, coalesce((SELECT string_agg("
            " format('%%s %%s', application.amount, credit.key), ', '"
            " ORDER BY available_on, prepaid_credit_id)"
            " FROM pgbill.credit_application AS application"
            " INNER JOIN pgbill.prepaid_credit AS credit"
            " USING (bucket, account_id, prepaid_credit_id)"
            " WHERE application.account_id = invoice.account_id"
            " AND application.invoice_id = invoice.invoice_id), 'nothing'))"
            " FROM pgbill.invoice WHERE account_id = %s ORDER BY invoice_id"
        )

    def states(self) -> list[str]:
        """Return what has become of each usage record, in order of time and import."""
        return self._all(
            "SELECT format('%%s: %%s', quantity, concat_ws(', ', state, reason))"
            " FROM pgbill.usage_state WHERE account_id = %s"
            " ORDER BY occurred_at, import_seq, key"
        )

    def _all(self, query: str) -> list[Any]:
        return values(self.conn, query, self.account.account_id)

    def _of(self, period_end: date, query: str) -> list[Any]:
        return values(self.conn, query, self.account.account_id, period_end)


def has_charge_waiting(ledger: Ledger) -> bool:
    """Tell whether a charge of the account stands on no line."""
    answer: bool = value(
        ledger.conn,
        "SELECT EXISTS (SELECT FROM pgbill.charge WHERE account_id = %s"
        " AND NOT pgbill.is_charge_billed(bucket, account_id, charge_id))",
        ledger.account.account_id,
    )
    return answer
