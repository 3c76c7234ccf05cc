"""A mail says what its invoice says, and a name is a name, whatever it holds."""

import email
import re
from datetime import date
from decimal import Decimal
from email.message import EmailMessage
from email.policy import SMTP
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgbill import message, rendering
from pgbill.document import Document, Tax
from pgbill.message import AddressError, ComposeError, Mail
from tests import documents

NASTY = 'A "&\r\nBcc: x@example.com\r\n\r\n<script>alert(1)</script> \u202e🚀 שלום'
HEADERS = [
    "Date",
    "From",
    "To",
    "Subject",
    "Message-ID",
    "Reply-To",
    "Auto-Submitted",
    "X-Pgbill-Invoice",
    "MIME-Version",
    "Content-Type",
    "Content-Language",
]


def compose(document: Document, **given: Any) -> Mail:  # noqa: ANN401
    options: dict[str, Any] = {"mail_from": None, "redirect": None, **given}
    claimed = options.pop("claimed", documents.message())
    return message.compose(document, claimed, **options)


def read(mail: Mail) -> EmailMessage:
    return email.message_from_bytes(mail.content, policy=SMTP)


def text_of(document: Document) -> str:
    return rendering.render(document)[0].replace("\N{NO-BREAK SPACE}", " ")


def html_of(document: Document) -> str:
    return rendering.render(document)[1]


def test_the_mail_comes_from_the_seller_and_goes_to_the_address() -> None:
    mail = compose(documents.document())

    parsed = read(mail)
    assert parsed["From"] == "Northlight Hosting GmbH <invoices@northlight.example.com>"
    assert parsed["To"] == mail.sent_to == "ap@buyer.example.com"
    assert parsed["Subject"] == "Invoice NL-000042 from Northlight Hosting GmbH"
    assert parsed["Date"].datetime.isoformat() == "2026-10-01T08:30:00+00:00"
    assert parsed["Reply-To"] == "billing@northlight.example.com"
    assert mail.sender == "invoices@northlight.example.com"


def test_the_same_message_gives_the_same_mail() -> None:
    """So a second copy, at a later attempt, can be recognised."""
    first, second = compose(documents.document()), compose(documents.document())

    assert first == second
    assert read(first)["Message-ID"].startswith("<pgbill.3.")
    assert read(first)["Message-ID"].endswith("@northlight.example.com>")


def test_another_message_has_another_id() -> None:
    other = documents.message(address="cfo@buyer.example.com")

    assert (
        read(compose(documents.document()))["Message-ID"]
        != (read(compose(documents.document(), claimed=other))["Message-ID"])
    )


def test_no_number_is_broken() -> None:
    """The column is narrow, and words in it may be broken: figures never."""
    number = "8.93857526881720430108"
    rating_input = (
        f'{{"model": "per_unit", "quantity": {number}, "free_quantity": 0,'
        ' "unit_amount": 0.0123}'
    )

    html = html_of(
        documents.document(
            lines=[documents.line(unit_amount=None, rating_input=rating_input)]
        )
    )

    (style,) = re.findall(rf'<div style="([^"]*)">{re.escape(number)}', html)
    assert "overflow-wrap:normal" in style


def test_text_and_html_say_the_same() -> None:
    document = documents.document(
        discount_percent=Decimal(2), discount_until_on=date(2026, 10, 11)
    )

    for part in (text_of(document), html_of(document).replace("&nbsp;", " ")):
        said = " ".join(part.replace("\N{NO-BREAK SPACE}", " ").split())
        for expected in (
            "NL-000042",
            "EUR 1,469.06",
            "31 October 2026",
            "Hafenkontor GmbH",
            "28195 Bremen",
            "Hosting",
            "1 Oct 2026 \N{EN DASH} 30 Nov 2026",
            "617.25",
            "1,234.50",
            "VAT 19% on EUR 1,234.50",
            "234.56",
            "DE02120300000000202051",
            "11 October 2026, 2% may be deducted",
            "DE123456789",
            "Amtsgericht Hamburg, HRB 123456",
            "Managing director: Anna Example",
        ):
            assert expected in said, expected


