"""Write an export as a standard audit file for tax: SAF-T, source documents of sales.

Of the national profiles it follows Luxembourg's, FAIA 2.01, which is the OECD's schema
2.00 with few restrictions; of its sections it has the header, customers and tax codes,
and the sales invoices. A line of the file is an entry of revenue: its account, tax code
and days of service. All amounts are in the seller's home currency; a document in
another one has its own beside them, and needs an exchange rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

from psycopg import Connection

from pgbill import __version__, posting
from pgbill.errors import UsageError
from pgbill.posting import Accounts, Entry, Head

# OECD, Guidance for the Standard Audit File - Tax, version 2.0, appendix B, and the
# Fichier d'Audit Informatise AED (FAIA), version 2.01, of the AED in Luxembourg.
NAMESPACE = "urn:OECD:StandardAuditFile-Taxation/2.00"
_VERSION = "2.01"
_TAX = "VAT"


@dataclass(frozen=True, slots=True)
class _Money:
    """An amount in the home currency, and in that of the document if it is another."""

    home: Decimal
    own: Decimal
    currency: str
    rate: Decimal | None


def render(conn: Connection[Any], head: Head, accounts: Accounts) -> Iterator[bytes]:
    """Yield the pieces of the file, in UTF-8.

    Raises:
        UsageError: A document in another currency has no exchange rate.
    """
    yield b'<?xml version="1.0" encoding="UTF-8"?>\n'
    yield _open("AuditFile", xmlns=NAMESPACE)
    yield _node("Header", *_header(head))
    yield _master_files(conn, head)
    yield _open("SourceDocuments") + _open("SalesInvoices")
    yield _leaf("NumberOfEntries", head.document_count)
    totals = _totals(conn, head)
    yield _leaf("TotalDebit", totals[0]) + _leaf("TotalCredit", totals[1])
    for entries in posting.documents(conn, head.export_id):
        yield _invoice(head, accounts, entries)
    yield _close("SalesInvoices") + _close("SourceDocuments") + _close("AuditFile")


def _header(head: Head) -> Iterator[bytes]:
    yield _leaf("AuditFileVersion", _VERSION)
    yield _leaf("AuditFileCountry", head.country)
    yield _leaf("AuditFileDateCreated", f"{head.exported_at:%Y-%m-%d}")
    yield _leaf("SoftwareCompanyName", "pgbill")
    yield _leaf("SoftwareID", "pgbill")
    yield _leaf("SoftwareVersion", __version__)
    yield _node("Company", *_company(head))
    yield _leaf("DefaultCurrencyCode", head.home_currency)
    yield _node(
        "SelectionCriteria",
        _leaf("SelectionStartDate", head.first_on),
        _leaf("SelectionEndDate", head.last_on),
    )
    yield _leaf("HeaderComment", f"Export {head.export_id}")
    yield _leaf("TaxAccountingBasis", "Invoice Accounting")


def _company(head: Head) -> Iterator[bytes]:
    number = head.register_entry or head.tax_number or head.vat_id or head.seller
    yield _leaf("RegistrationNumber", number[:35])
    yield _leaf("Name", head.legal_name[:256])
    yield _address("Address", _seller_address(head))
    contact = [
        _node(
            "ContactPerson",
            _leaf("FirstName", "NotUsed"),
            _leaf("LastName", (head.contact_name or head.legal_name)[:70]),
        ),
        *([_leaf("Telephone", head.contact_phone)] if head.contact_phone else []),
        *([_leaf("Email", head.contact_email)] if head.contact_email else []),
    ]
    yield _node("Contact", *contact)
    if head.vat_id or head.tax_number:
        number = str(head.vat_id or head.tax_number)
        yield _node("TaxRegistration", _leaf("TaxRegistrationNumber", number[:35]))


def _seller_address(head: Head) -> dict[str, Any]:
    """Return the parts of the seller's address by the names that a buyer's have."""
    names = ("street", "city", "postal_code", "region", "country")
    return {name: getattr(head, name) for name in names}


def _address(name: str, parts: dict[str, Any]) -> bytes:
    told = [
        ("StreetName", parts.get("street")),
        ("AdditionalAddressDetail", parts.get("street_2")),
        ("City", parts.get("city") or "NotUsed"),
        ("PostalCode", parts.get("postal_code") or "NotUsed"),
        ("Region", parts.get("region")),
        ("Country", parts.get("country")),
    ]
    return _node(name, *(_leaf(tag, str(it)[:70]) for tag, it in told if it))


def _master_files(conn: Connection[Any], head: Head) -> bytes:
    customers = [
        _node(
            "Customer",
            _leaf("Name", str(each.buyer.get("legal_name") or each.account)[:256]),
            _address("Address", each.buyer),
            *_tax_registration(each.buyer),
            _leaf("CustomerID", each.account[:35]),
        )
        for each in posting.customers(conn, head.export_id)
    ]
    codes = [
        _node(
            "TaxCodeDetails",
            _leaf("TaxCode", posting.tax_code(each.tax_category, each.tax_rate)),
            _leaf("TaxPercentage", each.tax_rate),
            _leaf("Country", head.country),
        )
        for each in posting.tax_codes(conn, head.export_id)
    ]
    entry = [_leaf("TaxType", _TAX), _leaf("Description", "Value added tax"), *codes]
    table = _node("TaxTable", _node("TaxTableEntry", *entry)) if codes else b""
    return _node("MasterFiles", _node("Customers", *customers), table)


def _tax_registration(buyer: dict[str, Any]) -> list[bytes]:
    if not buyer.get("vat_id"):
        return []
    number = _leaf("TaxRegistrationNumber", str(buyer["vat_id"])[:35])
    return [_node("TaxRegistration", number)]


def _totals(conn: Connection[Any], head: Head) -> tuple[Decimal, Decimal]:
    """Add up the lines of all documents: debits, credits."""
    debit, credit = Decimal(0), Decimal(0)
    for entries in posting.documents(conn, head.export_id):
        for entry in entries:
            if entry.kind == "revenue":
                amount = _money(head, entry, entry.amount).home
                debit += max(amount, Decimal(0))
                credit += max(-amount, Decimal(0))
    return debit, credit


def _invoice(head: Head, accounts: Accounts, entries: list[Entry]) -> bytes:
    first = entries[0]
    lines = [each for each in entries if each.kind == "revenue"]
    return _node(
        "Invoice",
        _leaf("InvoiceNo", first.number[:70]),
        _node(
            "CustomerInfo",
            _leaf("CustomerID", first.account[:35]),
            _address("BillingAddress", first.buyer),
        ),
        _leaf("AccountID", accounts.receivable[:70]),
        _leaf("Period", first.issued_on.month),
        _leaf("PeriodYear", first.issued_on.year),
        _leaf("InvoiceDate", first.issued_on),
        _leaf("InvoiceType", "CN" if first.document_kind == "credit_note" else "IN"),
        _leaf("GLPostingDate", first.issued_on),
        _leaf("BatchID", head.export_id),
        *(
            _invoice_line(head, accounts, line_no, each)
            for line_no, each in enumerate(lines, start=1)
        ),
        *_settlement(head, entries),
        _document_totals(head, entries),
    )


def _invoice_line(head: Head, accounts: Accounts, line_no: int, entry: Entry) -> bytes:
    net = _money(head, entry, abs(entry.amount))
    cost_centre = [
        _node(
            "Analysis",
            _leaf("AnalysisType", "CC"),
            _leaf("AnalysisID", (entry.cost_centre or "")[:35]),
        )
    ]
    return _node(
        "Line",
        _leaf("LineNumber", line_no),
        _leaf("AccountID", accounts.of(entry)[:70]),
        *(cost_centre if entry.cost_centre else []),
        _node(
            "Delivery",
            _node(
                "DeliveryPeriod",
                _leaf("FromDate", entry.service_from),
                _leaf("ToDate", entry.service_through),
            ),
        ),
        _leaf("Quantity", 1),
        _leaf("UnitPrice", net.home),
        _leaf("TaxPointDate", entry.tax_point_on),
        *_reference(entry),
        _leaf("Description", _described(entry)),
        _amount("InvoiceLineAmount", net),
        _leaf("DebitCreditIndicator", "C" if entry.amount <= 0 else "D"),
        _tax("TaxInformation", head, entry, -entry.amount, -_tax_amount(entry)),
    )


def _reference(entry: Entry) -> list[bytes]:
    if entry.credited_number is None:
        return []
    reference = _leaf("Reference", entry.credited_number[:35])
    return [_node("References", _node("CreditNote", reference))]


def _described(entry: Entry) -> str:
    return f"Service from {entry.service_from} through {entry.service_through}"


def _settlement(head: Head, entries: list[Entry]) -> list[bytes]:
    """Tell what prepaid credit has paid."""
    return [
        _node(
            "Settlement",
            _amount("SettlementAmount", _money(head, each, each.amount)),
            _leaf("SettlementDate", each.issued_on),
            _leaf("PaymentMechanism", "Prepaid"),
        )
        for each in entries
        if each.kind == "prepaid"
    ]


def _document_totals(head: Head, entries: list[Entry]) -> bytes:
    """Add up the lines by tax code, as the invoice has it."""
    codes: dict[str, tuple[Entry, Decimal, Decimal]] = {}
    for each in entries:
        if each.kind == "revenue":
            _, net, tax = codes.get(each.tax_code or "", (each, Decimal(0), Decimal(0)))
            sums = (net - each.amount, tax - _tax_amount(each))
            codes[each.tax_code or ""] = (each, *sums)
    first = entries[0]
    return _node(
        "DocumentTotals",
        *(
            _tax("TaxInformationTotals", head, each, net, tax)
            for each, net, tax in codes.values()
        ),
        _leaf("NetTotal", _money(head, first, first.net_amount).home),
        _leaf("GrossTotal", _money(head, first, first.gross_amount).home),
    )


def _tax_amount(entry: Entry) -> Decimal:
    return entry.tax_amount or Decimal(0)


def _tax(name: str, head: Head, entry: Entry, net: Decimal, tax: Decimal) -> bytes:
    return _node(
        name,
        _leaf("TaxType", _TAX),
        _leaf("TaxCode", entry.tax_code),
        _leaf("TaxPercentage", entry.tax_rate),
        _leaf("TaxBase", _money(head, entry, net).home),
        _amount("TaxAmount", _money(head, entry, tax)),
    )


def _money(head: Head, entry: Entry, amount: Decimal) -> _Money:
    if entry.currency == head.home_currency:
        return _Money(amount, amount, entry.currency, None)
    if entry.exchange_rate is None:
        raise UsageError(
            f"document {entry.number} is in {entry.currency} and has no exchange rate,"
            f" and SAF-T wants all amounts in {head.home_currency}.",
            hint="Take another format.",
        )
    home = round(amount * entry.exchange_rate, 2)
    return _Money(home, amount, entry.currency, entry.exchange_rate)


def _amount(name: str, money: _Money) -> bytes:
    own = [
        _leaf("CurrencyCode", money.currency),
        _leaf("CurrencyAmount", money.own),
        _leaf("ExchangeRate", money.rate),
    ]
    return _node(
        name, _leaf("Amount", money.home), *(own if money.rate is not None else [])
    )


def _leaf(name: str, value: object) -> bytes:
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return f"<{name}>{escape(text)}</{name}>\n".encode()


def _node(name: str, *children: bytes) -> bytes:
    return _open(name) + b"".join(children) + _close(name)


def _open(name: str, **attributes: str) -> bytes:
    told = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{told}>\n".encode()


def _close(name: str) -> bytes:
    return f"</{name}>\n".encode()
