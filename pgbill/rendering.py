"""Write out a document as text and as HTML, in the language of its account.

Names come from outside and can hold anything. HTML is escaped, what is missing is an
error and not a hole, and a control character never reaches the page: it could forge a
line of the invoice. The templates decide how it looks, `wording` what it is called;
here is what it says.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any

import jinja2
from markupsafe import Markup

from pgbill import resources, wording
from pgbill.document import Document, Invoice, Line, Tax
from pgbill.wording import Wording

# UNTDID 4461, by what the buyer has to do.
_TRANSFERS = {"30", "31", "42", "58"}
_DIRECT_DEBITS = {"49", "59"}

_BREAKS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029]+")
# These reorder, or hide, what stands beside them.
_BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class _Party:
    legal_name: str
    address: list[str]
    ids: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Line:
    description: str
    service: str
    notes: list[str]
    quantity: str
    unit: str
    unit_amount: str
    part: str | None
    net_amount: str


@dataclass(frozen=True, slots=True)
class _Tax:
    label: str
    legal_text: str | None
    tax_amount: str


def render(document: Document) -> tuple[str, str]:
    """Return the text and the HTML.

    Raises:
        jinja2.TemplateError, LookupError, TypeError: A template asks for what is not
            there.
    """
    context = _context(document)
    text, html = (_template(f"invoice.{kind}.jinja") for kind in ("txt", "html"))
    return text.render(context), html.render(context)


def printable(text: str) -> str:
    """Make one line of a text, without control characters."""
    return _BREAKS.sub(" ", _BIDI_CONTROLS.sub("", text)).strip(" ")


def _finalize(value: object) -> object:
    """Print a name as one line, and nothing that is missing."""
    if value is None:
        raise TypeError("a template prints something that is null")
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.path("templates", "mail")),
        autoescape=jinja2.select_autoescape(("html.jinja",), default=False),
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def _context(document: Document) -> dict[str, object]:
    invoice = document.invoice
    words = wording.find(invoice.language)
    money = partial(
        words.money, currency=invoice.currency, digits=invoice.currency_digits
    )
    is_abroad = invoice.seller.get("country") != invoice.buyer.get("country")
    total, payable_on = money(invoice.gross_amount), words.day(invoice.payable_on)
    return {
        "language": words.language,
        "t": words.texts,
        "say": words.say,
        "is_test": invoice.mode == "test",
        "is_credit": invoice.kind == "credit_note",
        "title": words.texts[invoice.kind],
        "number": invoice.number_text,
        "currency": invoice.currency,
        "payable_on": payable_on,
        "seller": _party(
            invoice.seller, words, ids=("vat_id", "tax_number"), is_abroad=is_abroad
        ),
        "buyer": _party(
            invoice.buyer, words, ids=("vat_id", "registration_id"), is_abroad=is_abroad
        ),
        "facts": list(_facts(document, words)),
        "lines": [_line(line, words, invoice) for line in document.lines],
        "taxes": [_tax(tax, words, invoice, money) for tax in document.taxes],
        "net": _amount(invoice.net_amount, words, invoice),
        "total": total,
        "home_tax": _home_tax(invoice, words),
        "payment": _payment(invoice, words, amount=total, payable_on=payable_on),
        "discount": _discount(invoice, words),
        "bank": _bank(invoice, words),
        "contact": invoice.seller.get("contact_email"),
        "footer": _footer(invoice),
    }


def _amount(value: Decimal, words: Wording, invoice: Invoice) -> str:
    """Write an amount where its currency stands above."""
    return words.number(value, min_digits=invoice.currency_digits)


def _party(
    row: Mapping[str, Any], words: Wording, *, ids: Sequence[str], is_abroad: bool
) -> _Party:
    lines = [
        row["street"],
        row.get("street_2"),
        f"{row['postal_code']} {row['city']}",
        row.get("region"),
        row["country"] if is_abroad else None,
    ]
    return _Party(
        legal_name=row["legal_name"],
        address=[line for line in lines if line],
        ids=[(words.texts[name], row[name]) for name in ids if row.get(name)],
    )


def _facts(document: Document, words: Wording) -> Iterator[tuple[str, str]]:
    invoice, texts = document.invoice, words.texts
    yield texts["number"], invoice.number_text
    yield texts["issued_on"], words.short_day(invoice.issued_on)
    if document.lines:
        first = min(line.service_from_on for line in document.lines)
        last = max(line.service_through_on for line in document.lines)
        yield texts["service"], words.period(first, last)
    if invoice.kind == "invoice":
        yield texts["payable_on"], words.short_day(invoice.payable_on)
    for name in ("customer_number", "buyer_reference"):
        if value := invoice.buyer.get(name):
            yield texts[name], value


def _line(line: Line, words: Wording, invoice: Invoice) -> _Line:
    references = ("purchase_order", "contract_number", "cost_centre")
    notes = [
        words.say(name, value=value)
        for name in references
        if (value := getattr(line, name))
    ]
    if line.kind == "late_usage":
        notes.insert(0, words.texts["late"])
    part = None
    if line.part_days is not None and line.whole_days is not None:
        part = words.part(line.part_days, line.whole_days)
    return _Line(
        description=line.description,
        service=words.period(line.service_from_on, line.service_through_on),
        notes=notes,
        quantity=words.number(line.quantity),
        unit=words.unit(line.unit_code),
        unit_amount=_amount(line.unit_amount, words, invoice),
        part=part,
        net_amount=_amount(line.net_amount, words, invoice),
    )


def _tax(
    tax: Tax, words: Wording, invoice: Invoice, money: Callable[[Decimal], str]
) -> _Tax:
    # Who has a VAT id charges VAT; elsewhere it has other names.
    name = "vat" if invoice.seller.get("vat_id") else "tax"
    rate, taxed = words.percent(tax.tax_rate), money(tax.taxable_amount)
    return _Tax(
        label=words.say(name, rate=rate, amount=taxed),
        legal_text=tax.legal_text,
        tax_amount=_amount(tax.tax_amount, words, invoice),
    )


def _home_tax(invoice: Invoice, words: Wording) -> tuple[str, str] | None:
    if invoice.home_tax_amount is None:
        return None
    currency = invoice.home_currency
    amount = words.money(
        invoice.home_tax_amount, currency=currency, digits=invoice.home_currency_digits
    )
    return words.say("home_tax", currency=currency), amount


def _payment(
    invoice: Invoice, words: Wording, *, amount: str, payable_on: str
) -> str | None:
    """Say what the buyer has to do; none if nothing is to be paid."""
    if invoice.kind == "credit_note" or invoice.gross_amount <= 0:
        return None
    means = invoice.buyer.get("payment_means")
    if means in _DIRECT_DEBITS:
        return words.say("direct_debit", amount=amount)
    how = "transfer" if means in _TRANSFERS else "pay_otherwise"
    return words.say(how, amount=amount, date=payable_on, number=invoice.number_text)


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


def _footer(invoice: Invoice) -> list[str]:
    """Return the legal footer in the account's language, or in one that there is."""
    footers: dict[str, str] = invoice.seller.get("legal_footers") or {}
    tags = (invoice.language, invoice.language[:2], wording.FALLBACK, *sorted(footers))
    text = next((footers[tag] for tag in tags if tag in footers), "")
    lines = [invoice.seller.get("register_entry"), *text.splitlines()]
    return [line for line in lines if line]
