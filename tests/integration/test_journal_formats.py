"""What DATEV and SAF-T want of an export, they get, or a sentence why not."""

import csv
from datetime import date
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from psycopg import Connection

from pgbill.config import Settings
from pgbill.errors import ConfigError, UsageError
from tests import builders
from tests.actors import bill_all
from tests.integration.test_closed_month import dated
from tests.integration.test_journal import content, export
from tests.payers import credit
from tests.shop import Shop, run_sql, value

pytestmark = pytest.mark.one_server

JANUARY, FEBRUARY, DECEMBER = (
    date(2026, 1, 31),
    date(2026, 2, 28),
    date(2026, 12, 31),
)
SETTINGS: dict[str, Any] = {
    "ledger_receivable_account": "1400",
    "ledger_revenue_account": "8400",
    "ledger_tax_account": "1776",
    "ledger_prepaid_account": "1710",
    "datev_consultant": 29098,
    "datev_client": 55003,
    "datev_tax_keys": "S19=3, AE0=",
}
NAMESPACE = {"f": "urn:OECD:StandardAuditFile-Taxation/2.00"}


@pytest.fixture
def shop(conn: Connection[Any]) -> Shop:
    """Return a shop with two invoices: by an account of its own debtor, and another."""
    shop = Shop.open(conn, key="north")
    first = shop.account(
        conn, key="a-1", legal_name='Grün "& Söhne" Łódź ř東', customer_number="10042"
    )
    builders.prepaid_credit(conn, first, "5")
    bill_all(conn, first, shop.account(conn, key="a-2"), policy=dated(JANUARY))
    return shop


def datev(conn: Connection[Any], **changes: Any) -> list[str]:  # noqa: ANN401
    """Return the lines of the last export."""
    export(conn, JANUARY, "datev", Settings(**{**SETTINGS, **changes}))
    last: int = value(conn, "SELECT max(export_id) FROM pgbill.journal_export")
    return content(conn, last, "datev").decode("cp1252").split("\r\n")


@pytest.mark.usefixtures("shop")
def test_datev_knows_the_head(conn: Connection[Any]) -> None:
    head, names, *_ = datev(conn)

    assert head.startswith('"EXTF";700;21;"Buchungsstapel";13;2')
    fields = head.split(";")
    assert len(fields) == 31
    assert len(fields[5]) == 17
    assert fields[6:18] == [
        *("", '"RE"', '"pgbill"', '""', "29098", "55003", "20260101", "4"),
        *("20260131", "20260131", '"pgbill Export 1"', '""'),
    ]
    assert fields[18:22] == ["1", "0", "0", '"EUR"']
    assert len(names.split(";")) == 125
    assert names.startswith('"Umsatz (ohne Soll/Haben-Kz)";"Soll/Haben-Kennzeichen";')


@pytest.mark.usefixtures("shop")
def test_datev_gets_a_booking_for_each_revenue(conn: Connection[Any]) -> None:
    _, names, *lines = datev(conn)

    assert lines[-1] == ""
    bookings = list(csv.DictReader([names, *lines[:-1]], delimiter=";"))
    assert {len(line.split(";")) for line in lines[:-1]} == {125}
    shown = (
        *("Umsatz (ohne Soll/Haben-Kz)", "Soll/Haben-Kennzeichen", "WKZ Umsatz"),
        *("Konto", "Gegenkonto (ohne BU-Schlüssel)", "BU-Schlüssel", "Belegdatum"),
        *("Belegfeld 1", "Leistungsdatum", "Fälligkeit"),
    )
    number = "NL-000001"
    assert [tuple(each[name] for name in shown) for each in bookings] == [
        ("5,00", "S", "EUR", "1710", "10042", "", "3101", number, "", "02032026"),
        (
            *("11,90", "S", "EUR", "10042", "8400", "3", "3101", number),
            *("31012026", "02032026"),
        ),
        (
            *("11,90", "S", "EUR", "1400", "8400", "3", "3101", "NL-000002"),
            *("31012026", "02032026"),
        ),
    ]
    assert bookings[0]["Buchungstext"] == 'Grün "& Söhne" Lódz r?'
    assert lines[0].startswith('5,00;"S";"EUR";;;;1710;10042;"";3101;"NL-000001";;;')


@pytest.mark.usefixtures("shop")
def test_datev_turns_a_credit_note_round(conn: Connection[Any]) -> None:
    credit(conn, "NL-000002", "2.38")
    export(conn, DECEMBER, "datev", Settings(**SETTINGS))

    *_, last, _ = content(conn, 1, "datev").decode("cp1252").split("\r\n")

    assert last.startswith('2,38;"H";"EUR";;;;1400;8400;"3";')
    assert '"NLC-000001"' in last


