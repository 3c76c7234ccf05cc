"""Documents with defaults, for tests of what a mail says."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pgbill.document import Document, Invoice, Line, Tax
from pgbill.outbox import Message

SELLER: dict[str, Any] = {
    "legal_name": "Northlight Hosting GmbH",
    "street": "Lindenallee 12",
    "street_2": None,
    "postal_code": "20095",
    "city": "Hamburg",
    "region": None,
    "country": "DE",
    "vat_id": "DE123456789",
    "tax_number": None,
    "register_entry": "Amtsgericht Hamburg, HRB 123456",
    "contact_email": "billing@northlight.example.com",
    "mail_from": "invoices@northlight.example.com",
    "home_currency": "EUR",
    "bank_accounts": {
        "EUR": {"iban": "DE02120300000000202051", "bank": "Example Bank"}
    },
    "legal_footers": {"en": "Managing director: Anna Example", "de": "Leitung: A. E."},
}
BUYER: dict[str, Any] = {
    "legal_name": "Hafenkontor GmbH",
    "street": "Hafenstraße 1",
    "postal_code": "28195",
    "city": "Bremen",
    "country": "DE",
    "payment_means": "58",
}


def line(**columns: Any) -> Line:  # noqa: ANN401
    """Return a line for two months of hosting."""
    default = Line(
        description="Hosting",
        kind="advance",
        quantity=Decimal(2),
        unit_code="MON",
        unit_amount=Decimal("617.25"),
        net_amount=Decimal("1234.50"),
        discount_amount=Decimal(0),
        discount_texts=[],
        discount_amounts=[],
        tax_included_amount=None,
        tax_category="S",
        tax_rate=Decimal(19),
        service_from_on=date(2026, 10, 1),
        service_through_on=date(2026, 11, 30),
        purchase_order=None,
        contract_number=None,
        cost_centre=None,
        credited_number=None,
        rating_input="{}",
    )
    return replace(default, **columns)


def document(
    *,
    seller: dict[str, Any] | None = None,
    buyer: dict[str, Any] | None = None,
    lines: list[Line] | None = None,
    taxes: list[Tax] | None = None,
    **columns: Any,  # noqa: ANN401
) -> Document:
    """Return an invoice over EUR 1,234.50 and 19 % of tax."""
    invoice = Invoice(
        kind="invoice",
        mode="live",
        language="en",
        currency="EUR",
        currency_digits=2,
        number_text="NL-000042",
        issued_at=datetime(2026, 10, 1, 8, 30, tzinfo=UTC),
        issued_on=date(2026, 10, 1),
        tax_point_on=date(2026, 9, 30),
        payable_on=date(2026, 10, 31),
        net_amount=Decimal("1234.50"),
        tax_amount=Decimal("234.56"),
        gross_amount=Decimal("1469.06"),
        prepaid_amount=Decimal(0),
        payable_amount=Decimal("1469.06"),
        home_tax_amount=None,
        home_currency="EUR",
        home_currency_digits=2,
        seller={**SELLER, **(seller or {})},
        buyer={**BUYER, **(buyer or {})},
        discount_percent=None,
        discount_until_on=None,
        corrects=[],
    )
    tax = Tax("S", Decimal(19), Decimal("1234.50"), Decimal("234.56"), None)
    invoice = replace(invoice, **columns)
    payable_amount = invoice.gross_amount - invoice.prepaid_amount
    return Document(
        replace(invoice, payable_amount=payable_amount),
        [line()] if lines is None else lines,
        [tax] if taxes is None else taxes,
    )


def credit_note(**columns: Any) -> Document:  # noqa: ANN401
    """Return a credit note over all of the invoice, as it is kept: below zero."""
    credited = line(quantity=Decimal(-2), net_amount=Decimal("-1234.50"))
    tax = Tax("S", Decimal(19), Decimal("-1234.50"), Decimal("-234.56"), None)
    defaults: dict[str, Any] = {
        "kind": "credit_note",
        "net_amount": Decimal("-1234.50"),
        "tax_amount": Decimal("-234.56"),
        "gross_amount": Decimal("-1469.06"),
        "corrects": ["NL-000041"],
        "lines": [credited],
        "taxes": [tax],
    }
    return document(**{**defaults, **columns})


def message(**columns: Any) -> Message:  # noqa: ANN401
    """Return a message that is claimed."""
    return replace(
        Message(
            bucket=1,
            account_id=2,
            message_id=3,
            invoice_id=4,
            channel="email",
            address="ap@buyer.example.com",
        ),
        **columns,
    )


def plain(text: str) -> str:
    """Return a text with the signs that a keyboard has."""
    return text.translate({0xA0: " ", 0x2212: "-", 0xD7: "*"})
