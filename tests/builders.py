"""Rows with defaults: a test names only what it is about.

Plain inserts by the owner of the schema. Each builder takes a connection first, returns
what is needed to refer to its row, and accepts any column of its table by name. The
caller owns the transaction. By default all begins on 1 January 2026, so a run needs a
`through`: up to today more periods are due than are allowed at once.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from psycopg import Connection, sql
from psycopg.types.json import Jsonb
from psycopg.types.range import DateRange

FIRST_DAY = date(2026, 1, 1)

_numbers = itertools.count(1)

Tier = tuple[str | None, str] | tuple[str | None, str, str]
"""The last quantity, or None; the amount of a unit; and a flat amount."""


@dataclass(frozen=True, slots=True)
class Account:
    """What refers to an account."""

    bucket: int
    account_id: int
    key: str
    seller_id: int
    currency: str


@dataclass(frozen=True, slots=True)
class Price:
    """What refers to a price."""

    price_id: int
    key: str
    seller_id: int
    currency: str
    meter_id: int | None


def insert(
    conn: Connection[Any], table: str, returning: str, /, **columns: object
) -> Any:  # noqa: ANN401
    """Insert one row and return one column of it; dicts become JSON."""
    query = sql.SQL("INSERT INTO pgbill.{} ({}) VALUES ({}) RETURNING {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(sql.Placeholder() * len(columns)),
        sql.Identifier(returning),
    )
    values = [
        Jsonb(value) if isinstance(value, dict) else value for value in columns.values()
    ]
    row = conn.execute(query, values).fetchone()
    assert row is not None
    return row[0]


def seller(conn: Connection[Any], key: str | None = None, **columns: object) -> int:
    """Insert a German seller that invoices in EUR, with its live and test series."""
    key = key or f"seller-{next(_numbers)}"
    defaults: dict[str, object] = {
        "key": key,
        "legal_name": "Northlight Hosting GmbH",
        "street": "Lindenallee 12",
        "postal_code": "20095",
        "city": "Hamburg",
        "country": "DE",
        "vat_id": "DE123456789",
        "home_currency": "EUR",
        "zone": "Europe/Berlin",
        "mail_from": "invoices@northlight.example.com",
    }
    seller_id: int = insert(conn, "seller", "seller_id", **{**defaults, **columns})
    for mode, prefix in (("live", ""), ("test", "TEST-")):
        series(conn, seller_id, mode=mode, prefix=f"{prefix}NL-")
        series(conn, seller_id, mode=mode, prefix=f"{prefix}NLC-", kind="credit_note")
    return seller_id


def series(conn: Connection[Any], seller_id: int, **columns: object) -> int:
    """Insert a series of numbers; a seller from `seller` has all of them."""
    defaults: dict[str, object] = {
        "seller_id": seller_id,
        "kind": "invoice",
        "mode": "live",
        "prefix": "NL-",
        "digits": 6,
    }
    series_id: int = insert(
        conn, "number_series", "series_id", **{**defaults, **columns}
    )
    return series_id


def meter(conn: Connection[Any], key: str | None = None, **columns: object) -> int:
    """Insert a meter that counts pieces."""
    key = key or f"meter-{next(_numbers)}"
    defaults: dict[str, object] = {"key": key, "unit_code": "C62", "name": key}
    meter_id: int = insert(conn, "meter", "meter_id", **{**defaults, **columns})
    return meter_id


def policy(conn: Connection[Any], **columns: object) -> int:
    """Return the policies that differ from the default in what is named."""
    row = conn.execute(
        "SELECT policy_id FROM pgbill.policy WHERE to_jsonb(policy) - 'policy_id' = ("
        " SELECT to_jsonb(usual) - 'policy_id' || %s FROM pgbill.policy AS usual"
        " WHERE usual.policy_id = 1)",
        [Jsonb(columns)],
    ).fetchone()
    if row is not None:
        return int(row[0])
    policy_id: int = insert(conn, "policy", "policy_id", **columns)
    return policy_id


def price(
    conn: Connection[Any],
    seller_id: int,
    *,
    amount: str = "10",
    begins_on: date = date(2020, 1, 1),
    meter_id: int | None = None,
    tiers: Sequence[Tier] | None = None,
    terms: dict[str, object] | None = None,
    **columns: object,
) -> Price:
    """Insert a price with one version, and one tier unless more are given.

    Flat and in advance; with a meter per unit and in arrears. The terms are columns of
    the version.
    """
    defaults: dict[str, object] = {
        "key": f"price-{next(_numbers)}",
        "seller_id": seller_id,
        "currency": "EUR",
        "model": "flat" if meter_id is None else "per_unit",
        "timing": "advance" if meter_id is None else "arrears",
        "meter_id": meter_id,
        "unit_code": "C62",
        "tax_class": "standard",
        "line_texts": {"en": "Hosting"},
    }
    values = {**defaults, **columns}
    price_id: int = insert(conn, "price", "price_id", **values)
    version(
        conn, price_id, amount=amount, begins_on=begins_on, tiers=tiers, **terms or {}
    )
    return Price(
        price_id, str(values["key"]), seller_id, str(values["currency"]), meter_id
    )


def version(
    conn: Connection[Any],
    price_id: int,
    *,
    begins_on: date,
    amount: str = "10",
    tiers: Sequence[Tier] | None = None,
    **terms: object,
) -> None:
    """Insert a version of a price, with its tiers: unless they are given, with one."""
    insert(
        conn,
        "price_version",
        "price_id",
        price_id=price_id,
        begins_on=begins_on,
        **terms,
    )
    add_tiers(conn, price_id, begins_on, [(None, amount)] if tiers is None else tiers)


def add_tiers(
    conn: Connection[Any],
    price_id: int,
    begins_on: date,
    tiers: Sequence[Tier],
    group_value: str = "",
) -> None:
    """Insert the tiers of a version, of a group or of all that have none."""
    for tier_no, (up_to, unit_amount, *flat_amount) in enumerate(tiers, start=1):
        insert(
            conn,
            "price_tier",
            "tier_no",
            price_id=price_id,
            begins_on=begins_on,
            tier_no=tier_no,
            group_value=group_value,
            up_to=None if up_to is None else Decimal(up_to),
            unit_amount=Decimal(unit_amount),
            flat_amount=Decimal(flat_amount[0] if flat_amount else 0),
        )


def tax_rate(
    conn: Connection[Any],
    *,
    rate: str = "19",
    begins_on: date = date(2020, 1, 1),
    ends_on: date | None = None,
    **columns: object,
) -> int:
    """Insert a German tax rate for businesses in Germany."""
    defaults: dict[str, object] = {
        "seller_country": "DE",
        "buyer_country": "DE",
        "buyer_status": "business",
        "tax_class": "standard",
        "category": "S",
        "rate": Decimal(rate),
        "valid_period": DateRange(begins_on, ends_on),
    }
    tax_rate_id: int = insert(
        conn, "tax_rate", "tax_rate_id", **{**defaults, **columns}
    )
    return tax_rate_id


def account(
    conn: Connection[Any],
    seller_id: int,
    *,
    key: str | None = None,
    first_period_on: date = FIRST_DAY,
    **columns: object,
) -> Account:
    """Insert a German business that pays in EUR; its lease is due on its first day."""
    key = key or f"account-{next(_numbers)}"
    defaults: dict[str, object] = {
        "key": key,
        "seller_id": seller_id,
        "legal_name": f"Example {key} GmbH",
        "street": "Hafenstraße 1",
        "postal_code": "28195",
        "city": "Bremen",
        "country": "DE",
        "tax_status": "business",
        "language": "en",
        "currency": "EUR",
        "zone": "Europe/Berlin",
        "first_period_on": first_period_on,
        "anchor_on": first_period_on,
        "recipients": {"invoice": [f"{key}@example.com"]},
    }
    values = {**defaults, **columns}
    bucket = bucket_of(conn, key)
    account_id: int = insert(conn, "account", "account_id", bucket=bucket, **values)
    return Account(bucket, account_id, key, seller_id, str(values["currency"]))


def bucket_of(conn: Connection[Any], key: str) -> int:
    """Return the bucket of an account's key."""
    row = conn.execute("SELECT pgbill.bucket_of(%s)", [key]).fetchone()
    assert row is not None
    return int(row[0])


