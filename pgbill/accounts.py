"""Turn a file of accounts into accounts.

A row is the whole account: a value that is left out is the default, not what was there
before. An account that comes again is updated, since addresses change; issued invoices
keep their copy. What decides how its periods are cut and in which currency they are
billed stays as it was first imported: seller, currency, interval, anchor, first day.

The zone may change, as people move. The boundary that is due keeps its instant, or the
running period would bill usage that another has billed, or none; later boundaries are
midnights of the new zone.
"""

import json
from typing import Any, cast

from psycopg import Connection

from pgbill import address, column, country, db, vatid
from pgbill.column import Column
from pgbill.problem import shown
from pgbill.staging import Count, Found, Layout, Staged, Written

_QUERIES = db.Queries("accounts")
_RECIPIENT_LIMIT = 20


def _addresses(given: list[str]) -> list[str]:
    found = list(dict.fromkeys(each.strip() for each in given if each.strip()))
    if len(found) > _RECIPIENT_LIMIT:
        raise ValueError(f"there are more than {_RECIPIENT_LIMIT} addresses")
    for each in found:
        try:
            address.check(each)
        except ValueError as error:
            raise ValueError(f"{shown(each)}: {error}") from None
    return found


def _email(value: str) -> str:
    """Take addresses, separated by semicolons; return them as a JSON array."""
    return json.dumps(_addresses(value.split(";")))


def _recipients(value: str) -> str:
    """Take addresses by role, as JSON."""
    given: object = json.loads(value)
    if isinstance(given, dict):
        roles = cast("dict[str, object]", given).items()
        return json.dumps({role: _role(role, each) for role, each in roles})
    raise ValueError('it is not an object such as {"invoice": ["a@example.com"]}')


def _role(role: str, given: object) -> list[str]:
    members = cast("list[object]", given) if isinstance(given, list) else [None]
    column.matching("[a-z][a-z_]{0,30}", "a role such as invoice")(role)
    if not all(isinstance(member, str) for member in members):
        raise ValueError(f"role {role} has no array of addresses")
    return _addresses(cast("list[str]", members))


def _vat_id(value: str) -> str:
    vatid.check(value)
    return value


def _anchor(value: str) -> str:
    """Take a day, or the word for the calendar's period that holds the first day."""
    if value == "calendar":
        return value
    try:
        return column.day(value)
    except ValueError as error:
        raise ValueError(f"{error} (or write calendar)") from None


_INTERVALS = ("weekly", "monthly", "quarterly", "half_yearly", "yearly")

LAYOUT = Layout(
    columns=(
        Column("key", column.key, is_required=True),
        Column("seller", column.key, is_required=True),
        Column("legal_name", column.text, is_required=True),
        Column("street", column.text, is_required=True),
        Column("street_2", column.text),
        Column("postal_code", column.text),
        Column("city", column.text, is_required=True),
        Column("region", column.text),
        Column("country", country.check, is_required=True),
        Column("tax_status", column.one_of("business", "consumer")),
        Column("vat_id", _vat_id),
        Column("registration_id", column.text),
        Column("customer_number", column.text),
        Column(
            "language",
            column.matching("[a-z]{2}(-[A-Z]{2})?", "a language such as en or pt-BR"),
        ),
        Column("currency", column.matching("[A-Z]{3}", "a currency such as EUR")),
        Column("zone", column.text),
        Column("first_period_on", column.day, is_required=True),
        Column("billing_interval", column.one_of(*_INTERVALS)),
        Column("anchor_on", _anchor),
        Column("net_days", column.whole(0, 365)),
        Column("end_of_month", column.boolean),
        Column("discount_percent", column.decimal),
        Column("discount_days", column.whole(0, 365)),
        Column(
            "payment_means",
            column.matching("[0-9A-Z]{1,3}", "a UNTDID 4461 code such as 30"),
        ),
        Column("buyer_reference", column.text),
        Column("electronic_address", column.text),
        Column(
            "electronic_address_scheme",
            column.matching("[0-9]{4}|[A-Z]{2}", "an EAS code such as 0088"),
        ),
        Column("email", _email),
        Column("recipients", _recipients, is_list=True),
        Column("delivery_channel", column.one_of("email", "folder")),
    ),
    queries=_QUERIES,
    table="staged_account",
)


def write(conn: Connection[Any], staged: Staged) -> Written:
    """Write the accounts that are new or have changed; other imports of accounts queue.

    Must be the first in its transaction, as migrations lock `lease` first.

    Raises:
        BadInputError: Something is wrong with the file.
        LeaseHeldError: An account whose invoice would change is being invoiced.
    """
    db.execute(conn, _QUERIES["lock_leases"])
    db.execute(conn, _QUERIES["lock_accounts"])
    db.execute(conn, _QUERIES["complete"])
    conn.execute("ANALYZE pg_temp.complete_account")
    staged.refuse(db.fetch_all(conn, _QUERIES["problems"], Found))
    db.execute(conn, _QUERIES["revoke_leases"])
    while db.execute(conn, _QUERIES["move_first_boundaries"]):
        pass
    changed_count = db.execute(conn, _QUERIES["update"])
    inserted = db.fetch_one(conn, _QUERIES["insert"], Count)
    assert inserted is not None
    unchanged_count = staged.read_count - inserted.count - changed_count
    return Written(inserted.count, changed_count, unchanged_count)


def analyze(conn: Connection[Any]) -> None:
    """Renew the statistics, after the commit: plans made on an empty table scan it."""
    conn.execute("ANALYZE pgbill.account, pgbill.lease")
