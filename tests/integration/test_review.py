"""A run holds back what its policy wants a person to see, and issues the rest.

Nothing of it is numbered or mailed before it is approved. What was approved is what is
issued: a draft that has changed is held again. Held accounts do not make a run fail.
"""

import contextlib
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from typer.testing import CliRunner, Result

from pgbill import db, login, roles
from pgbill.cli import app
from pgbill.taxserver import TaxServer
from tests import builders
from tests.shop import (
    Shop,
    books,
    findings,
    lease_row,
    numbers,
    run_sql,
    value,
    values,
)

pytestmark = pytest.mark.one_server

OF_JANUARY = "2025-12-31"
OF_FEBRUARY = "2026-01-31"


@pytest.fixture
def owner(dsn: str) -> Iterator[Connection[Any]]:
    """Return a connection as the owner of the schema; each statement commits."""
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="test")
    ) as conn:
        yield conn


@pytest.fixture
def shop(owner: Connection[Any]) -> Shop:
    return Shop.open(owner)


def call(dsn: str, *arguments: str, **settings: str) -> Result:
    named = {f"PGBILL_{name.upper()}": it for name, it in settings.items()}
    environment = {"PGBILL_DSN": dsn, "PGBILL_WORKERS": "1", **named}
    return CliRunner().invoke(app, arguments, env=environment)


def run(dsn: str, through: str, **settings: str) -> dict[str, Any]:
    result = call(dsn, "run", "--through", through, "--json", **settings)
    assert result.exit_code == 0, result.output
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


