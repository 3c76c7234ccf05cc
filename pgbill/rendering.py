"""Write out a document as text and as HTML, in the language of its account.

Names come from outside and can hold anything. HTML is escaped, what is missing is an
error and not a hole, and a control character never reaches the page: it could forge a
line of the invoice. The templates decide how it looks, `wording` what it is called,
`item` and `settlement` what the lines and the totals say; here is the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from pgbill import figures, item, resources, settlement, wording
from pgbill.document import Document, Invoice, printed
from pgbill.wording import Wording

_BREAKS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029]+")
# These reorder, or hide, what stands beside them.
_BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class _Party:
    legal_name: str
    address: list[str]
    ids: list[tuple[str, str]]


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
    document = printed(document)
    invoice = document.invoice
    words = wording.find(invoice.language)
    is_abroad = invoice.seller.get("country") != invoice.buyer.get("country")
    addressed = "credited_to" if invoice.kind == "credit_note" else "billed_to"
    return {
        "language": words.language,
        "t": words.texts,
        "say": words.say,
        "is_test": invoice.mode == "test",
        "title": words.texts[invoice.kind],
        "number": invoice.number_text,
        "currency": invoice.currency,
        "addressed": words.texts[addressed],
        "seller": _party(
            invoice.seller, words, ids=("vat_id", "tax_number"), is_abroad=is_abroad
        ),
        "buyer": _party(
            invoice.buyer, words, ids=("vat_id", "registration_id"), is_abroad=is_abroad
        ),
        "facts": list(_facts(document, words)),
        **_lines(document, words),
        "settlement": settlement.of(document, words),
        "contact": invoice.seller.get("contact_email"),
        "footer": _footer(invoice),
    }


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
    issued = "credit_issued_on" if invoice.kind == "credit_note" else "issued_on"
    yield texts[issued], words.short_day(invoice.issued_on)
    if document.lines:
        first = min(line.service_from_on for line in document.lines)
        last = max(line.service_through_on for line in document.lines)
        yield texts["service"], words.period(first, last)
    if invoice.corrects:
        yield texts["corrects"], ", ".join(invoice.corrects)
    if settlement.is_payable(invoice):
        yield texts["payable_on"], words.short_day(invoice.payable_on)
    for name in ("customer_number", "buyer_reference"):
        if value := invoice.buyer.get(name):
            yield texts[name], value


def _lines(document: Document, words: Wording) -> dict[str, object]:
    """Return the lines, and the heading of their amounts."""
    lines, figure = document.lines, figures.of(document.invoice, words)
    taxes = {(each.tax_category, each.tax_rate) for each in lines}
    says_tax = len(taxes) > 1
    heading = words.texts["amount"]
    # All of them are, or none.
    if any(each.tax_included_amount is not None for each in lines):
        tax = figure.tax_name(lines[0].tax_category)
        heading = words.say("amount_with_tax", tax=tax)
    return {
        "lines": [item.of(each, figure, says_tax=says_tax) for each in lines],
        "amount_heading": heading,
    }


def _footer(invoice: Invoice) -> list[str]:
    """Return the legal footer in the account's language, or in one that there is."""
    footers: dict[str, str] = invoice.seller.get("legal_footers") or {}
    tags = (invoice.language, invoice.language[:2], wording.FALLBACK, *sorted(footers))
    text = next((footers[tag] for tag in tags if tag in footers), "")
    lines = [invoice.seller.get("register_entry"), *text.splitlines()]
    return [line for line in lines if line]
