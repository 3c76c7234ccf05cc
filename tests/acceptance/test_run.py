"""`pgbill run` invoices all that is due, once, and tells what it has done."""

import contextlib
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.acceptance.commands import (
    Pgbill,
    assert_clean,
    do,
    held_up,
    invoiced_count,
    invoices_by_account,
    many_accounts,
    wait_until,
)
from tests.shop import Shop, lease_row, value, values

JANUARY = "2026-01-31"

CATALOG = """
[sellers.northlight]
legal_name = "Northlight Hosting GmbH"
street = "Lindenallee 12"
postal_code = "20095"
city = "Hamburg"
country = "DE"
vat_id = "DE123456789"
home_currency = "EUR"
zone = "Europe/Berlin"
mail_from = "invoices@northlight.example.com"

[sellers.northlight.number_series]
invoice = "NL-"
credit_note = "NLC-"

[meters.calls]
name = "Calls"
unit_code = "C62"

[prices.fee-eur]
seller = "northlight"
currency = "EUR"
model = "flat"
timing = "advance"
unit_code = "MON"
tax_class = "standard"
line_texts = { en = "Hosting" }
versions = [{ begins_on = 2020-01-01, amount = "10.00" }]

[prices.fee-jpy]
seller = "northlight"
currency = "JPY"
model = "flat"
timing = "arrears"
unit_code = "MON"
tax_class = "standard"
line_texts = { en = "Hosting" }
versions = [{ begins_on = 2020-01-01, amount = "1500" }]

[prices.calls-eur]
seller = "northlight"
currency = "EUR"
model = "per_unit"
timing = "arrears"
meter = "calls"
unit_code = "C62"
tax_class = "standard"
line_texts = { en = "Calls" }
versions = [{ begins_on = 2020-01-01, amount = "0.015" }]

[[tax_rates]]
seller_country = "DE"
buyer_country = "DE"
buyer_status = "business"
tax_class = "standard"
category = "S"
rate = "19"
begins_on = 2020-01-01

[[tax_rates]]
seller_country = "DE"
buyer_country = "JP"
buyer_status = "business"
tax_class = "standard"
category = "O"
rate = "0"
legal_text = "Not subject to German VAT"
begins_on = 2020-01-01
"""

ACCOUNTS = """\
key,seller,legal_name,street,postal_code,city,country,tax_status,currency,zone,language,\
email,first_period_on
A-1,northlight,Example Eins GmbH,Weg 1,28195,Bremen,DE,business,EUR,Europe/Berlin,\
en,ap@eins.example.com,2026-01-01
A-2,northlight,Example Ni K.K.,Marunouchi 2,100-0005,Tokyo,JP,business,JPY,\
Asia/Tokyo,en,ap@ni.example.com,2026-01-01
A-3,northlight,Example Idle GmbH,Weg 3,28195,Bremen,DE,business,EUR,Europe/Berlin,\
en,ap@idle.example.com,2026-01-01
"""

SUBSCRIPTIONS = """\
subscription,account,price,quantity,starts_on
S-1,A-1,fee-eur,2,2026-01-01
S-1,A-1,calls-eur,,2026-01-01
S-2,A-2,fee-jpy,1,2026-01-01
"""

USAGE = """\
key,account,meter,quantity,occurred_at
u-1,A-1,calls,1000,2026-01-10T12:00:00+01:00
u-2,A-1,calls,33,2026-01-31T23:59:59+01:00
u-3,A-1,calls,7,2026-02-01T00:00:00+01:00
"""

# A-1 pays 2 x 10.00 on 1 January for January; on 1 February 20.00 for February and
# 1,033 x 0.015 = 15.495, rounded to 15.50, for its calls in January. A-2 pays 1500 for
# January on 1 February, and nothing in advance.
TOTALS = [
    {
        "currency": "EUR",
        "invoices": 2,
        "net": "55.50",
        "tax": "10.55",
        "gross": "66.05",
    },
    {"currency": "JPY", "invoices": 1, "net": "1500", "tax": "0", "gross": "1500"},
]


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path) -> Pgbill:
    """Return a pgbill with few workers and small batches."""
    return Pgbill(dsn, tmp_path).with_settings(workers=2, batch_size=10)