def find(conn: Connection[Any], key: str) -> Account:
    """Return what refers to an account that is there."""
    row = conn.execute(
        "SELECT bucket, account_id, key, seller_id, currency FROM pgbill.account"
        " WHERE bucket = pgbill.bucket_of(%s) AND key = %s",
        [key, key],
    ).fetchone()
    assert row is not None
    return Account(*row)


def subscription(
    conn: Connection[Any],
    account: Account,
    *prices: Price | tuple[Price, str],
    starts_on: date = FIRST_DAY,
    ends_on: date | None = None,
    **columns: object,
) -> int:
    """Subscribe an account to prices, each once or, as a pair, so many times."""
    where = {"bucket": account.bucket, "account_id": account.account_id}
    period = DateRange(starts_on, ends_on)
    subscription_id: int = insert(
        conn,
        "subscription",
        "subscription_id",
        **where,
        **{
            "key": f"subscription-{next(_numbers)}",
            "active_period": period,
            **columns,
        },
    )
    for each in prices:
        subscribed, quantity = each if isinstance(each, tuple) else (each, "1")
        segment(
            conn,
            account,
            subscription_id,
            subscribed,
            quantity=quantity,
            starts_on=starts_on,
            ends_on=ends_on,
        )
    return subscription_id


def segment(
    conn: Connection[Any],
    account: Account,
    subscription_id: int,
    price: Price,
    *,
    quantity: str = "1",
    starts_on: date = FIRST_DAY,
    ends_on: date | None = None,
) -> None:
    """Let a subscription have a price in some quantity for some days."""
    insert(
        conn,
        "subscription_price",
        "price_id",
        bucket=account.bucket,
        account_id=account.account_id,
        subscription_id=subscription_id,
        price_id=price.price_id,
        seller_id=price.seller_id,
        currency=price.currency,
        meter_id=price.meter_id,
        quantity=Decimal(quantity),
        active_period=DateRange(starts_on, ends_on),
    )


