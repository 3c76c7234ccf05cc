"""An account that kills its worker is parked at the cap, and the others go on.

However it does that: the process ends by itself, by a signal of the machine, by the
killer of the kernel when memory is short, or by an error that nobody catches.
"""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.acceptance.commands import Pgbill, assert_clean, do, many_accounts
from tests.shop import lease_row, value, values

ACCOUNTS = 30
ATTEMPTS = 3
RUN = ("run", "--through", "2025-12-31", "--json")

_DEADLY = """
import os, signal
from pgbill import issuing
bill = issuing.bill
def bill_or_die(conn, leases, **options):
    if {account_id} in [each.account_id for each in leases]:
        {death}
    return bill(conn, leases, **options)
issuing.bill = bill_or_die
"""

DEATHS = {
    "exit": "os._exit(7)",
    "segmentation fault": "os.kill(os.getpid(), signal.SIGSEGV)",
    "killed for its memory": "os.kill(os.getpid(), signal.SIGKILL)",
    "out of memory": "raise MemoryError",
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_an_account_that_kills_its_worker(
    dsn: str, tmp_path: Path, admin: Connection[Any], death: str
) -> None:
    deadly, *others = many_accounts(admin, ACCOUNTS)
    pgbill = Pgbill(dsn, tmp_path).with_settings(
        workers=2,
        batch_size=10,
        lease_ttl_seconds=1,
        renew_every_seconds=0.25,
        max_attempts=ATTEMPTS,
    )
    prelude = _DEADLY.format(account_id=deadly.account_id, death=death)

    done = pgbill.with_prelude(prelude)(*RUN)

    assert done.exit_code == 1, done.stderr
    told = done.json
    assert (told["is_finished"], told["parked"], told["still_due"]) == (True, 1, 0)
    assert told["invoiced"] == len(others)
    row = lease_row(admin, deadly)
    assert row["detail"] == (
        f"gave up after {ATTEMPTS} attempts: the last worker did not come back"
    )
    # It took others along once, when nobody knew; then it was claimed alone.
    assert value(admin, "SELECT max(attempts) FROM pgbill.lease") == ATTEMPTS
    assert set(
        values(admin, "SELECT account_id FROM pgbill.lease WHERE parked_at IS NOT NULL")
    ) == {deadly.account_id}
    assert_clean(pgbill)

    do(pgbill, "account", "unpark", deadly.key, "--reason", "mended")

    assert do(pgbill, *RUN).json["invoiced"] == 1