@pytest.mark.parametrize(
    ("language", "title", "due"),
    [
        ("en", "Invoice", "To be paid by 31 October 2026"),
        ("de", "Rechnung", "Zahlbar bis 31. Oktober 2026"),
        ("de-CH", "Rechnung", "Zahlbar bis 31. Oktober 2026"),
        ("fr", "Facture", "À payer au plus tard le 31 octobre 2026"),
        ("nl", "Invoice", "To be paid by 31 October 2026"),
    ],
)
def test_the_language_is_the_accounts(language: str, title: str, due: str) -> None:
    document = documents.document(language=language)

    assert text_of(document).startswith(f"{title} NL-000042")
    assert due in text_of(document)
    assert read(compose(document))["Subject"].startswith(title)


@pytest.mark.parametrize(
    ("language", "product"),
    [
        ("en", "3 month * 100.00 * 10/31 days = 96.77 EUR"),
        ("de", "3 Monat * 100,00 * 10/31 Tage = 96,77 EUR"),
        ("de-CH", "3 Monat * 100.00 * 10/31 Tage = 96.77 EUR"),
        ("fr", "3 mois * 100,00 * 10/31 jours = 96,77 EUR"),
        ("nl", "3 month * 100.00 * 10/31 days = 96.77 EUR"),
    ],
)
def test_a_prorated_line_says_for_which_part(language: str, product: str) -> None:
    """Otherwise the sum would be wrong."""
    prorated = documents.line(
        quantity=Decimal(3),
        unit_amount=Decimal(100),
        rating_input='{"part_days": 10, "whole_days": 31}',
        net_amount=Decimal("96.77"),
    )
    document = documents.document(language=language, lines=[prorated])
    text, html = (
        part.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MULTIPLICATION SIGN}", "*")
        for part in rendering.render(document)
    )

    factors, _, _ = product.partition(" = ")
    part = factors.rpartition(" * ")[2]
    assert product in text
    # On a narrow screen below the description, on a wide one below the price.
    assert f">{factors}</div>" in html
    assert f">* {part}</div>" in html


def test_a_line_of_a_whole_period_has_no_part() -> None:
    assert "617.25 = 1,234.50 EUR" in text_of(documents.document())
    assert "day" not in html_of(documents.document()).partition("<body")[2]


def test_a_tax_says_the_sentence_of_the_law() -> None:
    exempt = Tax("AE", Decimal(0), Decimal("1234.50"), Decimal(0), "Reverse charge.")
    document = documents.document(taxes=[exempt])

    assert "Reverse charge." in text_of(document)
    assert "Reverse charge." in html_of(document)


def test_tax_in_the_home_currency_is_said() -> None:
    document = documents.document(
        currency="CHF", home_tax_amount=Decimal("240.1"), seller={"bank_accounts": {}}
    )

    assert "(of which tax in EUR: EUR 240.10)" in text_of(document)
    assert "IBAN" not in text_of(document)


def test_a_direct_debit_asks_for_nothing() -> None:
    text = text_of(documents.document(buyer={"payment_means": "59"}))

    assert "We will collect EUR 1,469.06 by direct debit." in text
    assert "IBAN" not in text


def test_a_credit_note_is_not_to_be_paid() -> None:
    document = documents.credit_note()

    assert "In your favour: EUR 1,469.06" in text_of(document)
    for part in rendering.render(document):
        assert "1,234.50" in part
        assert "\N{MINUS SIGN}" not in part
        assert "paid" not in part
        assert "Payable" not in part


def test_a_test_document_is_marked_everywhere() -> None:
    document = documents.document(mode="test")

    assert read(compose(document))["Subject"].startswith("[TEST] Invoice")
    for part in rendering.render(document):
        assert "This is a test document." in part


def test_a_redirect_says_where_the_mail_would_have_gone() -> None:
    mail = compose(documents.document(), redirect="dev@example.com")

    assert mail.sent_to == read(mail)["To"] == "dev@example.com"
    assert read(mail)["X-Pgbill-Original-To"] == "ap@buyer.example.com"


def test_a_setting_replaces_the_sellers_address() -> None:
    mail = compose(documents.document(), mail_from="billing@example.com")

    assert mail.sender == "billing@example.com"
    assert read(mail)["From"] == "Northlight Hosting GmbH <billing@example.com>"


@pytest.mark.parametrize(
    "address", ["", "nobody", "a b@example.com", "a@b@example.com", "a@example.com\n"]
)
def test_an_address_that_cannot_be_one_is_refused(address: str) -> None:
    with pytest.raises(AddressError, match="not sent: "):
        compose(documents.document(), claimed=documents.message(address=address))


