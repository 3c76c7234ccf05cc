"""Write an export for DATEV: a batch of bookings (EXTF Buchungsstapel).

Each booking is of two accounts: the debtor, and revenue with the tax in it, which DATEV
takes out again by the tax key; or prepaid credit, and the debtor. The format is fixed:
what DATEV cannot take (an account with letters, a tax code without key, two fiscal
years in one batch) is refused in a sentence, and nothing is exported.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from psycopg import Connection

from pgbill import posting, vatid
from pgbill.errors import ConfigError, UsageError
from pgbill.posting import Accounts, Entry, Head

# Described at https://developer.datev.de/en/file-format/details/datev-format (header,
# bookings batch): version 700 of the header, version 13 of data category 21.
_HEADER_VERSION, _CATEGORY, _DATA_VERSION = 700, 21, 13
_MOST_BOOKINGS = 99_999
_MOST_AMOUNT = Decimal("9999999999.99")
_COLUMNS = (
    *("Umsatz (ohne Soll/Haben-Kz)", "Soll/Haben-Kennzeichen", "WKZ Umsatz", "Kurs"),
    *("Basis-Umsatz", "WKZ Basis-Umsatz", "Konto", "Gegenkonto (ohne BU-Schlüssel)"),
    *("BU-Schlüssel", "Belegdatum", "Belegfeld 1", "Belegfeld 2", "Skonto"),
    *("Buchungstext", "Postensperre", "Diverse Adressnummer", "Geschäftspartnerbank"),
    *("Sachverhalt", "Zinssperre", "Beleglink"),
    *(
        f"Beleginfo - {what} {number}"
        for number in range(1, 9)
        for what in ("Art", "Inhalt")
    ),
    *("KOST1 - Kostenstelle", "KOST2 - Kostenstelle", "Kost-Menge"),
    *("EU-Land u. UStID (Bestimmung)", "EU-Steuersatz (Bestimmung)"),
    *("Abw. Versteuerungsart", "Sachverhalt L+L", "Funktionsergänzung L+L"),
    *("BU 49 Hauptfunktionstyp", "BU 49 Hauptfunktionsnummer"),
    "BU 49 Funktionsergänzung",
    *(
        # The second has no space before its hyphen, in the description as well.
        f"Zusatzinformation{what} {number}"
        for number in range(1, 21)
        for what in (" - Art", "- Inhalt")
    ),
    *("Stück", "Gewicht", "Zahlweise", "Forderungsart", "Veranlagungsjahr"),
    *("Zugeordnete Fälligkeit", "Skontotyp", "Auftragsnummer", "Buchungstyp"),
    *("USt-Schlüssel (Anzahlungen)", "EU-Land (Anzahlungen)"),
    *("Sachverhalt L+L (Anzahlungen)", "EU-Steuersatz (Anzahlungen)"),
    *("Erlöskonto (Anzahlungen)", "Herkunft-Kz", "Buchungs GUID", "KOST-Datum"),
    *("SEPA-Mandatsreferenz", "Skontosperre", "Gesellschaftername"),
    *("Beteiligtennummer", "Identifikationsnummer", "Zeichnernummer"),
    *("Postensperre bis", "Bezeichnung SoBil-Sachverhalt"),
    *("Kennzeichen SoBil-Buchung", "Festschreibung", "Leistungsdatum"),
    *("Datum Zuord. Steuerperiode", "Fälligkeit", "Generalumkehr (GU)"),
    *("Steuersatz", "Land", "Abrechnungsreferenz", "BVV-Position"),
    *("EU-Land u. UStID (Ursprung)", "EU-Steuersatz (Ursprung)"),
    "Abw. Skontokonto",
)
_TEXTS = {
    *("Soll/Haben-Kennzeichen", "WKZ Umsatz", "BU-Schlüssel", "Belegfeld 1"),
    *("Buchungstext", "KOST1 - Kostenstelle", "EU-Land u. UStID (Bestimmung)"),
}
# What Windows-1252 lacks and no decomposition gives.
_LETTERS = str.maketrans("ŁłĐđĦħŦŧıŊŋĸ", "LlDdHhTtiNnk")
# Where the buyer owes the tax: deliveries within the EU, and reverse charge.
_OWED_BY_BUYER = {"K", "AE"}
_NOT_IN_NUMBERS = re.compile(r"[^A-Za-z0-9$&%*+\-/]")


@dataclass(frozen=True, slots=True)
class Client:
    """What DATEV knows the seller by.

    Attributes:
        consultant: Beraternummer.
        client: Mandantennummer.
        fiscal_month: In whose first day the fiscal year begins.
        account_digits: Of accounts; a debtor's has one more.
        tax_keys: BU-Schlüssel by tax code, empty for none.
    """

    consultant: int
    client: int
    fiscal_month: int
    account_digits: int
    tax_keys: dict[str, str]

    def fiscal_year(self, day: date) -> date:
        """Return the first day of the fiscal year of a day."""
        year = day.year if day.month >= self.fiscal_month else day.year - 1
        return date(year, self.fiscal_month, 1)


def tax_keys(text: str) -> dict[str, str]:
    """Read `S19=3 S7=2 AE0=`: the tax key of each tax code.

    Raises:
        ValueError: It is written otherwise.
    """
    keys: dict[str, str] = {}
    for word in text.replace(",", " ").split():
        match = re.fullmatch(r"([A-Z]+[0-9.]+)=([0-9]{0,4})", word)
        if match is None:
            raise ValueError(f"{word!r} is not a tax code with its key, such as S19=3")
        keys[match[1]] = match[2]
    return keys


def render(
    conn: Connection[Any], head: Head, accounts: Accounts, client: Client
) -> Iterator[bytes]:
    """Yield the lines of the file, in Windows-1252 with CRLF.

    Raises:
        UsageError: It does not fit into one batch.
        ConfigError: An account or a tax key is missing, or none that DATEV takes.
    """
    begins_on = client.fiscal_year(head.first_on)
    if client.fiscal_year(head.last_on) != begins_on:
        raise UsageError(
            f"the documents are of two fiscal years, from {head.first_on} to"
            f" {head.last_on}, and DATEV takes one in a batch.",
            hint="Export through the last day of the first one, then the rest.",
        )
    yield _line(_header(head, client, begins_on))
    yield _line(_quoted(name) for name in _COLUMNS)
    count = 0
    for entries in posting.documents(conn, head.export_id):
        for booking in _bookings(head, accounts, client, entries):
            count += 1
            if count > _MOST_BOOKINGS:
                raise UsageError(
                    f"DATEV takes {_MOST_BOOKINGS:,} bookings in a batch.",
                    hint="Export through an earlier day first.",
                )
            yield _line(_fields(booking))


def _header(head: Head, client: Client, begins_on: date) -> list[str]:
    return [
        *(_quoted("EXTF"), str(_HEADER_VERSION), str(_CATEGORY)),
        *(_quoted("Buchungsstapel"), str(_DATA_VERSION)),
        f"{head.exported_at:%Y%m%d%H%M%S}{head.exported_at.microsecond // 1000:03}",
        *("", _quoted("RE"), _quoted("pgbill"), _quoted("")),
        *(str(client.consultant), str(client.client)),
        *(f"{begins_on:%Y%m%d}", str(client.account_digits)),
        *(f"{head.first_on:%Y%m%d}", f"{head.last_on:%Y%m%d}"),
        *(_quoted(f"pgbill Export {head.export_id}"), _quoted("")),
        # Bookings of the year, for no purpose of its own, not fixed yet.
        *("1", "0", "0", _quoted(head.home_currency)),
        *("", _quoted(""), "", "", _quoted(""), "", "", _quoted("")),
        _quoted(str(head.export_id)),
    ]


def _bookings(
    head: Head, accounts: Accounts, client: Client, entries: list[Entry]
) -> Iterator[dict[str, str]]:
    debtor = _debtor(accounts, client, entries[0])
    for entry in entries:
        if entry.kind == "revenue":
            gross = -(entry.amount + (entry.tax_amount or 0))
            account = _account(accounts.of(entry), client, "REVENUE")
            tax = _tax_fields(client, entry)
            if gross:
                yield {**_booking(head, entry, gross, debtor, account), **tax}
        elif entry.kind == "prepaid":
            account = _account(accounts.of(entry), client, "PREPAID")
            yield _booking(head, entry, entry.amount, account, debtor)


def _booking(
    head: Head, entry: Entry, amount: Decimal, account: str, against: str
) -> dict[str, str]:
    """Debit an account against another; below zero the other way round."""
    rate = entry.exchange_rate if entry.currency != head.home_currency else None
    return {
        "Umsatz (ohne Soll/Haben-Kz)": _amount(entry, abs(amount)),
        "Soll/Haben-Kennzeichen": "S" if amount > 0 else "H",
        "WKZ Umsatz": entry.currency,
        "Kurs": "" if rate is None else f"{rate:.6f}".replace(".", ","),
        "Konto": account,
        "Gegenkonto (ohne BU-Schlüssel)": against,
        "Belegdatum": f"{entry.issued_on:%d%m}",
        "Belegfeld 1": _NOT_IN_NUMBERS.sub("-", entry.number)[:36],
        "Buchungstext": _western(str(entry.buyer.get("legal_name") or entry.account))[
            :60
        ],
        "KOST1 - Kostenstelle": (entry.cost_centre or "")[:36],
        "Fälligkeit": f"{entry.payable_on:%d%m%Y}",
    }


def _tax_fields(client: Client, entry: Entry) -> dict[str, str]:
    code = entry.tax_code or ""
    if code not in client.tax_keys:
        raise ConfigError(
            f"DATEV needs a tax key for tax code {code} (document {entry.number}).",
            hint=f"Add {code}= with its key to PGBILL_DATEV_TAX_KEYS; nothing after the"
            " sign, if its accounts have their tax themselves.",
        )
    vat_id = str(entry.buyer.get("vat_id") or "")
    return {
        "BU-Schlüssel": client.tax_keys[code],
        "EU-Land u. UStID (Bestimmung)": (
            vat_id
            if entry.tax_category in _OWED_BY_BUYER and vatid.is_of_eu(vat_id)
            else ""
        ),
        "Leistungsdatum": f"{entry.service_through:%d%m%Y}",
    }


def _debtor(accounts: Accounts, client: Client, entry: Entry) -> str:
    """Return the buyer's own account, if it has one, else the one of all."""
    number = str(entry.buyer.get("customer_number") or "")
    if re.fullmatch(rf"[1-9][0-9]{{{client.account_digits}}}", number):
        return number
    return _account(accounts.receivable, client, "RECEIVABLE")


