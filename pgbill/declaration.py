"""Read a catalog file: what sellers, meters, prices and tax rates there shall be.

The file declares, it does not command: what it names is brought to what it says, what
it does not name stays. This module knows the file alone; `catalog` compares it with the
database. Whatever is wrong is noted with the path of keys to it, and the rest is read.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from pgbill import address, field, taxrate
from pgbill.errors import InputError
from pgbill.field import COUNTRY, Field, Places
from pgbill.taxrate import TaxRate

_KEY_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Series:
    """The prefixes of a seller's numbers, and how many digits a number has at least."""

    invoice: str
    credit_note: str
    digits: int

    def prefixes(self) -> dict[tuple[str, str], str]:
        """Return the prefix of each series, by kind and mode."""
        live = {"invoice": self.invoice, "credit_note": self.credit_note}
        return {
            (kind, mode): f"TEST-{prefix}" if mode == "test" else prefix
            for kind, prefix in live.items()
            for mode in ("live", "test")
        }


@dataclass(frozen=True, slots=True)
class Seller:
    """A seller: its columns by name, in the order of the file's documentation."""

    key: str
    columns: dict[str, Any]
    series: Series


@dataclass(frozen=True, slots=True)
class Meter:
    """What is counted."""

    key: str
    unit_code: str
    name: str


