"""Each document is handed over to the ledger once, balanced, and again to the byte."""

import csv
import io
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection

from pgbill import journal, roles
from pgbill.config import Settings
from pgbill.errors import UsageError
from pgbill.journal import Exported, Format
from tests import builders, by_hand, guards
from tests.actors import (
    Threads,
    bill_all,
    connect,
    on_duty,
    wait_for,
    wait_until_blocked,
)
from tests.integration.test_closed_month import dated
from tests.payers import credit
from tests.shop import Shop, findings, run_sql, value

pytestmark = pytest.mark.one_server

JANUARY, FEBRUARY = date(2026, 1, 31), date(2026, 2, 28)
SETTINGS = Settings()


def export(
    conn: Connection[Any],
    through: date = JANUARY,
    format_: Format = "csv",
    settings: Settings = SETTINGS,
    **options: Any,  # noqa: ANN401
) -> Exported | None:
    """Export; what it takes for its transaction is to be a part of ours."""
    conn.execute("SELECT")
    return journal.export(
        conn, settings, through=through, format_=format_, by="ada", **options
    )


def content(conn: Connection[Any], export_id: int, format_: Format = "csv") -> bytes:
    return b"".join(journal.pieces(conn, export_id, format_))


def told(conn: Connection[Any], export_id: int) -> list[str]:
    """Return each entry as an accountant reads it."""
    lines = csv.DictReader(io.StringIO(content(conn, export_id).decode()))
    return [
        " ".join(
            filter(
                None,
                (
                    it["number"],
                    it["ledger_account"],
                    it["debit"] or f"-{it['credit']}",
                    it["tax_code"],
                    it["cost_centre"],
                    it["service_from"] and f"{it['service_from']}..",
                    it["service_through"],
                ),
            )
        )
        for it in lines
    ]


@pytest.fixture
def shop(conn: Connection[Any]) -> Shop:
    return Shop.open(conn, key="north")


def test_a_document_balances(conn: Connection[Any], shop: Shop) -> None:
    account = builders.account(conn, shop.seller_id, key="a-1")
    builders.tax_rate(conn, rate="7", tax_class="reduced")
    prices = [
        builders.price(conn, shop.seller_id, amount="49.90", revenue_account="4400"),
        builders.price(conn, shop.seller_id, amount="20", revenue_account="4300"),
        builders.price(
            conn,
            shop.seller_id,
            amount="10.05",
            tax_class="reduced",
            revenue_account="4300",
        ),
        builders.price(conn, shop.seller_id, amount="1.11"),
    ]
    builders.subscription(conn, account, *prices, cost_centre="K7")
    builders.prepaid_credit(conn, account, "50")
    bill_all(conn, account, policy=dated(JANUARY))

    assert export(conn) == Exported(1, 1)

    january = "K7 2026-01-01.. 2026-01-31"
    assert told(conn, 1) == [
        # 71.01 net at 19 % are 13.49 tax, 10.05 at 7 % are 0.70: 95.25 gross.
        "NL-000001 receivable 45.25",
        "NL-000001 prepaid 50",
        f"NL-000001 4300 -10.05 S7 {january}",
        f"NL-000001 4300 -20.00 S19 {january}",
        f"NL-000001 4400 -49.90 S19 {january}",
        f"NL-000001 revenue -1.11 S19 {january}",
        "NL-000001 tax -0.70 S7",
        "NL-000001 tax -13.49 S19",
    ]
    shares = "SELECT array_agg(tax_amount ORDER BY entry_no) FROM pgbill.journal_entry"
    assert value(conn, f"{shares} WHERE tax_rate = 19 AND kind = 'revenue'") == [
        Decimal("-3.80"),
        Decimal("-9.48"),
        Decimal("-0.21"),
    ]
    assert findings(conn) == {}


def test_a_credit_note_is_the_other_way_round(
    conn: Connection[Any], shop: Shop
) -> None:
    bill_all(conn, shop.account(conn), policy=dated(JANUARY))
    export(conn)
    credit(conn, "NL-000001", "2.38")

    assert export(conn, date(2199, 1, 1)) == Exported(2, 1)

    assert told(conn, 2) == [
        "NLC-000001 receivable -2.38",
        "NLC-000001 revenue 2.00 S19 2026-01-01.. 2026-01-31",
        "NLC-000001 tax 0.38 S19",
    ]
    assert findings(conn) == {}


def test_each_document_is_in_one_export(conn: Connection[Any], shop: Shop) -> None:
    first, second = shop.account(conn), shop.account(conn)
    bill_all(conn, first, policy=dated(JANUARY))

    assert export(conn) == Exported(1, 1)
    assert export(conn) is None
    bill_all(conn, second, policy=dated(JANUARY))
    bill_all(conn, first, through_on=JANUARY, policy=dated(FEBRUARY))
    assert export(conn) == Exported(2, 1)
    assert export(conn, FEBRUARY) == Exported(3, 1)

    assert [each.export_id for each in journal.find(conn, limit=9)] == [3, 2, 1]
    assert findings(conn) == {}