def _account(account: str, client: Client, name: str) -> str:
    if not re.fullmatch(rf"[0-9]{{1,{client.account_digits + 1}}}", account):
        raise ConfigError(
            f"account {account} is not one of DATEV, which has up to"
            f" {client.account_digits} digits.",
            hint=f"Set PGBILL_LEDGER_{name}_ACCOUNT, or the revenue_account of prices"
            " and charges.",
        )
    return account.rjust(client.account_digits, "0")


def _amount(entry: Entry, amount: Decimal) -> str:
    if amount != round(amount, 2) or amount > _MOST_AMOUNT:
        raise UsageError(
            f"DATEV takes no amount of {amount:f} {entry.currency} (document"
            f" {entry.number}): it has two decimals, and ten digits before them."
        )
    return f"{amount:.2f}".replace(".", ",")


def _fields(booking: dict[str, str]) -> Iterator[str]:
    for name in _COLUMNS:
        value = booking.get(name, "")
        yield _quoted(value) if name in _TEXTS else value


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _western(text: str) -> str:
    """Write a text in Windows-1252; letters that it lacks lose their marks."""
    return "".join(map(_letter, text))


def _letter(letter: str) -> str:
    try:
        letter.encode("cp1252")
    except UnicodeEncodeError:
        parts = unicodedata.normalize("NFKD", letter.translate(_LETTERS))
        return "".join(each for each in parts if not unicodedata.combining(each))
    return letter


def _line(fields: Iterator[str] | list[str]) -> bytes:
    text = _western(";".join(fields))
    return (text + "\r\n").encode("cp1252", errors="replace")
