"""A document asks for what is to be paid, and for nothing if nothing is."""

from decimal import Decimal
from typing import Any

import pytest

from pgbill import document, rendering, settlement, wording
from pgbill.document import Document, Tax
from pgbill.settlement import Settlement
from tests import documents
from tests.documents import plain


def settled(given: Document) -> Settlement:
    words = wording.find(given.invoice.language)
    return settlement.of(document.printed(given), words)


def sums(given: Document) -> list[tuple[str, str]]:
    return [(each.label, plain(each.amount)) for each in settled(given).sums]


def test_prepaid_credit_reduces_what_is_to_be_paid() -> None:
    given = documents.document(prepaid_amount=Decimal(469))
    shown = settled(given)

    assert sums(given) == [
        ("Total", "EUR 1,469.06"),
        ("Prepaid credit", "EUR -469.00"),
        ("To be paid", "EUR 1,000.06"),
    ]
    assert plain(shown.headline) == "EUR 1,000.06"
    assert shown.headline_note == "To be paid by 31 October 2026"
    assert "EUR 1,000.06" in plain(str(shown.payment))


@pytest.mark.parametrize(
    "columns",
    [
        {"prepaid_amount": Decimal("1469.06")},
        {"net_amount": Decimal(0), "gross_amount": Decimal(0)},
    ],
    ids=["prepaid", "for nothing"],
)
@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "Nothing is to be paid."),
        ("de", "Es ist nichts zu zahlen."),
        ("fr", "Rien n’est à payer."),  # noqa: RUF001
    ],
)
def test_what_is_paid_asks_for_nothing(
    columns: dict[str, Any], language: str, sentence: str
) -> None:
    given = documents.document(
        language=language,
        discount_percent=Decimal(2),
        discount_until_on=documents.document().invoice.payable_on,
        **columns,
    )

    for part in rendering.render(given):
        assert sentence in part
        assert "DE02120300000000202051" not in part
    assert settled(given).payment is None
    assert settled(given).discount is None


@pytest.mark.parametrize(
    ("language", "title", "favour", "corrects"),
    [
        ("en", "Credit note", "In your favour", "Corrects invoice"),
        ("de", "Rechnungskorrektur", "Zu Ihren Gunsten", "Korrigiert Rechnung"),
        ("de-CH", "Gutschrift", "Zu Ihren Gunsten", "Korrigiert Rechnung"),
        ("fr", "Avoir", "En votre faveur", "Rectifie la facture"),
    ],
)
def test_a_credit_note_is_in_the_buyers_favour(
    language: str, title: str, favour: str, corrects: str
) -> None:
    """In Germany a “Gutschrift” is an invoice that the buyer writes."""
    text, html = rendering.render(documents.credit_note(language=language))

    assert text.startswith(f"{title} NL-000042")
    assert f"{corrects}: NL-000041" in text
    for part in (text, html):
        assert favour in part
        assert "\N{MINUS SIGN}" not in part
        assert "DE02120300000000202051" not in part


def test_a_credit_note_gives_prepaid_credit_back() -> None:
    given = documents.credit_note(prepaid_amount=Decimal(-200))

    assert sums(given) == [
        ("Total", "EUR 1,469.06"),
        ("Of which returned to your prepaid credit", "EUR 200.00"),
    ]


def test_what_a_credit_note_charges_stands_below_zero() -> None:
    charged = documents.line(quantity=Decimal(1), net_amount=Decimal("617.25"))
    given = documents.credit_note(lines=[charged])

    text = plain(rendering.render(given)[0])

    assert "1 month * -617.25 = -617.25 EUR" in text


@pytest.mark.parametrize(
    ("language", "category", "label"),
    [
        ("en", "S", "VAT 0% on EUR 500.00"),
        ("en", "Z", "VAT 0% on EUR 500.00"),
        ("en", "E", "Exempt from VAT (EUR 500.00)"),
        ("en", "AE", "Reverse charge (EUR 500.00)"),
        ("en", "O", "Outside the scope of VAT (EUR 500.00)"),
        ("en", "L", "IGIC 0% on EUR 500.00"),
        ("de", "AE", "Steuerschuldnerschaft des Leistungsempfängers (500,00 EUR)"),
        ("de", "K", "Steuerfreie innergemeinschaftliche Lieferung (500,00 EUR)"),
        ("de-CH", "S", "MWST 0% auf EUR 500.00"),
        ("fr", "AE", "Autoliquidation (500,00 EUR)"),
        ("fr", "G", "Exportation exonérée (500,00 EUR)"),
    ],
)
def test_what_bears_no_tax_says_why(language: str, category: str, label: str) -> None:
    tax = Tax(category, Decimal(0), Decimal(500), Decimal(0), "As the law says.")

    (row,) = settled(documents.document(language=language, taxes=[tax])).taxes

    assert (plain(row.label), row.legal_text) == (label, "As the law says.")


def test_a_seller_without_a_vat_id_charges_tax() -> None:
    (row,) = settled(documents.document(seller={"vat_id": None})).taxes

    assert plain(row.label) == "Tax 19% on EUR 1,234.50"


def test_amounts_with_tax_say_so_in_their_heading() -> None:
    line = documents.line(tax_included_amount=Decimal("1469.06"))

    for part in rendering.render(documents.document(lines=[line])):
        assert "Amount with VAT" in part
        assert "1,469.06" in part
