"""A catalog that tests declare and apply, as the file that it would be.

`declaration` changes one value of it, `refused` tells what is said against one.
"""

import copy
import json
import re
from datetime import date
from pathlib import Path
from typing import Any, cast

from psycopg import Connection

from pgbill import catalog
from pgbill.difference import Change
from tests.inputs import refusals, rows

Table = dict[str, Any]

TABLES = (
    "seller",
    "seller_snapshot",
    "number_series",
    "meter",
    "price",
    "price_version",
    "price_tier",
    "tax_rate",
)
DECLARED: Table = {
    "sellers": {
        "northlight": {
            "legal_name": 'Northlight "Hosting" GmbH',
            "street": "Am Wall 1",
            "postal_code": "28195",
            "city": "Bremen",
            "country": "DE",
            "vat_id": "DE123456789",
            "home_currency": "EUR",
            "zone": "Europe/Berlin",
            "mail_from": "invoices@northlight.example.com",
            "number_series": {"invoice": "NL-", "credit_note": "NLC-"},
            "bank_accounts": {"EUR": {"iban": "DE89370400440532013000"}},
            "legal_footers": {"en": "One\nTwo"},
        }
    },
    "meters": {"gb": {"name": "Transfer", "unit_code": "E34"}},
    "prices": {
        "fee": {
            "seller": "northlight",
            "currency": "EUR",
            "model": "flat",
            "timing": "advance",
            "unit_code": "MON",
            "tax_class": "standard",
            "revenue_account": "4400",
            "line_texts": {"en": "Fee", "de": "Gebühr"},
            "versions": [{"begins_on": date(2026, 1, 1), "amount": "9.90"}],
        },
        "transfer": {
            "seller": "northlight",
            "currency": "EUR",
            "model": "per_unit",
            "timing": "arrears",
            "meter": "gb",
            "unit_code": "E34",
            "tax_class": "standard",
            "line_texts": {"en": "Transfer"},
            "versions": [{"begins_on": date(2026, 1, 1), "amount": "0.0115"}],
        },
    },
    "tax_rates": [
        {
            "seller_country": "DE",
            "buyer_country": "DE",
            "buyer_status": ["business", "consumer"],
            "tax_class": "standard",
            "category": "S",
            "rate": "19",
            "begins_on": date(2021, 1, 1),
        },
        {
            "seller_country": "DE",
            "buyer_country": ["FR", "IT"],
            "buyer_status": "business",
            "tax_class": "standard",
            "category": "AE",
            "rate": "0",
            "begins_on": date(2021, 1, 1),
            "legal_text": "Reverse charge.",
        },
    ],
}


def toml(value: object) -> str:
    """Write a value as TOML, all in one line."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        text = ", ".join(f"{json.dumps(key)} = {toml(it)}" for key, it in members)
        return f"{{ {text} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, cast('list[object]', value)))}]"
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)


def declaration(*path: str | int, becomes: object = None) -> Table:
    """Return a copy of what is declared, with one value replaced or taken away."""
    declared = copy.deepcopy(DECLARED)
    place: Any = declared
    for step in path[:-1]:
        place = place[step]
    if path and becomes is None:
        del place[path[-1]]
    elif path:
        place[path[-1]] = becomes
    return declared


def apply(
    conn: Connection[Any],
    folder: Path,
    declared: Table = DECLARED,
    **options: Any,  # noqa: ANN401
) -> list[Change]:
    file = folder / "catalog.toml"
    # What `apply` takes for its transaction is to be a part of the test's.
    conn.execute("SELECT")
    text = "".join(f"{name} = {toml(it)}\n" for name, it in declared.items())
    file.write_text(text, encoding="utf-8")
    return catalog.apply(conn, str(file), **options)


def refused(conn: Connection[Any], folder: Path, declared: Table) -> list[str]:
    before = {table: rows(conn, table) for table in TABLES}
    told = refusals(apply, conn, folder, declared)
    assert {table: rows(conn, table) for table in TABLES} == before
    return [re.sub(r"^catalog\.toml:\d+: ", "", line) for line in told]


def sentences(changes: list[Change]) -> list[str]:
    return [f"{it.what} {it.key} {it.change}: {it.detail}" for it in changes]