@dataclass(frozen=True, slots=True)
class Price:
    """What something costs, and from when on which amount."""

    key: str
    seller: str
    currency: str
    model: str
    timing: str
    meter: str | None
    unit_code: str
    tax_class: str
    revenue_account: str | None
    line_texts: dict[str, str]
    amounts: dict[date, Decimal]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a file declares, and what is wrong with it.

    Attributes:
        text: Of the whole file.
        named: The keys in each table, those among them whose content is wrong.
        tax_rates: Each with its place in the file.
    """

    source: str
    text: str
    places: Places
    named: dict[str, set[str]]
    sellers: dict[str, Seller]
    meters: dict[str, Meter]
    prices: dict[str, Price]
    tax_rates: list[tuple[str, TaxRate]]


_CURRENCY = field.matching("[A-Z]{3}", "a currency such as EUR")
_UNIT = field.matching("[A-Z0-9]{2,3}", "a UN/ECE unit code such as C62")
_PREFIX = field.matching("[A-Za-z0-9._/-]{1,20}", "a prefix such as INV-")
_LANGUAGE = "[a-z]{2}(-[A-Z]{2})?"


def _address(value: object) -> str:
    found = field.text(value)
    address.check(found)
    return found


def _sender(value: object) -> str:
    found = _address(value)
    if not found.partition("@")[0].isascii():
        raise ValueError("an address to send from has only ASCII before the @")
    return found


def _bank_account(value: object) -> dict[str, str]:
    places = Places()
    fields = [Field(name, field.text) for name in ("iban", "bic", "bank")]
    found = places.table("bank account", value, fields)
    if found is None:
        raise ValueError("; ".join(map(str, places.found)))
    return {name: text for name, text in found.items() if text is not None}


_SELLER = (
    Field("legal_name", field.text, is_required=True),
    Field("street", field.text, is_required=True),
    Field("street_2", field.text),
    Field("postal_code", field.text, is_required=True),
    Field("city", field.text, is_required=True),
    Field("region", field.text),
    Field("country", COUNTRY, is_required=True),
    Field("vat_id", field.text),
    Field("tax_number", field.text),
    Field("register_entry", field.text),
    Field("contact_name", field.text),
    Field("contact_email", _address),
    Field("contact_phone", field.text),
    Field(
        "bank_accounts",
        field.by_key("[A-Z]{3}", "a currency such as EUR", _bank_account),
    ),
    Field(
        "legal_footers",
        field.by_key(_LANGUAGE, "a language such as en", field.paragraph),
    ),
    Field("home_currency", _CURRENCY, is_required=True),
    Field("zone", field.text, is_required=True),
    Field("mail_from", _sender, is_required=True),
)
SELLER_COLUMNS = tuple(each.name for each in _SELLER)

_SERIES = (
    Field("invoice", _PREFIX, is_required=True),
    Field("credit_note", _PREFIX, is_required=True),
    Field("digits", field.whole(1, 18)),
)
_METER = (
    Field("name", field.text, is_required=True),
    Field("unit_code", _UNIT, is_required=True),
)
_PRICE = (
    Field("seller", field.text, is_required=True),
    Field("currency", _CURRENCY, is_required=True),
    Field("model", field.one_of("flat", "per_unit"), is_required=True),
    Field("timing", field.one_of("advance", "arrears"), is_required=True),
    Field("meter", field.text),
    Field("unit_code", _UNIT, is_required=True),
    Field("tax_class", field.text, is_required=True),
    Field("revenue_account", field.text),
    Field(
        "line_texts",
        field.by_key(_LANGUAGE, "a language such as en", field.text),
        is_required=True,
    ),
    Field("versions", field.anything, is_required=True),
)
_VERSION = (
    Field("begins_on", field.day, is_required=True),
    Field("amount", field.decimal, is_required=True),
)
_SECTIONS = ("sellers", "meters", "prices", "tax_rates")


def read(file: str) -> Declaration:
    """Read a file; what is wrong with its values is in `places`.

    Raises:
        InputError: It cannot be read, or is not TOML.
    """
    text = _text(file)
    content = _content(file, text)
    places = Places()
    for name in content.keys() - set(_SECTIONS):
        places.add(name, f"there is no such table (there are {', '.join(_SECTIONS)})")
    return Declaration(
        file,
        text,
        places,
        {name: set(_keys(content.get(name))) for name in ("sellers", "meters")},
        {
            key: seller
            for key, place, given in _tables(places, content, "sellers")
            if (seller := _seller(places, place, key, given))
        },
        {
            key: Meter(key=key, **values)
            for key, place, given in _tables(places, content, "meters")
            if (values := places.table(place, given, _METER))
        },
        {
            key: price
            for key, place, given in _tables(places, content, "prices")
            if (price := _price(places, place, key, given))
        },
        list(taxrate.read(places, content.get("tax_rates", []))),
    )


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{file}:{line}: the file is not UTF-8.") from None


def _content(file: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is not valid TOML: {error}.") from None
    except RecursionError:
        raise InputError(f"{file} is nested too deeply.") from None


def _keys(given: object) -> Iterable[str]:
    return cast("dict[str, object]", given) if isinstance(given, dict) else ()


def _tables(
    places: Places, content: dict[str, Any], section: str
) -> Iterator[tuple[str, str, object]]:
    """Go through the tables of a section: key, place, content."""
    tables = content.get(section, {})
    if not isinstance(tables, dict):
        places.add(section, f"write a table for each, as in [{section}.a-key]")
        return
    for key, given in cast("dict[str, object]", tables).items():
        place = f"{section}.{key}"
        if not key or not key.isprintable() or len(key) > _KEY_LIMIT:
            places.add(place, f"a key has 1 to {_KEY_LIMIT} printable characters")
        else:
            yield key, place, given


def _seller(places: Places, place: str, key: str, given: object) -> Seller | None:
    fields = (*_SELLER, Field("number_series", field.anything, is_required=True))
    values = places.table(place, given, fields)
    if values is None:
        return None
    place = f"{place}.number_series"
    numbers = places.table(place, values.pop("number_series"), _SERIES)
    if numbers is None:
        return None
    series = Series(numbers["invoice"], numbers["credit_note"], numbers["digits"] or 6)
    if len(set(series.prefixes().values())) < len(series.prefixes()):
        places.add(place, "invoices and credit notes need prefixes of their own")
    for name in ("bank_accounts", "legal_footers"):
        values[name] = values[name] or {}
    return Seller(key, values, series)


def _price(places: Places, place: str, key: str, given: object) -> Price | None:
    values = places.table(place, given, _PRICE)
    if values is None:
        return None
    amounts = _amounts(places, f"{place}.versions", values.pop("versions"))
    if not values["line_texts"]:
        places.add(f"{place}.line_texts", "there is none")
    if values["model"] == "flat" and values["meter"]:
        places.add(f"{place}.meter", "a flat price has no meter")
    if values["model"] == "per_unit" and not values["meter"]:
        places.add(f"{place}.meter", "a per_unit price needs the meter that it is for")
    if values["model"] == "per_unit" and values["timing"] == "advance":
        places.add(f"{place}.timing", "usage is billed in arrears")
    return Price(key=key, amounts=amounts, **values)


def _amounts(places: Places, place: str, given: object) -> dict[date, Decimal]:
    versions = cast("list[object]", given) if isinstance(given, list) else []
    if not versions:
        places.add(place, "it is not an array with at least one version")
    amounts: dict[date, Decimal] = {}
    for number, each in enumerate(versions, start=1):
        values = places.table(f"{place}[{number}]", each, _VERSION)
        if values is None:
            continue
        if values["begins_on"] in amounts:
            places.add(
                f"{place}[{number}]", f"{values['begins_on']} has a version already"
            )
        amounts[values["begins_on"]] = values["amount"]
    return amounts
