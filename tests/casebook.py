"""Take a worked case through the product: a catalog, an account, a run, an invoice.

The tables in `tests/cases` hold public figures, each with its source. A case names
models and policies as a catalog does, and it is the catalog that is applied; so what is
tested is what a user can write. `Book` keeps one account.
"""

import csv
import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from pgbill.issuing import Policy
from tests import builders, catalogs, issued
from tests.actors import bill_all
from tests.builders import Account, Price
from tests.catalogs import Table
from tests.issued import Invoice
from tests.shop import FIRST_DAY, findings, value

FOLDER = Path(__file__).parent / "cases"
UNTAXED = "Z 0"
LAST_DAY = date(2026, 1, 31)
"""Of the month that a case is about if it does not say."""

# Figures of years ago are billed in one go, which a real run would ask about first.
_POLICY = Policy(mode="live", issue_on=None, max_due_periods=1000, max_attempts=5)
_SENTENCES = {
    "AE": "Reverse charge: the recipient owes the tax.",
    "E": "Exempt from tax.",
    "G": "Export outside the Union.",
    "K": "Intra-community supply.",
    "O": "Outside the scope of tax.",
}


def table(name: str) -> Table:
    """Read a table of cases that is written as TOML."""
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def sheet(name: str) -> list[dict[str, str]]:
    """Read a table of cases that is written as CSV."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def days(text: str) -> tuple[date, date]:
    """Read "2026-01-10/2026-02-01": the first day, and the first day after."""
    first, end = text.split("/")
    return date.fromisoformat(first), date.fromisoformat(end)


class Book:
    """One account of one seller, whose catalog is declared first."""

    def __init__(
        self,
        conn: Connection[Any],
        folder: Path,
        *,
        currency: str = "EUR",
        policy: Table | None = None,
    ) -> None:
        """Begin a catalog; nothing is written yet."""
        self.conn = conn
        self.folder = folder
        self.currency = currency
        self._policy = policy or {}
        self._meters: Table = {}
        self._prices: Table = {}
        self._tax_classes = {UNTAXED: "0"}
        self._account: Account | None = None

    # The catalog.

    def meter(self, key: str = "used", **columns: object) -> str:
        """Declare a meter."""
        self._meters[key] = {"name": key, "unit_code": "C62", **columns}
        return key

    def price(
        self,
        key: str,
        terms: Table,
        *,
        meter: str | None = None,
        timing: str = "arrears",
        tax: str = UNTAXED,
        **columns: object,
    ) -> str:
        """Declare a price by its terms: the model, and the keys of its only version."""
        said = dict(terms)
        price: Table = {
            "seller": "northlight",
            "currency": self.currency,
            "model": said.pop("model"),
            "timing": timing,
            "unit_code": "C62",
            "tax_class": self.tax(tax),
            "line_texts": {"en": key},
            "versions": [{"begins_on": date(2000, 1, 1), **said}],
            **columns,
        }
        if meter is not None:
            price["meter"] = meter
        self._prices[key] = price
        return key

    def fee(self, key: str, amount: str, **columns: Any) -> str:  # noqa: ANN401
        """Declare a flat price."""
        return self.price(key, {"model": "flat", "amount": amount}, **columns)

    def tax(self, tax_class: str) -> str:
        """Declare a tax class: its category and percentage, "S 19" or "S 6 + 2"."""
        self._tax_classes[tax_class] = tax_class.split(maxsplit=1)[1]
        return tax_class

    def _declared(self) -> Table:
        seller = catalogs.DECLARED["sellers"]["northlight"]
        changed = {"home_currency": self.currency, "policy": self._policy}
        return {
            "sellers": {"northlight": seller | changed},
            "meters": self._meters,
            "prices": self._prices,
            "tax_rates": [self._tax_rate(name) for name in self._tax_classes],
        }

    def _tax_rate(self, name: str) -> Table:
        category, percentages = name.split(maxsplit=1)
        rates = percentages.split(" + ")
        rate: Table = {
            "seller_country": "DE",
            "buyer_country": "DE",
            "buyer_status": "business",
            "tax_class": name,
            "category": category,
            "rate": rates[0] if len(rates) == 1 else rates,
            "begins_on": date(2000, 1, 1),
        }
        if category in _SENTENCES:
            rate["legal_text"] = _SENTENCES[category]
        return rate

    # What the account has.

    def open(
        self,
        *,
        starts_on: date = FIRST_DAY,
        **columns: Any,  # noqa: ANN401
    ) -> None:
        """Apply the catalog, and open the account."""
        catalogs.apply(self.conn, self.folder, self._declared())
        self._account = builders.account(
            self.conn,
            value(self.conn, "SELECT seller_id FROM pgbill.seller"),
            first_period_on=starts_on,
            currency=self.currency,
            vat_id="DE136695976",
            **{"zone": "UTC", **columns},
        )

    @property
    def account(self) -> Account:
        """Refer to the account, which is open."""
        assert self._account is not None
        return self._account

    def subscribe(
        self,
        *keys: str,
        starts_on: date | None = None,
        ends_on: date | None = None,
        quantity: str = "1",
    ) -> int:
        """Subscribe to prices, from the account's first day on if it is not said."""
        first_on = starts_on or value(
            self.conn, "SELECT first_period_on FROM pgbill.account"
        )
        prices = [(self._stored_price(key), quantity) for key in keys]
        return builders.subscription(
            self.conn, self.account, *prices, starts_on=first_on, ends_on=ends_on
        )

    def _stored_price(self, key: str) -> Price:
        with self.conn.cursor(row_factory=class_row(Price)) as cursor:
            cursor.execute(
                "SELECT price_id, key, seller_id, currency::text, meter_id"
                " FROM pgbill.price WHERE key = %s",
                [key],
            )
            found = cursor.fetchone()
        assert found is not None
        return found

    def change(
        self, subscription_id: int, *, old: str, new: str, on: date, quantity: str = "1"
    ) -> None:
        """Let a subscription have another price from a day on."""
        builders.end_segment(
            self.conn, self.account, subscription_id, self._stored_price(old), on
        )
        builders.segment(
            self.conn,
            self.account,
            subscription_id,
            self._stored_price(new),
            starts_on=on,
            quantity=quantity,
        )

    def use(
        self,
        *quantities: str,
        at: datetime = datetime(2026, 1, 15, 12, tzinfo=UTC),
        meter: str = "used",
        dimensions: dict[str, str] | None = None,
    ) -> None:
        """Import usage records, a second apart, as one import."""
        meter_id = value(
            self.conn, "SELECT meter_id FROM pgbill.meter WHERE key = %s", meter
        )
        builders.usage(
            self.conn,
            self.account,
            meter_id,
            *quantities,
            occurred_at=at,
            dimensions=dimensions,
        )

    def charge(
        self, unit_amount: str | Decimal, *, tax: str = UNTAXED, **columns: object
    ) -> None:
        """Charge something once, in the month of the case."""
        builders.charge(
            self.conn,
            self.account,
            unit_amount=Decimal(unit_amount),
            tax_class=tax,
            **columns,
        )

    def discount(self, said: str, *, ends_on: date | None = None) -> None:
        """Grant a discount: "10%" is a percentage, "10.00" an amount."""
        percent = said.removesuffix("%")
        kind = ("amount", "percent")[said.endswith("%")]
        rate: dict[str, Any] = {kind: percent}
        builders.discount(self.conn, self.account, ends_on=ends_on, **rate)

    def prepay(self, amount: str) -> None:
        """Pay something in advance."""
        builders.prepaid_credit(self.conn, self.account, amount)

    # What becomes of it.

    def bill(self, through_on: date = LAST_DAY) -> list[str]:
        """Bill through a day, period by period; return the outcomes."""
        return bill_all(self.conn, self.account, through_on=through_on, policy=_POLICY)

    def invoices(self) -> list[Invoice]:
        """Return the issued invoices, after all audits have found nothing."""
        assert findings(self.conn) == {}
        return issued.invoices(self.conn, self.account)

    def invoice(self) -> Invoice:
        """Return the only invoice."""
        (only,) = self.invoices()
        return only
