"""`pgbill invoice credit|cancel|reissue`, as clerks use them; `docs/corrections.md`."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.acceptance.commands import Pgbill, assert_clean, do
from tests.builders import Account
from tests.shop import Shop, run_sql, values
from tests.world import claim

_WHY = ("--reason", "agreed on the phone")


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path) -> Pgbill:
    return Pgbill(dsn, tmp_path).with_settings(workers=1)


@pytest.fixture
def accounts(pgbill: Pgbill, admin: Connection[Any]) -> list[Account]:
    """Return accounts whose first invoices, of 11.90 each, are issued."""
    with admin.transaction():
        shop = Shop.open(admin, key="northlight")
        accounts = [shop.account(admin) for _ in range(3)]
    do(pgbill, "run", "--through", "2025-12-31")
    return accounts


def _documents(admin: Connection[Any]) -> list[str]:
    return values(
        admin,
        "SELECT concat_ws(' ', number_text, gross_amount, nullif(state, 'issued'))"
        " FROM pgbill.invoice_overview ORDER BY invoice_id",
    )


def test_an_invoice_is_credited_in_parts_and_cancelled(
    pgbill: Pgbill, accounts: list[Account], admin: Connection[Any]
) -> None:
    assert len(accounts) == 3
    told = do(
        pgbill,
        *("invoice", "credit", "NL-000001", "--line", "1", "--amount", "2.50"),
        *(*_WHY, "--json"),
    ).json
    do(pgbill, "invoice", "credit", "NL-000001", "--amount", "1.00", *_WHY)
    shown = do(pgbill, "invoice", "cancel", "NL-000001", *_WHY)

    note = told["credit_note"]
    assert (told["number"], note["number"]) == ("NL-000001", "NLC-000001")
    assert (note["net_amount"], note["gross_amount"]) == ("-2.50", "-2.98")
    assert "credit note NLC-000003 was issued for NL-000001" in shown.stdout
    assert _documents(admin)[0] == "NL-000001 11.90 cancelled"
    assert sum(
        Decimal(line.split()[1])
        for line in _documents(admin)
        if line.startswith(("NLC", "NL-000001"))
    ) == Decimal(0)
    assert_clean(pgbill)


@pytest.mark.parametrize(
    ("asked", "net", "gross"),
    [
        (("--line", "1", "--amount", "1"), "-1.00", "-1.19"),
        (("--amount", "2"), "", "-2.00"),
    ],
)
@pytest.mark.usefixtures("accounts")
def test_amounts_have_the_digits_of_the_currency(
    pgbill: Pgbill,
    asked: tuple[str, ...],
    net: str,
    gross: str,
) -> None:

    note = do(pgbill, "invoice", "credit", "NL-000001", *asked, *_WHY, "--json").json[
        "credit_note"
    ]

    assert note["gross_amount"] == gross
    assert note["net_amount"] == (net or "-1.68")


@pytest.mark.usefixtures("accounts")
def test_what_corrects_an_invoice_is_shown_with_it(pgbill: Pgbill) -> None:
    do(pgbill, "invoice", "credit", "NL-000001", "--amount", "1.00", *_WHY)
    do(pgbill, "invoice", "reissue", "NL-000001", *_WHY)

    old = do(pgbill, "invoice", "show", "NL-000001").stdout
    note = do(pgbill, "invoice", "show", "NLC-000002", "--json").json
    new = do(pgbill, "invoice", "show", "NL-000004").stdout

    assert "cancelled: agreed on the phone" in old
    assert "credited by NLC-000001 of -1.00 EUR" in old
    assert "issued again as NL-000004 of 11.90 EUR" in old
    assert [(it["relation"], it["number"]) for it in note["related"]] == [
        ("corrects", "NL-000001")
    ]
    assert note["header"]["reason"] == "agreed on the phone"
    assert "in place of NL-000001 of 11.90 EUR" in new
    assert "agreed on the phone" in new


def test_many_are_issued_again_from_a_file(
    pgbill: Pgbill, accounts: list[Account], admin: Connection[Any]
) -> None:
    """First as a dry run, then really; given again, nothing is left to do."""
    with admin.transaction():
        fee = builders.price(admin, accounts[0].seller_id, amount="5")
        for account in accounts:
            builders.subscription(admin, account, fee)
    file = pgbill.folder / "wrong.csv"
    file.write_text("number,seller\nNL-000001,northlight\nNL-000002,\n")
    command = ("invoice", "reissue", "--from", str(file), *_WHY)

    would = do(pgbill, *command, "--dry-run")
    before = _documents(admin)
    did = do(pgbill, *command, "--json").json
    again = do(pgbill, *command, "--json").json

    assert "old total  left before  new total  difference" in would.stdout
    assert len(before) == 3
    assert [each["correction"]["invoice"]["gross_amount"] for each in did] == [
        "17.85",
        "17.85",
    ]
    assert [each["state"] for each in again] == ["done before", "done before"]
    assert len(_documents(admin)) == 7
    assert_clean(pgbill)


@pytest.mark.usefixtures("accounts")
def test_what_was_credited_before_is_owed_again(pgbill: Pgbill) -> None:
    """One partly, one wholly: the difference counts from what was left."""
    do(pgbill, "invoice", "credit", "NL-000001", "--amount", "2.00", *_WHY)
    do(pgbill, "invoice", "credit", "NL-000002", *_WHY)
    file = pgbill.folder / "wrong.csv"
    file.write_text("number\nNL-000001\nNL-000002\nNL-000003\n")
    command = ("invoice", "reissue", *_WHY)

    would = do(pgbill, *command, "--from", str(file), "--dry-run").stdout
    one = do(pgbill, *command, "NL-000001", "--json").json
    other = do(pgbill, *command, "NL-000002").stdout

    assert [line.split()[-5:-1] for line in would.splitlines()[-3:]] == [
        ["11.90", "9.90", "11.90", "2.00"],
        ["11.90", "0.00", "11.90", "11.90"],
        ["11.90", "11.90", "11.90", "0.00"],
    ]
    assert (one["left_amount"], one["difference_amount"]) == ("9.90", "2.00")
    assert [line.split() for line in other.splitlines()[-4:]] == [
        ["old", "total", "11.90", "EUR"],
        ["left", "before", "0.00", "EUR"],
        ["new", "total", "11.90", "EUR"],
        ["difference", "11.90", "EUR"],
    ]


@pytest.mark.usefixtures("accounts")
def test_many_are_cancelled_from_a_file(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """What cannot be is told, and the others go on."""
    do(pgbill, "invoice", "credit", "NL-000003", *_WHY)
    file = pgbill.folder / "wrong.csv"
    file.write_text("number\nNLC-000001\nNL-000002\nNL-000003\n")

    done = pgbill("invoice", "cancel", "--from", str(file), *_WHY)

    assert done.exit_code == 1
    assert "NLC-000001 refused: NLC-000001 is a credit note" in done.stderr
    assert [line for line in _documents(admin) if "cancelled" in line] == [
        "NL-000002 11.90 cancelled",
        "NL-000003 11.90 cancelled",
    ]


_MISTAKES = {
    ("credit", "NL-000099", *_WHY): "there is no invoice NL-000099.",
    ("credit", "NL-000001", "--reason", " "): "--reason is empty.",
    ("credit", "NL-000001", "--amount", "12", *_WHY): "only 11.90 EUR with tax",
    ("credit", "NL-000001", "--amount", "nan", *_WHY): "nan is not an amount",
    ("credit", "NL-000001", "--amount", "1e400000", *_WHY): "1e400000 is not an amount",
    ("credit", "NL-000001", "--amount", "1e1", *_WHY): "1e1 is not an amount",
    ("credit", "NL-000001", "--amount", "1_0", *_WHY): "1_0 is not an amount",
    ("credit", "NL-000001", "--amount", "\uff11", *_WHY): "is not an amount, such as",
    ("credit", "NL-000001", "--amount", "9" * 99, *_WHY): "is not an amount, such as",
    ("credit", "NL-000001", "--amount", "1.000", *_WHY): "EUR has at most 2 decimals",
    ("credit", "NL-000001", "--line", "9999999999", *_WHY): (
        "NL-000001 has no line 9999999999."
    ),
    ("credit", "NL-000001", *("--line", "1", "--line", "2"), "--amount", "1", *_WHY): (
        "give one --amount for each --line"
    ),
    ("cancel", *_WHY): "give the number of one invoice, or --from FILE.",
    ("cancel", "--from", "none.csv", *_WHY): "none.csv",
    ("cancel", "--from", "bad.csv", *_WHY): "bad.csv:3: number: there is no",
    ("cancel", "--from", ".", *_WHY): "cannot read .: Is a directory.",
    ("cancel", "--from", "wrong", *_WHY): "its format. Call it .csv or .jsonl.",
    ("reissue", "--from", "header.csv", *_WHY): "header.csv names no invoice.",
    ("reissue", "--from", "twice.csv", *_WHY): "stands on line 2 already",
}


@pytest.mark.usefixtures("accounts")
def test_a_mistake_is_told_in_a_sentence_and_changes_nothing(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    (pgbill.folder / "bad.csv").write_text("number\nNL-000001\nNL-000099\n")
    (pgbill.folder / "header.csv").write_text("number,seller\n")
    (pgbill.folder / "twice.csv").write_text("number\nNL-000001\nNL-000001\n")

    ended = {given: pgbill("invoice", *given) for given in _MISTAKES}

    assert {(done.exit_code, done.stdout) for done in ended.values()} == {(2, "")}
    silent = [
        given for given, told in _MISTAKES.items() if told not in ended[given].stderr
    ]
    assert silent == []
    assert len(_documents(admin)) == 3


def test_an_account_that_a_worker_holds_is_busy(
    pgbill: Pgbill, accounts: list[Account], admin: Connection[Any]
) -> None:
    run_sql(admin, "SET ROLE pgbill_owner")
    for account in accounts:
        claim(admin, account, holder="worker:1")

    done = pgbill("invoice", "credit", "NL-000001", *_WHY)

    assert done.exit_code == 75
    assert "worker:1 is working on the account at this moment" in done.stderr
