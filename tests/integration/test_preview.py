"""A preview shows what a run would issue, and changes nothing.

The oracle is the run: what was previewed is issued a moment later, and compared.
"""

import contextlib
import json
from collections.abc import Generator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.types.range import DateRange
from typer.testing import CliRunner, Result

from pgbill import invoice, issuing, preview, roles
from pgbill.cli import app
from pgbill.errors import UsageError
from pgbill.preview import Preview
from tests import actors, builders
from tests.builders import Account
from tests.shop import FEBRUARY, Shop, run_sql, value

pytestmark = pytest.mark.one_server

TODAY = datetime.now(UTC).date()
AS_ISSUED = {
    *("kind", "description", "quantity", "unit_amount", "net_amount"),
    *("discount_amount", "discounts", "tax_category", "tax_rate", "service_from"),
    *("service_until", "part", "whole"),
}


def look(dsn: str, account: Account, **settings: Any) -> Preview:  # noqa: ANN401
    """Preview with the rights of a worker."""
    options: dict[str, Any] = {"max_due_periods": 100, "tax_by_table": True, **settings}
    with contextlib.closing(actors.connect(dsn, roles.WORKER)) as conn:
        return preview.look(conn, account.key, **options)


def run(dsn: str, *arguments: str, **settings: str) -> Result:
    given = {"PGBILL_DSN": dsn, "PGBILL_MAX_DUE_PERIODS": "100", **settings}
    return CliRunner().invoke(app, ["preview", *arguments], env=given)


@pytest.fixture
def owner(dsn: str) -> Generator[Connection[Any]]:
    """Return a connection that commits each statement."""
    with contextlib.closing(actors.connect(dsn, roles.OWNER)) as conn:
        yield conn


def discount(conn: Connection[Any], account: Account, **columns: object) -> None:
    builders.insert(
        conn,
        "discount",
        "discount_id",
        bucket=account.bucket,
        account_id=account.account_id,
        key="partner",
        description="Partner discount",
        active_period=DateRange(date(2026, 1, 1), None),
        **columns,
    )


def prepay(conn: Connection[Any], account: Account, amount: str) -> None:
    builders.insert(
        conn,
        "prepaid_credit",
        "prepaid_credit_id",
        bucket=account.bucket,
        account_id=account.account_id,
        key=f"prepaid-{amount}",
        description="Prepaid",
        amount=Decimal(amount),
        available_on=date(2026, 1, 1),
    )


def issued(conn: Connection[Any], account: Account) -> invoice.Document:
    """Return the newest invoice of an account."""
    number = value(
        conn,
        "SELECT number_text FROM pgbill.invoice_overview"
        " WHERE account_key = %s ORDER BY period_end DESC LIMIT 1",
        account.key,
    )
    return invoice.get(conn, number)


def shown(line: invoice.Line) -> dict[str, object]:
    return {name: getattr(line, name) for name in AS_ISSUED}