def end_segment(
    conn: Connection[Any],
    account: Account,
    subscription_id: int,
    price: Price,
    ends_on: date,
) -> None:
    """End the price of a subscription that has no end yet, as an import does."""
    done = conn.execute(
        "UPDATE pgbill.subscription_price"
        " SET active_period = daterange(lower(active_period), %s)"
        " WHERE bucket = %s AND account_id = %s AND subscription_id = %s"
        " AND price_id = %s AND upper_inf(active_period)",
        [ends_on, account.bucket, account.account_id, subscription_id, price.price_id],
    )
    assert done.rowcount == 1, "the price has ended already"


def charge(conn: Connection[Any], account: Account, **columns: object) -> int:
    """Insert a one-off amount of 100, for service on 10 January."""
    key = f"charge-{next(_numbers)}"
    defaults: dict[str, object] = {
        "bucket": account.bucket,
        "account_id": account.account_id,
        "key": key,
        "description": "Setup",
        "unit_amount": Decimal(100),
        "tax_class": "standard",
        "service_on": date(2026, 1, 10),
    }
    charge_id: int = insert(conn, "charge", "charge_id", **{**defaults, **columns})
    return charge_id


def discount(
    conn: Connection[Any],
    account: Account,
    *,
    percent: str | None = None,
    amount: str | None = None,
    starts_on: date = FIRST_DAY,
    ends_on: date | None = None,
    **columns: object,
) -> int:
    """Insert a discount on all lines, by a percentage or by an amount."""
    key = columns.pop("key", f"discount-{next(_numbers)}")
    defaults: dict[str, object] = {
        "bucket": account.bucket,
        "account_id": account.account_id,
        "key": key,
        "description": f"Discount {key}",
        "percent": None if percent is None else Decimal(percent),
        "amount": None if amount is None else Decimal(amount),
        "active_period": DateRange(starts_on, ends_on),
    }
    discount_id: int = insert(
        conn, "discount", "discount_id", **{**defaults, **columns}
    )
    return discount_id


def prepaid_credit(
    conn: Connection[Any], account: Account, amount: str = "100", **columns: object
) -> int:
    """Insert a credit that is available from the first day on."""
    key = f"credit-{next(_numbers)}"
    defaults: dict[str, object] = {
        "bucket": account.bucket,
        "account_id": account.account_id,
        "key": key,
        "description": "Credit pack",
        "amount": Decimal(amount),
        "available_on": FIRST_DAY,
    }
    credit_id: int = insert(
        conn, "prepaid_credit", "prepaid_credit_id", **{**defaults, **columns}
    )
    return credit_id


def usage(
    conn: Connection[Any],
    account: Account,
    meter_id: int,
    *quantities: str,
    occurred_at: datetime = datetime(2026, 1, 15, 12, tzinfo=UTC),
    key: str | None = None,
    dimensions: dict[str, str] | None = None,
    corrects: str | None = None,
) -> int:
    """Insert usage records, a second apart, as one import; return its number.

    Without quantities one record of quantity 1. The first keeps `key`. What corrects
    another has its time and its dimensions.
    """
    import_seq = next_import(conn)
    times = [
        occurred_at + timedelta(seconds=index)
        for index in range(len(quantities or "1"))
    ]
    conn.execute(
        "SELECT pgbill.create_usage_partitions(%s)",
        [[time.astimezone(UTC).date() for time in times]],
    )
    for index, quantity in enumerate(quantities or ("1",)):
        insert(
            conn,
            "usage_record",
            "key",
            bucket=account.bucket,
            account_id=account.account_id,
            key=(key if key and index == 0 else f"usage-{next(_numbers)}"),
            occurred_at=times[index],
            meter_id=meter_id,
            quantity=Decimal(quantity),
            import_seq=import_seq,
            dimensions=dimensions,
            corrects_key=corrects,
        )
    insert(
        conn,
        "usage_watermark",
        "import_seq",
        bucket=account.bucket,
        import_seq=import_seq,
        earliest_at=occurred_at,
        record_count=len(times),
    )
    return import_seq


def next_import(conn: Connection[Any]) -> int:
    """Draw the number of an import, and hold it until the caller commits."""
    row = conn.execute(
        "UPDATE pgbill.usage_import_state SET last_import_seq = last_import_seq + 1"
        " RETURNING last_import_seq"
    ).fetchone()
    assert row is not None
    return int(row[0])
