"""Read a catalog file: what sellers, meters, prices and tax rates there shall be.

The file declares, it does not command: what it names is brought to what it says, what
it does not name stays. This module knows the file alone; `catalog` compares it with the
database. Whatever is wrong is noted with the path of keys to it, and the rest is read.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pgbill import address, field, pricing, taxrate, vatid
from pgbill import policy as policies
from pgbill.errors import InputError
from pgbill.field import Field, Places, country_code
from pgbill.policy import Policy
from pgbill.pricing import CURRENCY, LANGUAGE, UNIT, Price
from pgbill.taxrate import TaxRate

_KEY_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Series:
    """The prefixes of a seller's numbers, and how many digits a number has at least.

    Attributes:
        first_numbers: Of live series, by kind; one that is left out stays as it is.
    """

    invoice: str
    credit_note: str
    digits: int
    first_numbers: dict[str, int]

    def first_number(self, kind: str, mode: str) -> int | None:
        """Return the number that a series shall begin with, or none if it may stay."""
        return self.first_numbers.get(kind) if mode == "live" else None

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
    policy: Policy


@dataclass(frozen=True, slots=True)
class Meter:
    """What is counted, and how the records of a period become one quantity."""

    key: str
    unit_code: str
    name: str
    aggregation: str
    unique_dimension: str | None
    quantity_digits: int | None
    quantity_rounding: str


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


_PREFIX = field.matching("[A-Za-z0-9._/-]{1,20}", "a prefix such as INV-")


def _address(value: object) -> str:
    found = field.text(value)
    address.check(found)
    return found


def _sender(value: object) -> str:
    found = _address(value)
    if not found.partition("@")[0].isascii():
        raise ValueError("an address to send from has only ASCII before the @")
    return found


def _vat_id(value: object) -> str:
    found = field.text(value)
    vatid.check(found)
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
    Field("country", country_code, is_required=True),
    Field("vat_id", _vat_id),
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
        field.by_key(LANGUAGE, "a language such as en", field.paragraph),
    ),
    Field("home_currency", CURRENCY, is_required=True),
    Field("zone", field.text, is_required=True),
    Field("mail_from", _sender, is_required=True),
)
SELLER_COLUMNS = tuple(each.name for each in _SELLER)


def _first_numbers(value: object) -> dict[str, int]:
    """Take a first number: of invoices, or by kind."""
    number = field.whole(1, 999_999_999)
    if not isinstance(value, dict):
        return {"invoice": cast("int", number(value))}
    places = Places()
    fields = [Field(kind, number) for kind in ("invoice", "credit_note")]
    found = places.table("first_number", cast("object", value), fields)
    if found is None:
        raise ValueError("; ".join(map(str, places.found)))
    return {kind: it for kind, it in found.items() if it is not None}


_SERIES = (
    Field("invoice", _PREFIX, is_required=True),
    Field("credit_note", _PREFIX, is_required=True),
    Field("digits", field.whole(1, 18)),
    Field("first_number", _first_numbers),
)
_METER = (
    Field("name", field.text, is_required=True),
    Field("unit_code", UNIT, is_required=True),
    Field(
        "aggregation",
        field.one_of(
            *("sum", "count", "maximum", "last", "unique_count", "time_weighted")
        ),
    ),
    Field("unique_dimension", field.text),
    Field("quantity_digits", field.whole(0, 12)),
    Field(
        "quantity_rounding",
        field.one_of("half_up", "half_down", "half_even", "down", "up"),
    ),
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
            key: meter
            for key, place, given in _tables(places, content, "meters")
            if (meter := _meter(places, place, key, given))
        },
        {
            key: price
            for key, place, given in _tables(places, content, "prices")
            if (price := pricing.read(places, place, key, given))
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
    fields = (
        *_SELLER,
        Field("number_series", field.anything, is_required=True),
        Field("policy", field.anything),
    )
    values = places.table(place, given, fields)
    if values is None:
        return None
    policy = policies.read(places, f"{place}.policy", values.pop("policy"))
    place = f"{place}.number_series"
    numbers = places.table(place, values.pop("number_series"), _SERIES)
    if numbers is None:
        return None
    series = Series(
        numbers["invoice"],
        numbers["credit_note"],
        numbers["digits"] or 6,
        numbers["first_number"] or {},
    )
    if len(set(series.prefixes().values())) < len(series.prefixes()):
        places.add(place, "invoices and credit notes need prefixes of their own")
    for name in ("bank_accounts", "legal_footers"):
        values[name] = values[name] or {}
    return Seller(key, values, series, policy)


def _meter(places: Places, place: str, key: str, given: object) -> Meter | None:
    values = places.table(place, given, _METER)
    if values is None:
        return None
    values["aggregation"] = values["aggregation"] or "sum"
    counts_values = values["aggregation"] == "unique_count"
    if counts_values and not values["unique_dimension"]:
        places.add(place, "a unique_count needs the unique_dimension that it counts")
    if values["unique_dimension"] and not counts_values:
        places.add(f"{place}.unique_dimension", "only a unique_count has one")
    if values["quantity_rounding"] and values["quantity_digits"] is None:
        reason = "it rounds nothing unless quantity_digits says where"
        places.add(f"{place}.quantity_rounding", reason)
    values["quantity_rounding"] = values["quantity_rounding"] or "half_up"
    return Meter(key=key, **values)
