"""Runs that ask a tax service, as cron starts them: real processes, real connections.

The service is dead for a while in the middle of a run, or for good; a worker falls
asleep over its calls, or dies between an answer and the invoice. One invoice each, and
no audit finds anything.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill.steps import environment, started
from pgbill.taxserver import TaxServer
from tests.acceptance.commands import (
    ROOT,
    Pgbill,
    assert_clean,
    held_count,
    invoiced_count,
    invoices_by_account,
    many_accounts,
    wait_until,
)
from tests.shop import value, values
from tests.taxes import always, dead_after, install_providers, takes

ACCOUNTS = 60
RUN = ("run", "--through", "2026-01-01", "--workers", "3", "--json")

# The first worker that has an answer is stopped before it issues, by a signal.
_DIES_WITH_AN_ANSWER = """
import os, pathlib, signal
from pgbill import issuing
issue = issuing.issue
def die(*arguments, **options):
    try:
        pathlib.Path("died").touch(exist_ok=False)
    except FileExistsError:
        return issue(*arguments, **options)
    os.kill(os.getpid(), signal.{signal})
    return issue(*arguments, **options)
issuing.issue = die
"""


@pytest.fixture
def service() -> Iterator[TaxServer]:
    with TaxServer() as server:
        yield server


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path, service: TaxServer) -> Pgbill:
    return Pgbill(dsn, tmp_path).with_settings(
        tax_url=service.url,
        tax_in_flight=8,
        tax_retry_seconds=0.05,
        tax_patience_seconds=20,
        lease_ttl_seconds=3,
        renew_every_seconds=0.5,
    )


def _assert_each_has_one_invoice(pgbill: Pgbill, conn: Connection[Any]) -> None:
    assert invoices_by_account(conn) == [1] * ACCOUNTS
    assert_clean(pgbill)


def test_a_service_that_is_dead_for_a_while_holds_a_run_up_and_no_more(
    pgbill: Pgbill, admin: Connection[Any], service: TaxServer
) -> None:
    """And the run says so."""
    many_accounts(admin, ACCOUNTS)
    service.gate = dead_after(ACCOUNTS // 3, seconds=2, server=service)

    done = pgbill(*RUN)

    assert done.exit_code == 0, done.stderr
    assert (done.json["invoiced"], done.json["failed"]) == (ACCOUNTS, 0)
    assert "says 503" in done.stderr
    assert done.stderr.endswith("the tax service answers again.\n")
    _assert_each_has_one_invoice(pgbill, admin)


def test_a_service_that_stays_dead_ends_the_run_with_one_sentence(
    pgbill: Pgbill, admin: Connection[Any], service: TaxServer
) -> None:
    """Exit code 75: nothing has failed, and the same command continues."""
    many_accounts(admin, ACCOUNTS)
    service.answer = always(503)

    gave_up = pgbill.with_settings(tax_patience_seconds=1)(*RUN)

    assert gave_up.exit_code == 75
    *notices, sentence = gave_up.stderr.splitlines()
    assert sentence == (
        "pgbill: the tax service fails and has not recovered within 1 s (the tax"
        " service says 503: {}). Start the run again when it answers; it continues."
    )
    (notice,) = notices
    assert notice == (
        "pgbill: the tax service fails (the tax service says 503: {}): no more accounts"
        " are claimed until it answers again."
    )
    assert held_count(admin) == 0
    assert values(admin, "SELECT DISTINCT outcome FROM pgbill.lease") in (
        ["given_back"],
        ["given_back", None],
        [None, "given_back"],
    )

    service.answer = service.usual_answer
    done = pgbill(*RUN)

    assert done.exit_code == 0, done.stderr
    assert done.json["failed"] == 0
    _assert_each_has_one_invoice(pgbill, admin)


@pytest.mark.parametrize("end", ["SIGKILL", "SIGSTOP"])
def test_an_answer_outlives_the_worker_that_got_it(
    pgbill: Pgbill, admin: Connection[Any], service: TaxServer, end: str
) -> None:
    """It is stopped between answer and issue: its successor does not ask again."""
    many_accounts(admin, ACCOUNTS)
    prelude = _DIES_WITH_AN_ANSWER.format(signal=end)

    with pgbill.with_prelude(prelude).start(*RUN) as run:
        if end == "SIGSTOP":
            others = "SELECT count(*) FROM pgbill.lease WHERE outcome IS NULL"
            wait_until(lambda: value(admin, others) == 0, "it was not taken over")
            run.send(signal.SIGCONT)
        done = run.wait()

    assert done.exit_code == 0, done.stderr
    _assert_each_has_one_invoice(pgbill, admin)
    inherited = values(
        admin,
        "SELECT account.key FROM pgbill.account"
        " JOIN pgbill.invoice USING (bucket, account_id)"
        " JOIN pgbill.tax_answer USING (bucket, account_id)"
        " WHERE tax_answer.fencing_token < invoice.fencing_token",
    )
    assert inherited
    asked = [key.partition("/")[0] for key, _ in service.questions]
    assert [asked.count(key) for key in inherited] == [1] * len(inherited)


def test_a_worker_that_falls_asleep_over_its_calls_is_replaced_by_others(
    pgbill: Pgbill, admin: Connection[Any], service: TaxServer
) -> None:
    """It wakes up to answers for accounts that are no longer its own."""
    many_accounts(admin, ACCOUNTS)
    service.latency = takes(0.5)

    with pgbill.start(*RUN) as run:
        wait_until(lambda: len(service.questions) > 0, "nobody is asked")
        asleep = _worker_of(admin)
        os.kill(asleep, signal.SIGSTOP)
        try:
            wait_until(
                lambda: invoiced_count(admin) == ACCOUNTS, "it was not taken over"
            )
        finally:
            os.kill(asleep, signal.SIGCONT)
        done = run.wait()

    assert done.exit_code == 0, done.stderr
    _assert_each_has_one_invoice(pgbill, admin)


def _worker_of(conn: Connection[Any]) -> int:
    """Return the process of a worker that holds leases."""
    holder: list[str] = []

    def found() -> bool:
        query = "SELECT holder FROM pgbill.lease WHERE worker_id IS NOT NULL LIMIT 1"
        holder[:] = values(conn, query)
        return bool(holder)

    wait_until(found, "nobody holds a lease")
    return int(holder[0].rpartition(":")[2])


def test_a_stop_ends_a_run_whose_calls_would_take_minutes(
    pgbill: Pgbill, admin: Connection[Any], service: TaxServer
) -> None:
    many_accounts(admin, ACCOUNTS)
    service.latency = takes(600)

    with pgbill.start(*RUN) as run:
        wait_until(lambda: len(service.questions) == 24, "not all are asked")
        begun = time.monotonic()
        run.send(signal.SIGTERM)
        done = run.wait()

    assert done.exit_code == 75
    assert time.monotonic() - begun < 10
    assert held_count(admin) == 0


def test_a_provider_that_nobody_brings_is_told_before_the_run(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    many_accounts(admin, 1)

    done = pgbill.with_settings(tax_provider="avalanche")(*RUN)

    assert done.exit_code == 78
    assert done.stderr.startswith(
        "pgbill: PGBILL_TAX_PROVIDER is wrong: there is no tax provider avalanche."
    )
    assert value(admin, "SELECT count(*) FROM pgbill.billing_run") == 0


@pytest.mark.parametrize(
    ("name", "exit_code"), [("flat", 0), ("broken", 78), ("absent", 78)]
)
def test_a_provider_of_another_package_is_asked_or_says_why_not(
    pgbill: Pgbill, admin: Connection[Any], name: str, exit_code: int
) -> None:
    """A worker that cannot make it is not replaced by others that cannot either."""
    many_accounts(admin, ACCOUNTS)
    site = install_providers(pgbill.folder / "site")
    path = {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    shell = replace(pgbill, settings={**pgbill.settings, **path})

    done = shell.with_settings(tax_provider=name)(*RUN)

    assert done.exit_code == exit_code, done.stderr
    if exit_code == 0:
        assert values(admin, "SELECT DISTINCT tax_rate FROM pgbill.invoice_tax") == [5]
        assert_clean(pgbill)
    else:
        (sentence,) = done.stderr.splitlines()
        assert sentence.startswith(f"pgbill: the tax provider {name} of ")
        assert held_count(admin) == 0


def test_the_service_for_trials_can_be_started_by_hand(
    pgbill: Pgbill, admin: Connection[Any]
) -> None:
    """With contradictions, say, which its own conduct decides."""
    many_accounts(admin, ACCOUNTS)
    options = ("--latency", "0.05", "--contradiction-share", "0.2", "--seed", "3")

    with started("-m", "pgbill.taxserver", *options, env=environment({})) as trial:
        url = trial.read_line().decode().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/tax", url)
        done = pgbill.with_settings(tax_url=url)(*RUN)

    assert done.exit_code == 1
    assert done.json["invoiced"] + done.json["failed"] == ACCOUNTS
    assert 0 < done.json["failed"] < ACCOUNTS / 2
    assert_clean(pgbill)