def test_what_is_shown_is_what_is_issued(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    account = shop.account(owner)
    hosting = builders.price(owner, shop.seller_id, amount="100", timing="arrears")
    builders.subscription(owner, account, (hosting, "3"), starts_on=date(2026, 1, 22))
    discount(owner, account, percent=Decimal(15))
    shop.use(owner, account, "120", "3.5")
    actors.bill_all(owner, account, through_on=date(2026, 1, 1))

    before = look(dsn, account)
    actors.bill_all(owner, account, through_on=date(2026, 1, 31))
    document = issued(owner, account)

    assert len(before.lines) == 3
    assert [shown(each) for each in before.lines] == [
        shown(each) for each in document.lines
    ]
    assert before.taxes == document.taxes
    assert before.totals.outcome == "invoiced"
    assert (before.totals.net_amount, before.totals.gross_amount) == (
        document.header.net_amount,
        document.header.gross_amount,
    )
    assert (before.totals.period_start, before.totals.period_end) == (
        date(2026, 1, 1),
        FEBRUARY,
    )
    assert before.remarks == []


def test_amounts_with_tax_are_shown_as_they_are_issued(
    dsn: str, owner: Connection[Any]
) -> None:
    shop = Shop.open(owner)
    account = builders.account(owner, shop.seller_id)
    gross = builders.price(owner, shop.seller_id, amount="119", tax_included=True)
    builders.subscription(owner, account, gross)

    (before,) = look(dsn, account).lines
    actors.bill_all(owner, account)
    (line,) = issued(owner, account).lines

    assert shown(before) == shown(line)
    assert (before.tax_included_amount, before.net_amount) == (119, 100)


def test_a_preview_waits_for_nobody_and_writes_nothing(
    dsn: str, owner: Connection[Any]
) -> None:
    """Somebody is in the middle of claiming the account."""
    account = Shop.open(owner).account(owner)
    with contextlib.closing(actors.connect(dsn, roles.OWNER)) as claiming:
        claiming.autocommit = False
        run_sql(claiming, "SELECT FROM pgbill.lease FOR UPDATE")

        before = look(dsn, account)

    assert before.totals.gross_amount == Decimal("11.90")
    for count in (
        "SELECT count(*) FROM pgbill.billing_period",
        "SELECT count(*) FROM pgbill.lease_event",
    ):
        assert value(owner, count) == 0


def test_a_preview_could_not_write(dsn: str, owner: Connection[Any]) -> None:
    account = Shop.open(owner).account(owner)
    with contextlib.closing(actors.connect(dsn, roles.OWNER)) as conn:
        run_sql(
            conn,
            "CREATE OR REPLACE FUNCTION pgbill.bucket_of(p_key text) RETURNS integer"
            " LANGUAGE sql VOLATILE AS 'DELETE FROM pgbill.discount; SELECT 1'",
        )

        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            preview.look(conn, account.key, max_due_periods=3, tax_by_table=True)


def test_an_open_period_says_until_when(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    first = TODAY - timedelta(days=1)
    account = shop.account(owner, first_period_on=first, zone="UTC")
    actors.bill_all(owner, account, through_on=first)

    before = look(dsn, account)

    ends_on = before.totals.period_end
    assert ends_on > TODAY
    assert before.account.is_open
    assert before.remarks[0] == (
        f"The period is open until {ends_on} 00:00 in UTC: usage and changes until"
        " then are still to come."
    )


def test_a_problem_is_told_and_exits_1(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    account = shop.account(owner, country="AT")

    result = run(dsn, account.key)

    assert result.exit_code == 1
    assert (
        "A run would not bill this account: no tax rate for seller country DE, buyer"
        " country AT, business, class standard on "
    ) in result.stdout
    assert "gross" not in result.stdout


def test_a_parked_account_is_rated_all_the_same(
    dsn: str, owner: Connection[Any]
) -> None:
    account = Shop.open(owner).account(owner)
    actors.bill_all(owner, account)

    before = look(dsn, account, max_due_periods=3)

    assert before.totals.outcome == "parked"
    (remark,) = before.remarks
    assert remark == (
        "A run would park this account: more than 3 billing periods are due since"
        " 2026-01-01."
    )
    assert before.totals.gross_amount == Decimal("11.90")


def test_nothing_to_bill_is_said(dsn: str, owner: Connection[Any]) -> None:
    account = builders.account(owner, Shop.open(owner).seller_id)

    result = run(dsn, account.key)

    assert result.exit_code == 0
    assert "There is nothing to bill: no invoice would be issued." in result.stdout


def test_prepaid_credit_is_available_until_it_is_used(
    dsn: str, owner: Connection[Any]
) -> None:
    account = Shop.open(owner).account(owner)
    prepay(owner, account, "10")
    prepay(owner, account, "5")

    before = look(dsn, account).totals.prepaid_left_amount
    actors.bill_all(owner, account)
    after = look(dsn, account).totals.prepaid_left_amount

    assert (before, after) == (Decimal(15), Decimal("3.10"))


def test_an_unasked_tax_service_gives_no_tax(dsn: str, owner: Connection[Any]) -> None:
    account = Shop.open(owner).account(owner)

    result = run(dsn, account.key, PGBILL_TAX_URL="http://localhost:1/tax")

    assert result.exit_code == 0
    assert "The tax service has not been asked about these lines yet" in result.stdout
    assert "10.00" in result.stdout
    assert "gross" not in result.stdout


def test_a_kept_answer_of_the_tax_service_counts(
    dsn: str, owner: Connection[Any]
) -> None:
    account = Shop.open(owner).account(owner)
    worker = actors.Actor(owner)
    held = worker.claim_one(account)
    (asked,) = issuing.rate_and_question(
        owner, [held], scope=worker.scope, policy=worker.policy
    )
    answer = '{"lines": [{"line_no": 1, "category": "S", "rate": "7"}]}'
    answered = issuing.Answered(held, asked, answer)
    issuing.keep_answers(owner, [answered], provider="test")

    totals = look(dsn, account, tax_by_table=False).totals

    assert totals.is_taxed
    assert totals.gross_amount == Decimal("10.70")


def test_programs_get_json(dsn: str, owner: Connection[Any]) -> None:
    shop = Shop.open(owner)
    account = shop.account(owner)
    discount(owner, account, amount=Decimal("2.5"))

    told = json.loads(run(dsn, account.key, "--json").stdout)

    assert told["account"]["key"] == account.key
    assert told["totals"]["gross_amount"] == "8.93"
    assert told["lines"][0]["discounts"] == [
        {"key": "partner", "text": "Partner discount", "amount": "2.50"}
    ]


def test_a_person_sees_discounts_below_the_lines(
    dsn: str, owner: Connection[Any]
) -> None:
    account = Shop.open(owner).account(owner)
    discount(owner, account, amount=Decimal("2.5"))

    result = run(dsn, account.key)

    assert result.exit_code == 0
    assert "line 1: Partner discount: -2.50" in result.stdout
    assert "S 19 %" in result.stdout


def test_an_unknown_account_is_one_sentence(dsn: str) -> None:
    result = run(dsn, "nobody")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "pgbill: there is no account nobody.\n"


def test_an_unknown_account_is_a_usage_error(conn: Connection[Any]) -> None:
    conn.rollback()

    with pytest.raises(UsageError, match="there is no account nobody"):
        preview.look(conn, "nobody", max_due_periods=3, tax_by_table=True)