def drafts(dsn: str, *arguments: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(
        call(dsn, "draft", "list", "--json", *arguments).stdout
    )
    return listed


def buy(conn: Connection[Any], shop: Shop, key: str, amount: str) -> builders.Account:
    """Add an account that pays a fee of so much, in advance."""
    account = builders.account(conn, shop.seller_id, key=key)
    price = builders.price(conn, shop.seller_id, amount=amount)
    builders.subscription(conn, account, price)
    return account


def test_what_is_above_the_limit_waits(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """119.00 with tax is above 100; 11.90 is not. The run is done all the same."""
    large, small = buy(owner, shop, "L-1", "100"), buy(owner, shop, "S-1", "10")

    told = run(dsn, OF_JANUARY, review_above="EUR 100, USD 50")

    assert (told["invoiced"], told["held"], told["in_review"]) == (1, 1, 1)
    assert told["is_finished"]
    assert books(owner, large).periods == []
    assert len(books(owner, small).invoiced) == 1
    assert numbers(owner, shop.seller_id) == [1]
    (draft,) = drafts(dsn)
    assert draft["account_key"] == "L-1"
    assert draft["gross_amount"] == "119.00"
    assert draft["reasons"] == ["EUR 119.00 is above the limit of 100"]
    assert lease_row(owner, large)["attempts"] == 0
    assert findings(owner) == {}


def test_a_held_account_is_in_no_run(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")

    again = call(dsn, "run", "--through", OF_FEBRUARY)

    assert again.exit_code == 0
    assert "1 account waits for a review: see pgbill draft list." in again.stderr
    assert value(owner, "SELECT count(*) FROM pgbill.invoice") == 0


def test_what_is_approved_is_issued_by_the_next_run(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    account = buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")

    approved = call(dsn, "draft", "approve", "1", "--reason", "as agreed")
    told = run(dsn, OF_JANUARY, review_above="EUR 100")

    assert approved.exit_code == 0
    assert f"now: pgbill run --through {OF_JANUARY}\n" in approved.stderr
    assert (told["invoiced"], told["held"]) == (1, 0)
    assert books(owner, account).events == [
        *("claimed", "released held"),
        "released approved",
        *("claimed", "released invoiced"),
    ]
    assert drafts(dsn) == []
    (decided,) = drafts(dsn, "--all")
    assert (decided["decision"], decided["decided_by"]) == ("approved", login.who())
    story = call(dsn, "explain", "L-1").stdout
    assert f"The draft was approved by {login.who()}: as agreed." in story
    assert findings(owner) == {}


def test_an_approval_counts_for_what_was_seen(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """Another fee before the next run: the account is held again, and says why."""
    account = buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")
    call(dsn, "draft", "approve", "1")
    builders.subscription(
        owner, account, builders.price(owner, shop.seller_id, amount="1")
    )

    told = run(dsn, OF_JANUARY, review_above="EUR 100")

    assert (told["invoiced"], told["held"]) == (0, 1)
    (draft,) = drafts(dsn)
    assert draft["gross_amount"] == "120.19"
    assert draft["reasons"][-1] == "it has changed since a draft of it was approved"


def test_imports_for_others_do_not_change_a_draft(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """They move the watermark of its bucket, and nothing that is billed."""
    account = shop.account(owner, key="U-1")
    shop.use(owner, account, "10")
    run(dsn, OF_JANUARY)
    run(dsn, OF_FEBRUARY, review_above="EUR 1")
    call(dsn, "draft", "approve", "1")
    neighbour = shop.account(owner)
    import_seq = shop.use(owner, neighbour, "1")
    run_sql(
        owner,
        "INSERT INTO pgbill.usage_watermark (bucket, import_seq, earliest_at,"
        " record_count) VALUES (%s, %s, now(), 0) ON CONFLICT DO NOTHING",
        account.bucket,
        import_seq,
    )

    told = run(dsn, OF_FEBRUARY, review_above="EUR 1", account="U-1")

    assert (told["invoiced"], told["held"]) == (1, 0)


def test_what_is_discarded_is_rated_anew(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    account = buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")
    run_sql(owner, "UPDATE pgbill.subscription_price SET quantity = 0.5")

    call(dsn, "draft", "discard", "1", "--reason", "half of it")
    told = run(dsn, OF_JANUARY, review_above="EUR 100")

    assert told["invoiced"] == 1
    assert values(owner, "SELECT net_amount::text FROM pgbill.invoice") == ["50.00"]
    assert "released discarded" in books(owner, account).events


def test_a_change_is_held_and_a_small_one_is_not(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """From 11.90 to 23.80 is 100 %; from 119.00 to 130.90 is 10 %."""
    for key, fee in (("C-1", "10"), ("C-2", "100")):
        account = buy(owner, shop, key, fee)
        more = builders.price(owner, shop.seller_id, amount="10")
        builders.subscription(owner, account, more, starts_on=date(2026, 2, 1))
    run(dsn, OF_JANUARY)

    told = run(dsn, OF_FEBRUARY, review_change_percent="50")

    assert (told["invoiced"], told["held"]) == (1, 1)
    (draft,) = drafts(dsn)
    assert draft["account_key"] == "C-1"
    assert draft["previous_gross_amount"] == "11.90"
    assert draft["reasons"] == ["EUR 23.80 after 11.90 is a change of more than 50 %"]


def test_first_invoices_are_held(dsn: str, owner: Connection[Any], shop: Shop) -> None:
    """The second one of the same account is not."""
    buy(owner, shop, "N-1", "10")

    told = run(dsn, OF_JANUARY, review_first_invoice="true")
    assert (told["invoiced"], told["held"]) == (0, 1)
    (draft,) = drafts(dsn)
    assert draft["reasons"] == ["it is the first invoice of the account"]
    call(dsn, "draft", "approve", "1")
    told = run(dsn, OF_FEBRUARY, review_first_invoice="true")

    assert (told["invoiced"], told["held"]) == (2, 0)


def test_what_has_nothing_to_bill_is_not_held(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    builders.account(owner, shop.seller_id)

    told = run(dsn, OF_JANUARY, review_first_invoice="true")

    assert (told["nothing_to_bill"], told["held"]) == (1, 0)


def test_another_person_approves_if_so_set(
    dsn: str, owner: Connection[Any], shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login counts, on whatever machine; whoever started the run may discard."""
    buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100", review_by_another="true")

    own = call(dsn, "draft", "approve", "1")
    name = login.who().partition("@")[0]
    monkeypatch.setattr(login, "who", lambda: f"{name}@laptop")
    elsewhere = call(dsn, "draft", "approve", "1")
    monkeypatch.setattr(login, "who", lambda: "ann@laptop")
    another = call(dsn, "draft", "approve", "1")

    assert (own.exit_code, elsewhere.exit_code, another.exit_code) == (2, 2, 0)
    assert own.stderr == (
        "pgbill: draft 1 must be approved by another person than the one who has"
        " started run 1.\n"
    )
    assert values(owner, "SELECT decided_by FROM pgbill.draft_decision") == [
        "ann@laptop"
    ]


def test_all_of_a_run_are_approved_at_once_or_none(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    for key in ("L-1", "L-2", "L-3"):
        buy(owner, shop, key, "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")
    call(dsn, "draft", "approve", "2")

    some = call(dsn, "draft", "approve", "1", "2")
    would = call(dsn, "draft", "approve", "--run", "1", "--dry-run")
    waiting = len(drafts(dsn))
    all_of_it = call(dsn, "draft", "approve", "--run", "1")

    assert some.exit_code == 2
    assert some.stderr == f"pgbill: draft 2 was approved by {login.who()} before.\n"
    assert waiting == 2
    assert would.stderr == "pgbill: 2 drafts would be approved.\n"
    assert "2 drafts are approved." in all_of_it.stderr
    assert run(dsn, OF_JANUARY)["invoiced"] == 3


def test_a_draft_is_shown_with_its_lines(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")

    shown = json.loads(call(dsn, "draft", "show", "1", "--json").stdout)
    page = call(dsn, "draft", "show", "1").stdout

    (line,) = shown["lines"]
    assert (line["description"], line["net_amount"]) == ("Hosting", "100.00")
    assert "held because EUR 119.00 is above the limit of 100" in page
    assert "from 2026-01-01 to 2026-01-31" in page


def test_with_a_tax_service_the_review_comes_after_the_tax(
    dsn: str, owner: Connection[Any], shop: Shop
) -> None:
    """It is not asked again for what was approved: the answer is kept."""
    buy(owner, shop, "L-1", "100")
    with TaxServer() as server:
        settings = {"review_above": "EUR 100", "tax_url": server.url}
        held = run(dsn, OF_JANUARY, **settings)
        call(dsn, "draft", "approve", "1")
        issued = run(dsn, OF_JANUARY, **settings)

        assert (held["held"], issued["invoiced"]) == (1, 1)
        assert len(server.questions) == 1
    assert findings(owner) == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("draft", "show", "9"), "there is no draft 9."),
        (("draft", "approve", "9"), "there is no draft 9."),
        (("draft", "approve"), "name drafts or --run."),
        (("draft", "approve", "1", "--run", "1"), "name drafts or --run."),
        (("draft", "approve", "--run", "9"), "there is no run 9."),
        (("draft", "discard", "1", "--reason", " "), "--reason is empty."),
    ],
)
def test_what_is_wrong_is_refused(
    dsn: str,
    owner: Connection[Any],
    shop: Shop,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    buy(owner, shop, "L-1", "100")
    run(dsn, OF_JANUARY, review_above="EUR 100")

    result = call(dsn, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert len(drafts(dsn)) == 1


@pytest.mark.parametrize(
    ("setting", "given", "sentence"),
    [
        ("review_above", "1000", "it is not like EUR 1000, USD 1200"),
        ("review_above", "euro 1000", "euro is not a currency such as EUR"),
        ("review_above", "XXQ 5", "PGBILL_REVIEW_ABOVE is wrong: there is no currency"),
        ("review_above", "EUR many", "PGBILL_REVIEW_ABOVE is wrong"),
        ("review_change_percent", "-1", "greater than or equal to 0"),
        ("review_first_invoice", "perhaps", "PGBILL_REVIEW_FIRST_INVOICE is wrong"),
    ],
)
def test_a_policy_that_is_wrong(
    dsn: str, setting: str, given: str, sentence: str
) -> None:
    result = call(dsn, "run", **{setting: given})

    assert (result.exit_code, result.stdout) == (78, "")
    assert sentence in result.stderr


def test_the_policy_stands_in_the_file_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgbill import config

    file = tmp_path / "pgbill.toml"
    file.write_text('review_by_another = true\n[review_above]\nEUR = "1000.50"\n')
    monkeypatch.setenv("PGBILL_CONFIG", str(file))

    assert config.load().review == {
        "above": {"EUR": "1000.50"},
        "change_percent": None,
        "first_invoice": False,
        "by_another": True,
    }