def test_a_company_from_files_is_invoiced(
    pgbill: Pgbill, admin: Connection[Any], tmp_path: Path
) -> None:
    files = {
        "catalog.toml": CATALOG,
        "accounts.csv": ACCOUNTS,
        "subscriptions.csv": SUBSCRIPTIONS,
        "usage.csv": USAGE,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    do(pgbill, "catalog", "apply", "catalog.toml")
    for what in ("accounts", "subscriptions", "usage"):
        do(pgbill, "import", what, f"{what}.csv")

    told = do(pgbill, "run", "--through", JANUARY, "--json").json

    assert told.pop("seconds") > 0
    assert told == {
        "run_id": 1,
        "is_finished": True,
        "invoiced": 3,
        "nothing_to_bill": 3,
        "carried_forward": 0,
        "failed": 0,
        "parked": 0,
        "held": 0,
        "leases_lost": 0,
        "still_due": 0,
        "parked_before": 0,
        "in_review": 0,
        "holds_mail": False,
        "totals": TOTALS,
        "failures": [],
    }
    assert values(
        admin,
        "SELECT concat_ws(' ', key, period_end, gross_amount) FROM pgbill.invoice"
        " JOIN pgbill.account USING (bucket, account_id) ORDER BY 1",
    ) == [
        "A-1 2026-01-01 23.80",
        "A-1 2026-02-01 42.25",
        "A-2 2026-02-01 1500",
    ]
    assert values(admin, "SELECT number FROM pgbill.invoice_number ORDER BY 1") == [
        *(1, 2, 3)
    ]
    assert_clean(pgbill)


def test_a_second_run_does_nothing(pgbill: Pgbill, admin: Connection[Any]) -> None:
    many_accounts(admin, 3)
    do(pgbill, "run", "--through", JANUARY)

    again = do(pgbill, "run", "--through", JANUARY)

    assert (again.stdout, again.stderr) == ("", "pgbill: nothing is due.\n")
    assert value(admin, "SELECT count(*) FROM pgbill.billing_run") == 1
    assert do(pgbill, "run", "--through", JANUARY, "--json").json["run_id"] is None


def test_a_person_is_told_in_a_table(pgbill: Pgbill, admin: Connection[Any]) -> None:
    many_accounts(admin, 3)

    told = do(pgbill, "run", "--through", JANUARY)

    lines = [line.split() for line in told.stdout.splitlines()]
    assert ["invoices", "issued", "6"] in lines
    assert ["EUR", "6", "60.00", "11.40", "71.40"] in lines
    assert "pgbill: done in" in told.stderr


def test_two_runs_at_once_are_one(pgbill: Pgbill, admin: Connection[Any]) -> None:
    accounts = many_accounts(admin, 150)
    assert pgbill.dsn is not None
    asked = ("run", "--through", "2025-12-31", "--json")

    with pgbill.start(*asked) as first, contextlib.ExitStack() as stack:
        with held_up(first, admin, pgbill.dsn, workers=2):
            second = stack.enter_context(pgbill.start(*asked))
            wait_for_workers(admin, 4)
        done = [first.wait(), second.wait()]

    assert [each.exit_code for each in done] == [0, 0], done
    assert {each.json["run_id"] for each in done} == {1}
    assert value(admin, "SELECT count(*) FROM pgbill.billing_run") == 1
    assert invoices_by_account(admin) == [1] * len(accounts)
    assert_clean(pgbill)


def wait_for_workers(conn: Connection[Any], count: int) -> None:
    """Return when so many workers hold leases."""
    wait_until(
        lambda: (
            value(
                conn,
                "SELECT count(DISTINCT holder) FROM pgbill.lease"
                " WHERE worker_id IS NOT NULL",
            )
            == count
        ),
        f"there are no {count} workers",
    )


def test_one_account_alone(pgbill: Pgbill, admin: Connection[Any]) -> None:
    accounts = many_accounts(admin, 3)

    told = do(pgbill, "run", "--through", JANUARY, "--account", accounts[1].key)

    assert told.stdout
    assert values(admin, "SELECT DISTINCT account_id FROM pgbill.invoice") == [
        accounts[1].account_id
    ]


def test_through_is_inclusive(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """A period is billed if its last day is the one that is named."""
    many_accounts(admin, 1)

    counts = [
        do(pgbill, "run", "--through", through, "--json").json["invoiced"]
        for through in ("2026-01-30", "2026-01-31", "2026-02-01")
    ]

    assert counts == [1, 1, 0]


def test_the_issue_date_never_goes_back(pgbill: Pgbill, admin: Connection[Any]) -> None:
    many_accounts(admin, 1)
    first = ("run", "--through", "2025-12-31", "--issue-on")
    later = ("run", "--through", JANUARY, "--issue-on")
    do(pgbill, *first, "2026-03-10")

    refused = pgbill(*later, "2026-03-09")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert re.match(
        r"pgbill: --issue-on 2026-03-09 is before the last invoice of seller \S+, which"
        r" was issued on 2026-03-10\.",
        refused.stderr,
    )
    do(pgbill, *later, "2026-03-10")
    assert values(admin, "SELECT DISTINCT issued_on FROM pgbill.invoice") == [
        date(2026, 3, 10)
    ]


def test_a_missing_tax_rate_fails_its_account_alone(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    shop = Shop.open(admin)
    good = shop.account(admin)
    bad = shop.account(admin, key="F-1", country="FR")

    failed = pgbill("run", "--through", "2025-12-31")

    assert failed.exit_code == 1
    assert "pgbill: account F-1 failed: " in failed.stderr
    assert "FR" in failed.stderr
    assert values(admin, "SELECT account_id FROM pgbill.invoice") == [good.account_id]
    assert lease_row(admin, bad)["attempts"] == 1

    builders.tax_rate(admin, rate="20", buyer_country="FR")
    told = do(pgbill, "run", "--through", "2025-12-31", "--json").json

    assert [told["invoiced"], told["failed"]] == [1, 0]
    assert_clean(pgbill)


def test_too_many_due_periods_park_an_account(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """The empty first period and three months are four; three are allowed."""
    many_accounts(admin, 1)
    through = ("run", "--through", "2026-03-31")

    parked = pgbill(*through, "--json")

    assert (parked.exit_code, parked.json["parked"]) == (1, 1)
    assert invoiced_count(admin) == 0
    again = do(pgbill, *through)
    assert "nothing is due. 1 " in again.stderr

    do(pgbill, "runs", "retry", "--reason", "the customer knows")
    told = do(pgbill, *through, "--json").json

    assert told["invoiced"] == 4
    assert_clean(pgbill)


def test_an_account_that_pays_nothing_has_its_periods_closed(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    builders.account(admin, builders.seller(admin))

    told = do(pgbill, "run", "--through", JANUARY, "--json").json

    assert [told["invoiced"], told["nothing_to_bill"]] == [0, 2]
    assert invoiced_count(admin) == 0
    assert_clean(pgbill)


def test_a_test_run_has_a_series_of_its_own(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    many_accounts(admin, 2)
    do(pgbill, "run", "--through", "2025-12-31")

    do(pgbill.with_settings(mode="test"), "run", "--through", JANUARY)

    assert values(
        admin,
        "SELECT n.mode || ' ' || n.prefix || x.number FROM pgbill.invoice_number AS x"
        " JOIN pgbill.number_series AS n USING (series_id) ORDER BY 1",
    ) == ["live NL-1", "live NL-2", "test TEST-NL-1", "test TEST-NL-2"]
    assert values(admin, "SELECT mode FROM pgbill.invoice ORDER BY 1") == [
        *("live", "live", "test", "test")
    ]
    assert_clean(pgbill)


def test_an_issue_date_far_ahead_is_refused(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """A typing error in the year would move the date of the series for good."""
    many_accounts(admin, 1)

    done = pgbill("run", "--through", JANUARY, "--issue-on", "2062-01-31")

    assert (done.exit_code, invoiced_count(admin)) == (2, 0)
    assert "more than 60 days from now" in done.stderr
