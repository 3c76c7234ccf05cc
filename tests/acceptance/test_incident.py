"""The incident happens to a lock that expires, and does not happen to pgbill."""

import html.parser
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import comparison, page, replay, steps
from pgbill.sink import Sink
from pgbill.steps import Process, Steps
from tests.acceptance.commands import invoices_by_account, many_accounts
from tests.shop import value

ACCOUNTS = 40
SLOW = 3
WORKERS = 4
THROUGH = "2025-12-31"


class _Checker(html.parser.HTMLParser):
    """Finds whatever a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, given in attrs:
            is_address = name in {"src", "href", "srcset", "data"}
            if is_address and not (given or "").startswith("#"):
                self.fetched.append(f"{tag} {name}={given}")


def test_the_incident_replayed(
    dsn: str, admin: Connection[Any], tmp_path: Path
) -> None:
    many_accounts(admin, ACCOUNTS)
    plan = replay.plan(dsn, through=THROUGH, workers=WORKERS)
    plan = replace(plan, slow=dict(list(plan.slow.items())[:SLOW]))
    said: list[str] = []

    with Sink(tmp_path / "mails") as sink, Sink(tmp_path / "lock") as lock_sink:
        environment = steps.environment(
            {
                "PGBILL_DSN": dsn,
                "PGBILL_SMTP_HOST": sink.host,
                "PGBILL_SMTP_PORT": str(sink.port),
                "PGBILL_MAIL_FROM": "billing@example.com",
            }
        )
        both = replay.run(
            dsn, plan, Steps(environment, tmp_path, said.append), lock_sink
        )
        mails = len(sink.received)

    lock, pgbill = both.lock, both.pgbill
    assert len(plan.due) == lock.copies.accounts == pgbill.copies.accounts == ACCOUNTS
    # What the lock allows.
    assert lock.copies.repeated > 0
    assert lock.mails == lock.copies.invoices > ACCOUNTS
    assert lock.went_on > 0
    # And pgbill does not: leases were lost as well, and nothing came of it.
    assert pgbill.copies.invoices == ACCOUNTS
    assert pgbill.copies.repeated == pgbill.went_on == pgbill.findings == 0
    assert pgbill.mails == mails == ACCOUNTS
    assert pgbill.expired >= 2
    assert pgbill.dropped >= 1
    assert pgbill.refused >= 2
    assert pgbill.alerts >= pgbill.expired
    assert invoices_by_account(admin) == [1] * ACCOUNTS
    # The naive pipeline leaves nothing behind.
    assert value(admin, "SELECT to_regnamespace('naive') IS NULL")

    written = page.render(both)
    checker = _Checker()
    checker.feed(written)
    assert checker.fetched == []
    assert written.count('class="sign copy"') > lock.copies.repeated
    assert all(row.what in written for row in comparison.rows(plan, lock, pgbill))
    assert all(account in written for account in plan.slow)


def test_whatever_is_started_is_ended(tmp_path: Path) -> None:
    """A worker that is stopped, too, when the replay is interrupted."""
    begun: list[Process] = []

    with pytest.raises(KeyboardInterrupt):
        _be_interrupted(tmp_path, begun)

    assert begun[0].has_ended


def _be_interrupted(folder: Path, begun: list[Process]) -> None:
    program = "print('ready', flush=True); import time; time.sleep(600)"
    with steps.started(
        "-c", program, env=steps.environment({}), folder=folder
    ) as process:
        begun.append(process)
        assert process.read_line() == b"ready\n"
        os.kill(process.popen.pid, signal.SIGSTOP)
        raise KeyboardInterrupt