@pytest.mark.parametrize(("vat_id", "told"), [("FR40303265045", 1), ("CHE123", 0)])
def test_datev_is_told_the_vat_id_of_who_owes_the_tax(
    conn: Connection[Any], shop: Shop, vat_id: str, told: int
) -> None:
    """By reverse charge, with a buyer of the EU."""
    builders.tax_rate(
        conn, buyer_country="FR", category="AE", rate="0", legal_text="Reverse charge."
    )
    buyer = shop.account(conn, key="a-3", country="FR", vat_id=vat_id)
    bill_all(conn, buyer, policy=dated(JANUARY))

    _, names, *lines = datev(conn)

    field = "EU-Land u. UStID (Bestimmung)"
    assert names.split(";").index(f'"{field}"') == 39
    bookings = csv.DictReader([names, *lines[:-1]], delimiter=";")
    assert [it[field] for it in bookings if it[field]] == [vat_id] * told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"datev_client": None}, "the numbers of the consultant and of the client"),
        ({"datev_tax_keys": "S7=2"}, "needs a tax key for tax code S19"),
        ({"ledger_revenue_account": "revenue"}, "account revenue is not one of DATEV"),
        ({"ledger_prepaid_account": "171000"}, "account 171000 is not one of DATEV"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_what_datev_needs_is_named(
    conn: Connection[Any], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        datev(conn, **changes)

    assert value(conn, "SELECT count(*) FROM pgbill.journal_export") == 0
    assert value(conn, "SELECT count(*) FROM pgbill.journal_entry") == 0


def test_datev_takes_one_fiscal_year(conn: Connection[Any], shop: Shop) -> None:
    bill_all(conn, shop.account(conn), policy=dated(FEBRUARY))

    with pytest.raises(UsageError, match="of two fiscal years, from 2026-01-31 to"):
        export(conn, FEBRUARY, "datev", Settings(**SETTINGS, datev_fiscal_month=2))
    assert export(conn, FEBRUARY, "datev", Settings(**SETTINGS, datev_fiscal_month=3))
    head, *_ = content(conn, 1, "datev").decode("cp1252").split("\r\n")
    assert head.split(";")[12] == "20250301"


def saft(conn: Connection[Any]) -> ET.Element:
    export(conn, DECEMBER, "saft", Settings(**SETTINGS))
    return ET.fromstring(content(conn, 1, "saft"))  # noqa: S314 - our own


def texts(root: ET.Element, path: str) -> list[str | None]:
    """Return what stands at a path, whose steps are names."""
    steps = "/".join(f"f:{step}" for step in path.split("/"))
    return [each.text for each in root.findall(steps, NAMESPACE)]


@pytest.mark.usefixtures("shop")
def test_saft_has_its_sections(conn: Connection[Any]) -> None:
    root = saft(conn)

    assert root.tag == f"{{{NAMESPACE['f']}}}AuditFile"
    names = [each.tag.partition("}")[2] for each in root]
    assert names == ["Header", "MasterFiles", "SourceDocuments"]
    assert texts(root, "Header/AuditFileVersion") == ["2.01"]
    assert texts(root, "Header/DefaultCurrencyCode") == ["EUR"]
    assert texts(root, "Header/SelectionCriteria/SelectionEndDate") == ["2026-01-31"]
    assert texts(root, "Header/Company/Name") == ["Northlight Hosting GmbH"]
    assert texts(root, "MasterFiles/Customers/Customer/CustomerID") == ["a-1", "a-2"]
    codes = "MasterFiles/TaxTable/TaxTableEntry/TaxCodeDetails/TaxCode"
    assert texts(root, codes) == ["S19"]


@pytest.mark.usefixtures("shop")
def test_saft_has_each_document_with_its_lines(conn: Connection[Any]) -> None:
    credit(conn, "NL-000001", "2.38")
    root = saft(conn)
    sales = "SourceDocuments/SalesInvoices"

    assert texts(root, f"{sales}/NumberOfEntries") == ["3"]
    assert texts(root, f"{sales}/TotalDebit") == ["2.00"]
    assert texts(root, f"{sales}/TotalCredit") == ["20.00"]
    invoice = f"{sales}/Invoice"
    assert texts(root, f"{invoice}/InvoiceNo") == [
        *("NL-000001", "NL-000002", "NLC-000001"),
    ]
    assert texts(root, f"{invoice}/InvoiceType") == ["IN", "IN", "CN"]
    line = f"{invoice}/Line"
    assert texts(root, f"{line}/AccountID") == ["8400"] * 3
    assert texts(root, f"{line}/DebitCreditIndicator") == ["C", "C", "D"]
    assert texts(root, f"{line}/Delivery/DeliveryPeriod/ToDate") == ["2026-01-31"] * 3
    assert texts(root, f"{line}/References/CreditNote/Reference") == ["NL-000001"]
    amounts = f"{line}/TaxInformation/TaxAmount/Amount"
    assert texts(root, amounts) == ["1.90", "1.90", "-0.38"]
    totals = f"{invoice}/DocumentTotals"
    assert texts(root, f"{totals}/NetTotal") == ["10.00", "10.00", "-2.00"]
    assert texts(root, f"{totals}/GrossTotal") == ["11.90", "11.90", "-2.38"]
    settled = f"{invoice}/Settlement/SettlementAmount/Amount"
    assert [Decimal(each or "") for each in texts(root, settled)] == [5]


def test_saft_wants_one_currency(conn: Connection[Any]) -> None:
    shop = Shop.open(conn, key="south", currency="USD")
    bill_all(conn, shop.account(conn), policy=dated(JANUARY))

    with pytest.raises(UsageError, match="is in USD and has no exchange rate"):
        saft(conn)


@pytest.mark.usefixtures("shop")
def test_names_are_escaped(conn: Connection[Any]) -> None:
    second = builders.find(conn, "a-2")
    run_sql(conn, "UPDATE pgbill.account SET legal_name = 'A <b>' WHERE key = 'a-2'")
    bill_all(conn, second, through_on=JANUARY, policy=dated(JANUARY))

    names = texts(saft(conn), "MasterFiles/Customers/Customer/Name")

    assert names == ['Grün "& Söhne" Łódź ř東', "A <b>"]