@pytest.mark.parametrize("key", ["C-1042", "a@b@c", "Müller & Söhne", "k" * 200])
def test_a_file_needs_no_address(key: str) -> None:
    """It names the account instead of a recipient."""
    claimed = documents.message(channel="folder", address=key)

    mail = compose(documents.document(), claimed=claimed)

    assert read(mail)["To"] is None
    assert read(mail)["X-Pgbill-Account"] == mail.sent_to == key
    assert read(mail).keys() == [
        "X-Pgbill-Account" if name == "To" else name for name in HEADERS
    ]
    assert not mail.needs_utf8
    assert mail.content.isascii()


def test_a_file_to_an_address_says_so() -> None:
    claimed = documents.message(channel="folder")

    mail = compose(documents.document(), claimed=claimed)

    assert read(mail)["To"] == mail.sent_to == "ap@buyer.example.com"
    assert read(mail).keys() == HEADERS


def test_a_redirect_holds_for_files_without_an_address() -> None:
    claimed = documents.message(channel="folder", address="C-1042")

    mail = compose(documents.document(), claimed=claimed, redirect="dev@example.com")

    assert read(mail)["To"] == mail.sent_to == "dev@example.com"
    assert read(mail)["X-Pgbill-Original-To"] == "C-1042"


def test_a_domain_beyond_ascii_is_sent_in_ascii() -> None:
    claimed = documents.message(address="ap@bücher.example.com")

    mail = compose(documents.document(), claimed=claimed)

    assert mail.sent_to == "ap@xn--bcher-kva.example.com"
    assert not mail.needs_utf8


def test_a_mailbox_beyond_ascii_needs_a_server_that_can() -> None:
    claimed = documents.message(address="büro@buyer.example.com")

    mail = compose(documents.document(), claimed=claimed)

    assert mail.needs_utf8
    assert "büro@buyer.example.com".encode() in mail.content


def test_a_seller_without_a_usable_address_can_be_mended() -> None:
    with pytest.raises(ComposeError, match="mail cannot come from nowhere"):
        compose(documents.document(seller={"mail_from": "nowhere"}))


def test_what_is_missing_is_an_error_and_not_a_hole() -> None:
    with pytest.raises(ComposeError, match="null"):
        compose(documents.document(buyer={"legal_name": None}))


class Tags(HTMLParser):
    """The names of the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the name."""
        del attrs
        self.names.append(tag)


def tags_of(document: Document) -> list[str]:
    parser = Tags()
    parser.feed(html_of(document))
    return parser.names


def named(name: str) -> Document:
    return documents.document(
        seller={"legal_name": name, "city": name},
        buyer={"legal_name": name, "customer_number": name},
        lines=[documents.line(description=name, purchase_order=name)],
        number_text=name,
    )


@pytest.mark.parametrize("name", [NASTY, "\x00\x1b[31m", "{{ 7 * 7 }}", "\u2028\x85"])
def test_a_name_can_hold_anything(name: str) -> None:
    document = named(name)

    assert tags_of(document) == tags_of(named("x"))
    assert len(text_of(document).splitlines()) == len(text_of(named("x")).splitlines())
    assert "49" not in text_of(document).replace("1,469.06", "")
    assert read(compose(document)).keys() == HEADERS


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=90)


@settings(max_examples=60, deadline=None)
@given(names.filter(rendering.printable))
def test_no_name_forges_a_header_or_a_tag(name: str) -> None:
    document = named(name)

    parsed = read(compose(document))

    assert parsed.keys() == HEADERS
    assert [each.addr_spec for each in parsed["From"].addresses] == [
        "invoices@northlight.example.com"
    ]
    assert not parsed.defects
    assert tags_of(document) == tags_of(named("x"))


@settings(max_examples=60, deadline=None)
@given(names.filter(rendering.printable))
def test_a_name_arrives_as_it_is(name: str) -> None:
    """But for spaces: the parser adds one between the pieces of a long name."""
    parsed = read(compose(documents.document(seller={"legal_name": name})))

    arrived = parsed["From"].addresses[0].display_name
    assert "".join(arrived.split()) == "".join(rendering.printable(name).split())
