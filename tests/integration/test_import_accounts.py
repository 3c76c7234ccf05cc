"""A file of accounts is taken over as a whole, any number of times, or refused."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing
from pgbill.errors import LeaseHeldError
from pgbill.importing import Report
from tests import builders
from tests.actors import Actor, bill_all
from tests.inputs import Row, refusals, rows, write_csv, write_jsonl
from tests.shop import Shop, run_sql, value

pytestmark = pytest.mark.one_server

ACCOUNT: Row = {
    "key": "a-1",
    "seller": "northlight",
    "legal_name": "Grün & Söhne, Lda.",
    "street": "Am Wall 1",
    "postal_code": "28195",
    "city": "Bremen",
    "country": "DE",
    "first_period_on": "2026-01-01",
    "email": "a@example.com; b@example.com;",
}


@pytest.fixture(autouse=True)
def _seller(conn: Connection[Any]) -> None:
    builders.seller(conn, "northlight")


def load(conn: Connection[Any], folder: Path, *accounts: Row) -> Report:
    return importing.accounts(conn, write_csv(folder / "accounts.csv", accounts))


def refused(conn: Connection[Any], folder: Path, *accounts: Row) -> list[str]:
    before = rows(conn, "account")
    told = refusals(load, conn, folder, *accounts)
    assert rows(conn, "account") == before
    return told


def test_what_is_left_out_has_a_default(conn: Connection[Any], tmp_path: Path) -> None:
    report = load(conn, tmp_path, ACCOUNT)

    (account,) = rows(conn, "account")
    assert report == Report(read=1, new=1, changed=0, unchanged=0)
    assert account["recipients"] == {"invoice": ["a@example.com", "b@example.com"]}
    assert account["tax_status"] == "consumer"
    assert account["anchor_on"] == "2026-01-01"
    assert account["billing_interval"] == "monthly"
    assert (account["currency"], account["zone"]) == ("EUR", "Europe/Berlin")
    assert (account["language"], account["delivery_channel"]) == ("en", "email")
    assert (account["net_days"], account["payment_means"]) == (30, "30")


def test_who_has_a_vat_id_is_a_business(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, ACCOUNT | {"vat_id": "DE123456789"})

    assert value(conn, "SELECT tax_status FROM pgbill.account") == "business"


def test_a_new_account_has_a_lease(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, ACCOUNT | {"zone": "America/New_York"})

    due_at = value(conn, "SELECT due_at::text FROM pgbill.lease")
    assert due_at == "2026-01-01 05:00:00+00"


def test_a_file_imported_again_changes_nothing(
    conn: Connection[Any], tmp_path: Path
) -> None:
    accounts = [ACCOUNT, ACCOUNT | {"key": "a-2", "discount_percent": "2.50"}]
    accounts[1] |= {"discount_days": "10", "end_of_month": "TRUE"}
    load(conn, tmp_path, *accounts)
    before = rows(conn, "account")

    report = load(conn, tmp_path, *accounts)

    assert report == Report(read=2, new=0, changed=0, unchanged=2)
    assert rows(conn, "account") == before


def test_json_lines_are_taken_as_csv_is(conn: Connection[Any], tmp_path: Path) -> None:
    account = ACCOUNT | {"net_days": 14, "end_of_month": True, "discount_days": 5}
    account |= {"discount_percent": 1.5, "street_2": None}
    in_json = {name: account[name] for name in account if name != "email"}
    in_json["recipients"] = {"invoice": ["a@example.com", "b@example.com"]}
    load(conn, tmp_path, account)

    report = importing.accounts(conn, write_jsonl(tmp_path / "a.jsonl", [in_json]))

    assert report.unchanged == 1


def test_an_address_may_change(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, ACCOUNT)

    report = load(
        conn, tmp_path, ACCOUNT | {"city": "Verden", "email": "c@example.com"}
    )

    assert report == Report(read=1, new=0, changed=1, unchanged=0)
    (account,) = rows(conn, "account")
    assert account["city"] == "Verden"
    assert account["recipients"] == {"invoice": ["c@example.com"]}


def test_an_issued_invoice_keeps_its_copy(
    conn: Connection[Any], tmp_path: Path
) -> None:
    shop = Shop.open(conn, key="shop")
    account = shop.account(conn, key="a-1")
    bill_all(conn, account)

    load(conn, tmp_path, ACCOUNT | {"seller": "shop", "legal_name": "Another name"})

    assert value(conn, "SELECT legal_name FROM pgbill.account") == "Another name"
    assert value(conn, "SELECT buyer ->> 'legal_name' FROM pgbill.invoice") == (
        "Example a-1 GmbH"
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seller": "other"}, "seller: it is northlight since"),
        ({"currency": "USD"}, "currency: it is EUR since"),
        ({"billing_interval": "weekly"}, "billing_interval: it is monthly since"),
        ({"first_period_on": "2026-02-01"}, "first_period_on: it is 2026-01-01 since"),
        ({"anchor_on": "2025-12-31"}, "anchor_on: it is 2026-01-01 since"),
    ],
)
def test_what_periods_depend_on_stays(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    builders.seller(conn, "other")
    load(conn, tmp_path, ACCOUNT)

    assert refused(conn, tmp_path, ACCOUNT | changes)[0].startswith(
        f"accounts.csv:2: {told} the account was first imported, and cannot become"
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": ""}, "key: the value is missing"),
        ({"key": "k" * 201}, "key: a key has at most 200 characters"),
        ({"seller": "x"}, "seller: there is no seller x"),
        ({"legal_name": "a\tb"}, r"legal_name: 'a\tb' holds a control character"),
        ({"country": "Germany"}, "country: 'Germany' is not a country code such as DE"),
        ({"country": "XX"}, "country: XX is not a country of ISO 3166"),
        ({"currency": "EUX"}, "currency: there is no currency EUX"),
        ({"currency": "euro"}, "currency: 'euro' is not a currency such as EUR"),
        ({"language": "DE"}, "language: 'DE' is not a language such as en or pt-BR"),
        (
            {"zone": "Europe/Berln"},
            "zone: there is no time zone Europe/Berln (write it as in Europe/Berlin)",
        ),
        (
            {"zone": "europe/berlin"},
            "zone: there is no time zone europe/berlin (write it as in Europe/Berlin)",
        ),
        (
            {"tax_status": "b2b"},
            "tax_status: 'b2b' is none of business, consumer",
        ),
        ({"vat_id": "123"}, "vat_id: '123' is not a VAT id with its country prefix"),
        (
            {"vat_id": "DE12345678"},
            "vat_id: 'DE12345678' has not the length of a VAT id of DE",
        ),
        (
            {"billing_interval": "daily"},
            (
                "billing_interval: 'daily' is none of weekly, monthly, quarterly,"
                " half_yearly, yearly"
            ),
        ),
        ({"net_days": "-1"}, "net_days: '-1' is not a whole number from 0 to 365"),
        ({"end_of_month": "yes"}, "end_of_month: 'yes' is neither true nor false"),
        (
            {"first_period_on": "1.1.2026"},
            "first_period_on: '1.1.2026' is not a date such as 2026-10-01",
        ),
        (
            {"anchor_on": "2026-01-02"},
            "anchor_on: 2026-01-02 is after first_period_on, 2026-01-01",
        ),
        (
            {"anchor_on": "calender"},
            (
                "anchor_on: 'calender' is not a date such as 2026-10-01 (or write"
                " calendar)"
            ),
        ),
        (
            {"discount_days": "10"},
            (
                "discount_percent: an early-payment discount has both"
                " discount_percent and discount_days"
            ),
        ),
        (
            {"discount_days": "10", "discount_percent": "100"},
            "discount_percent: 100 is not above 0 and below 100",
        ),
        (
            {"electronic_address": "x"},
            (
                "electronic_address: electronic_address and electronic_address_scheme"
                " belong together"
            ),
        ),
        ({"email": ""}, "email: the account has no address to send invoices to"),
        ({"email": " ; "}, "email: the account has no address to send invoices to"),
        (
            {"email": "a@example.com;b"},
            "email: 'b': an address has exactly one @",
        ),
        (
            {"email": "a@example.com\r\nBcc: b@example.com"},
            (
                r"email: 'a@example.com\r\nBcc: b@example.com': an address holds no"
                " spaces and no control characters"
            ),
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    good = ACCOUNT | {"key": "good"}

    assert refused(conn, tmp_path, good, ACCOUNT | changes) == [
        f"accounts.csv:3: {told}"
    ]


@pytest.mark.parametrize(
    ("recipients", "told"),
    [
        ({}, "email: the account has no address to send invoices to"),
        ({"invoice": []}, "email: the account has no address to send invoices to"),
        (
            {"reminder": ["a@example.com"]},
            "email: the account has no address to send invoices to",
        ),
        ({"invoice": "a@example.com"}, "recipients: role invoice has no array"),
        ({"invoice": [1]}, "recipients: '1': an address has exactly one @"),
        ({"invoice": [None]}, "recipients: role invoice has no array"),
        ({"In voice": []}, "recipients: 'In voice' is not a role such as invoice"),
        (["a@example.com"], "recipients: it is not an object such as"),
        ("a@example.com", "recipients: it is not an object such as"),
    ],
)
def test_wrong_recipients_are_named(
    conn: Connection[Any], tmp_path: Path, recipients: object, told: str
) -> None:
    account = {name: ACCOUNT[name] for name in ACCOUNT if name != "email"}
    file = write_jsonl(tmp_path / "a.jsonl", [account | {"recipients": recipients}])

    (line,) = refusals(importing.accounts, conn, file)

    assert line.startswith(f"a.jsonl:1: {told}")


def test_email_or_recipients_but_not_both(
    conn: Connection[Any], tmp_path: Path
) -> None:
    account = ACCOUNT | {"recipients": {"invoice": ["a@example.com"]}}
    file = write_jsonl(tmp_path / "a.jsonl", [account])

    assert refusals(importing.accounts, conn, file) == [
        "a.jsonl:1: email: give either email or recipients"
    ]


def test_a_folder_needs_no_address(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, ACCOUNT | {"email": "", "delivery_channel": "folder"})

    (account,) = rows(conn, "account")
    assert account["recipients"] == {"invoice": ["a-1"]}


def test_a_key_twice_in_a_file_is_the_same_or_refused(
    conn: Connection[Any], tmp_path: Path
) -> None:
    report = load(conn, tmp_path, ACCOUNT, ACCOUNT)

    assert report == Report(read=2, new=1, changed=0, unchanged=1)
    assert refused(conn, tmp_path, ACCOUNT, ACCOUNT | {"city": "Verden"}) == [
        "accounts.csv:3: key: a-1 stands in line 2 already, with another city"
    ]


def test_all_that_is_wrong_is_told_and_the_first_twenty_are_named(
    conn: Connection[Any], tmp_path: Path
) -> None:
    bad = [
        ACCOUNT
        | {"key": f"a-{number:02}", "country": "x" if number % 2 else "DE"}
        | {"seller": "northlight" if number % 2 else "x"}
        for number in range(30)
    ]

    told = refused(conn, tmp_path, *bad)

    assert [int(line.split(":")[1]) for line in told] == list(range(2, 22))
    assert "seller" in told[0]
    assert "country" in told[1]


def test_an_account_that_is_being_invoiced_does_not_change_its_taxes(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """Its lines are rated: they would be issued with the new country's name on them."""
    account = builders.account(
        conn, Shop.open(conn, key="shop").seller_id, key="a-1", city="Bremen"
    )
    Actor(conn).claim_one(account)
    conn.execute("SAVEPOINT held")

    with pytest.raises(LeaseHeldError) as raised:
        load(conn, tmp_path, ACCOUNT | {"seller": "shop", "country": "FR"})

    assert raised.value.exit_code == 75
    run_sql(conn, "ROLLBACK TO held")
    moved = ACCOUNT | {"seller": "shop", "city": "Verden", "tax_status": "business"}
    assert load(conn, tmp_path, moved).changed == 1
