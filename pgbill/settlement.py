"""Say what a document comes to, and what the buyer has to do.

Figures are those of the invoice row; nothing is added up here. An invoice that prepaid
credit has paid in part asks for the rest; one that it has paid in full, or that comes
to nothing, says that nothing is to be paid, and asks for nothing. A credit note is in
the buyer's favour: it never asks, and names no day.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgbill import figures
from pgbill.document import Document, Invoice
from pgbill.wording import Wording

# UNTDID 4461, by what the buyer has to do.
_TRANSFERS = {"30", "31", "42", "58"}
_DIRECT_DEBITS = {"49", "59"}


@dataclass(frozen=True, slots=True)
class TaxRow:
    """A tax in the totals."""

    label: str
    legal_text: str | None
    amount: str


@dataclass(frozen=True, slots=True)
class Sum:
    """A row below the taxes: the total, and what becomes of it."""

    label: str
    amount: str
    is_main: bool


@dataclass(frozen=True, slots=True)
class Settlement:
    """The totals, and the payment."""

    headline: str
    headline_label: str
    headline_note: str | None
    net: str
    taxes: list[TaxRow]
    sums: list[Sum]
    home_tax: tuple[str, str] | None
    payment: str | None
    discount: str | None
    bank: list[tuple[str, str]]


def of(document: Document, words: Wording) -> Settlement:
    """Say what a document comes to; the signs are those that it prints."""
    invoice = document.invoice
    figure = figures.of(invoice, words)
    is_credit, is_owed = invoice.kind == "credit_note", is_payable(invoice)
    payable = figure.money(invoice.payable_amount)
    total = figure.money(invoice.gross_amount)
    note = words.texts["nothing_payable"]
    if is_owed:
        note = words.say("payable", date=words.day(invoice.payable_on))
    return Settlement(
        headline=total if is_credit else payable,
        headline_label=words.texts[_headline(invoice)],
        headline_note=None if is_credit else note,
        net=figure.amount(invoice.net_amount),
        taxes=_taxes(document, words),
        sums=list(_sums(invoice, words)),
        home_tax=_home_tax(invoice, words),
        payment=_payment(invoice, words, amount=payable),
        discount=_discount(invoice, words) if is_owed else None,
        bank=_bank(invoice, words) if is_owed else [],
    )


def is_payable(invoice: Invoice) -> bool:
    """Return whether something remains to be paid."""
    return invoice.kind == "invoice" and invoice.payable_amount > 0


def _headline(invoice: Invoice) -> str:
    if invoice.kind == "credit_note":
        return "credited"
    return "to_pay" if invoice.prepaid_amount else "total"


def _taxes(document: Document, words: Wording) -> list[TaxRow]:
    figure = figures.of(document.invoice, words)
    rows: list[TaxRow] = []
    for tax in document.taxes:
        label = figure.tax_on(tax.tax_category, tax.tax_rate, tax.taxable_amount)
        label = label[:1].upper() + label[1:]
        rows.append(TaxRow(label, tax.legal_text, figure.amount(tax.tax_amount)))
    return rows


def _sums(invoice: Invoice, words: Wording) -> Iterator[Sum]:
    """Go from the total to what remains, if prepaid credit has paid of it."""
    money, texts = figures.of(invoice, words).money, words.texts
    yield Sum(texts["total"], money(invoice.gross_amount), is_main=True)
    prepaid = invoice.prepaid_amount
    if prepaid and invoice.kind == "credit_note":
        yield Sum(texts["returned"], money(prepaid), is_main=False)
    elif prepaid:
        yield Sum(texts["prepaid"], money(prepaid.copy_negate()), is_main=False)
        yield Sum(texts["to_pay"], money(invoice.payable_amount), is_main=True)


def _home_tax(invoice: Invoice, words: Wording) -> tuple[str, str] | None:
    if invoice.home_tax_amount is None:
        return None
    currency = invoice.home_currency
    amount = words.money(
        invoice.home_tax_amount, currency=currency, digits=invoice.home_currency_digits
    )
    return words.say("home_tax", currency=currency), amount


def _payment(invoice: Invoice, words: Wording, *, amount: str) -> str | None:
    """Say what the buyer has to do; none if nothing is to be paid."""
    if not is_payable(invoice):
        return None
    means = invoice.buyer.get("payment_means")
    if means in _DIRECT_DEBITS:
        return words.say("direct_debit", amount=amount)
    how = "transfer" if means in _TRANSFERS else "pay_otherwise"
    date = words.day(invoice.payable_on)
    return words.say(how, amount=amount, date=date, number=invoice.number_text)


def _discount(invoice: Invoice, words: Wording) -> str | None:
    if invoice.discount_percent is None or invoice.discount_until_on is None:
        return None
    return words.say(
        "discount",
        percent=words.percent(invoice.discount_percent),
        date=words.day(invoice.discount_until_on),
    )


def _bank(invoice: Invoice, words: Wording) -> list[tuple[str, str]]:
    """Return where to transfer to: the seller's account for the currency."""
    if invoice.buyer.get("payment_means") not in _TRANSFERS:
        return []
    account = invoice.seller.get("bank_accounts", {}).get(invoice.currency, {})
    return [
        (words.texts[name], account[name])
        for name in ("iban", "bic", "bank")
        if account.get(name)
    ]
