"""Write the figures of one document: amounts in its currency, taxes by their names.

Amounts stand in a column whose heading names the currency, so they do without; where an
amount stands alone, in a sentence or a total, the currency is written with it. Tax has
the name that the law gives it: who has a VAT id charges VAT, the Canary Islands charge
IGIC, and what bears no tax says why, since 0 % alone would leave that open.
"""

from dataclasses import dataclass
from decimal import Decimal

from pgbill.document import Invoice
from pgbill.wording import Wording

# UNTDID 5305: taxes with a name of their own in every language.
_NAMES = {"L": "IGIC", "M": "IPSI"}
# Those that need a reason, not a rate.
_EXEMPT = {"E", "AE", "K", "G", "O"}


@dataclass(frozen=True, slots=True)
class Figures:
    """How a document writes its figures."""

    words: Wording
    currency: str
    digits: int
    has_vat: bool

    def amount(self, value: Decimal) -> str:
        """Write an amount where its currency stands above."""
        return self.words.number(value, min_digits=self.digits)

    def money(self, value: Decimal) -> str:
        """Write an amount with its currency."""
        return self.words.money(value, currency=self.currency, digits=self.digits)

    def tax_name(self, category: str) -> str:
        """Return what the tax of a category is called."""
        name = "vat_name" if self.has_vat else "tax_name"
        return _NAMES.get(category) or self.words.texts[name]

    def tax(self, category: str, rate: Decimal) -> str:
        """Write a tax in short: its rate, or the reason for none."""
        name = self.tax_name(category)
        if category in _EXEMPT:
            return self.words.say(f"exempt_{category}", tax=name)
        percent = self.words.percent(rate)
        return self.words.whole(self.words.say("rate", tax=name, rate=percent))

    def tax_on(self, category: str, rate: Decimal, taxable: Decimal) -> str:
        """Write a tax and the amount that it is on."""
        text = "exempt" if category in _EXEMPT else "taxed"
        return self.words.say(
            text, tax=self.tax(category, rate), amount=self.money(taxable)
        )


def of(invoice: Invoice, words: Wording) -> Figures:
    """Return the figures of a document."""
    has_vat = bool(invoice.seller.get("vat_id"))
    return Figures(words, invoice.currency, invoice.currency_digits, has_vat)