def test_an_export_is_printed_again_to_the_byte(
    conn: Connection[Any], shop: Shop
) -> None:
    """Even if the program or its settings have changed meanwhile."""
    bill_all(conn, shop.account(conn), policy=dated(JANUARY))
    export(conn)
    before = content(conn, 1)
    changed = Settings(ledger_tax_account="1776")

    journal.again(conn, changed, 1, None)
    again = content(conn, 1)
    journal.again(conn, changed, 1, "saft")
    saft = content(conn, 1, "saft")
    journal.again(conn, SETTINGS, 1, "saft")

    assert again == before
    assert content(conn, 1, "saft") == saft
    assert journal.again(conn, changed, 1, None) == "csv"
    (listed,) = journal.find(conn, limit=9)
    assert listed.formats == "csv, saft"


def test_a_large_file_is_kept_in_parts(
    conn: Connection[Any], shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = [shop.account(conn) for _ in range(5)]
    bill_all(conn, *accounts, policy=dated(JANUARY))
    monkeypatch.setattr(journal, "_PART_BYTES", 300)

    export(conn)

    assert value(conn, "SELECT count(*) > 3 FROM pgbill.journal_file")
    assert len(told(conn, 1)) == 15


@pytest.mark.usefixtures("shop")
def test_nothing_is_no_export(conn: Connection[Any]) -> None:
    assert export(conn) is None
    assert value(conn, "SELECT count(*) FROM pgbill.journal_export") == 0


def test_what_is_prepaid_whole_is_no_receivable(
    conn: Connection[Any], shop: Shop
) -> None:
    account = shop.account(conn, key="a-1")
    builders.prepaid_credit(conn, account, "50")
    bill_all(conn, account, policy=dated(JANUARY))
    export(conn)

    assert [line.split()[1] for line in told(conn, 1)] == ["prepaid", "revenue", "tax"]


def test_an_invoice_of_zero_is_handed_over_once(
    conn: Connection[Any], shop: Shop
) -> None:
    account = builders.account(conn, shop.seller_id)
    free = builders.price(conn, shop.seller_id, amount="0")
    builders.subscription(conn, account, free)
    bill_all(conn, account, policy=dated(JANUARY))

    assert export(conn) == Exported(1, 1)
    assert export(conn) is None


def test_test_invoices_are_not_handed_over(conn: Connection[Any], shop: Shop) -> None:
    policy = dated(JANUARY)
    object.__setattr__(policy, "mode", "test")
    bill_all(conn, shop.account(conn), policy=policy)

    assert export(conn) is None


def test_an_export_is_of_one_seller(conn: Connection[Any], shop: Shop) -> None:
    south = Shop.open(conn, key="south")
    bill_all(conn, shop.account(conn), south.account(conn), policy=dated(JANUARY))

    with pytest.raises(UsageError, match="an export is of one seller"):
        export(conn)
    with pytest.raises(UsageError, match="there is no seller west"):
        export(conn, seller="west")
    assert export(conn, seller="south") == Exported(1, 1)
    assert export(conn, seller="north") == Exported(2, 1)


def test_there_is_no_such_export(conn: Connection[Any]) -> None:
    with pytest.raises(UsageError, match="there is no export 7"):
        journal.again(conn, SETTINGS, 7, None)


def test_a_second_export_cannot_have_a_document(
    conn: Connection[Any], shop: Shop
) -> None:
    bill_all(conn, shop.account(conn), policy=dated(JANUARY))
    export(conn)

    assert not can_export_again(conn)
    guards.without_key("journal_entry", "PRIMARY KEY")(conn)
    assert can_export_again(conn)
    assert findings(conn) == {"journal_differs": 1}


def can_export_again(conn: Connection[Any]) -> bool:
    run_sql(
        conn,
        "INSERT INTO pgbill.journal_export (export_id, seller_id, through_on,"
        " exported_by) SELECT max(export_id) + 1, max(seller_id), '2026-01-31', 'x'"
        " FROM pgbill.journal_export",
    )
    return by_hand.succeeds(
        conn,
        lambda: run_sql(
            conn,
            "INSERT INTO pgbill.journal_entry SELECT (jsonb_populate_record(it,"
            " '{\"export_id\": 2}')).* FROM pgbill.journal_entry AS it",
        ),
    )


def test_two_exports_at_once_share_nothing(dsn: str) -> None:
    """And a document that is committed meanwhile is in neither, but in the next."""
    with (
        Threads() as threads,
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.OWNER) as clerk,
        on_duty(dsn, policy=dated(JANUARY)) as worker,
    ):
        shop = Shop.open(owner)
        worker.bill(worker.claim_one(shop.account(owner)))
        late = worker.claim_one(shop.account(owner))
        with owner.transaction():
            first = export(owner)
            second = threads.start(
                lambda: journal.export(
                    clerk, SETTINGS, through=JANUARY, format_="csv", by="bo"
                )
            )
            wait_until_blocked(owner, clerk)
            worker.bill(late)

        assert first == Exported(1, 1)
        assert wait_for(second) == Exported(2, 1)
        assert findings(owner) == {}
