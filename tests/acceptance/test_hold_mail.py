"""A run holds its mail until a person has looked: nothing goes out before, all after.

Held messages are written with their invoices like any other; the relay passes them by.
They are released once, by a person whose name is kept.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection, errors

from pgbill import login
from pgbill.sink import Sink
from tests.acceptance.commands import Pgbill, assert_clean, do, many_accounts
from tests.shop import run_sql, value, values

ACCOUNTS = 5
RUN = ("run", "--through", "2025-12-31", "--json")
RELEASE = ("outbox", "release", "--run", "1", "--json")


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with Sink(tmp_path / "mails") as running:
        yield running


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path, sink: Sink) -> Pgbill:
    return Pgbill(dsn, tmp_path).with_settings(
        workers=1, smtp_host=sink.host, smtp_port=sink.port
    )


def _states(pgbill: Pgbill) -> list[str]:
    listed = do(pgbill, "outbox", "list", "--json").json
    return [each["state"] for each in listed]


def test_nothing_is_sent_before_it_is_released(
    pgbill: Pgbill, sink: Sink, admin: Connection[Any]
) -> None:
    many_accounts(admin, ACCOUNTS)

    told = do(pgbill, *RUN, "--hold-mail").json
    before = do(pgbill, "relay", "--once", "--json").json

    assert (told["invoiced"], told["holds_mail"]) == (ACCOUNTS, True)
    assert (before["accepted"], len(sink.received)) == (0, 0)
    assert _states(pgbill) == ["held"] * ACCOUNTS
    assert do(pgbill, "status", "--json").json["outbox"]["held"] == ACCOUNTS
    assert_clean(pgbill)

    would = do(pgbill, *RELEASE, "--dry-run")
    assert would.json == {"run_id": 1, "messages": ACCOUNTS, "dry_run": True}
    assert _states(pgbill) == ["held"] * ACCOUNTS

    released = do(pgbill, *RELEASE)
    again = do(pgbill, *RELEASE)

    assert (released.json["messages"], again.json["messages"]) == (ACCOUNTS, 0)
    do(pgbill, "relay", "--once")
    assert len(sink.received) == ACCOUNTS
    assert _states(pgbill) == ["accepted"] * ACCOUNTS
    who = "SELECT DISTINCT released_by FROM pgbill.outbox_message"
    assert values(admin, who) == [login.who()]
    run = do(pgbill, "runs", "show", "1", "--json").json
    assert run["mail_released_by"] == login.who()
    shown = do(pgbill, "outbox", "show", "1").stdout
    assert "released by" in shown
    assert_clean(pgbill)


def test_a_run_that_has_not_ended_keeps_its_mail(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """It is finished by the same command, or by one without the option."""
    many_accounts(admin, ACCOUNTS)
    _open_run(admin, holds="TRUE")

    early = pgbill(*RELEASE)
    done = do(pgbill, *RUN)

    assert (early.exit_code, early.stdout) == (75, "")
    assert early.stderr.startswith("pgbill: run 1 has not ended.")
    assert done.json["holds_mail"]
    assert (
        "held: pgbill outbox release --run 1" in do(pgbill, "runs", "show", "1").stdout
    )
    assert _states(pgbill) == ["held"] * ACCOUNTS


def test_a_run_that_sends_its_mail_is_not_joined_by_one_that_holds_it(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    many_accounts(admin, 1)
    _open_run(admin, holds="FALSE")

    refused = pgbill(*RUN, "--hold-mail")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is open and does not hold its mail" in refused.stderr
    assert _states(pgbill) == []


def _open_run(conn: Connection[Any], *, holds: str) -> None:
    run_sql(
        conn,
        "SELECT pgbill.open_run('2025-12-31', NULL, 'live', NULL, '{}', 'somebody',"
        f" '1', {holds})",
    )


@pytest.mark.parametrize(
    ("run", "sentence"),
    [("9", "there is no run 9."), ("1", "run 1 does not hold its mail")],
)
def test_what_cannot_be_released(
    pgbill: Pgbill, admin: Connection[Any], run: str, sentence: str
) -> None:
    many_accounts(admin, 1)
    do(pgbill, *RUN)

    refused = pgbill("outbox", "release", "--run", run)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert sentence in refused.stderr


def test_a_relay_cannot_claim_what_is_held(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """Whatever code it runs: a constraint says no."""
    many_accounts(admin, 1)
    do(pgbill, *RUN, "--hold-mail")

    with contextlib.suppress(errors.CheckViolation):
        run_sql(admin, "UPDATE pgbill.outbox_message SET holder = 'a relay'")

    assert value(admin, "SELECT holder FROM pgbill.outbox_message") is None
