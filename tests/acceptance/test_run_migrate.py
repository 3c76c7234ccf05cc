"""`migrate` and `run` meet.

Beside each other both end well, and a run on a schema that is not exactly the one of
its pgbill ends before it begins.
"""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

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
from tests.shop import run_sql, value

ACCOUNTS = 150
RUN = ("run", "--through", "2025-12-31", "--workers", "2")

# As if the files were of an older pgbill; what they made is there, but for a view.
_AGE = """
UPDATE pgbill.schema_file SET sha256 = '' WHERE path LIKE 'sql/%';
DROP VIEW pgbill_audit.p5_number_gap;
"""


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path) -> Pgbill:
    """Return a pgbill with small batches."""
    return Pgbill(dsn, tmp_path).with_settings(batch_size=10)


def test_migrate_beside_a_run(pgbill: Pgbill, admin: Connection[Any]) -> None:
    """The run is in the middle when everything replaceable is made anew."""
    many_accounts(admin, ACCOUNTS)
    assert pgbill.dsn is not None

    with pgbill.start(*RUN, "--json") as run:
        with held_up(run, admin, pgbill.dsn, workers=2):
            run_sql(admin, _AGE)
            migrate = pgbill.start("migrate")
            wait_until(lambda: _waits_for_leases(admin), "migrate does not wait")
        with migrate:
            migrated = migrate.wait()
        done = run.wait()

    assert migrated.exit_code == 0, migrated.stderr
    assert migrated.stderr == "pgbill: the database is at this version now.\n"
    assert done.exit_code == 0, done.stderr
    assert done.json["invoiced"] == ACCOUNTS
    assert invoices_by_account(admin) == [1] * ACCOUNTS
    assert value(
        admin,
        "SELECT migrated_at < (SELECT max(occurred_at) FROM pgbill.lease_event"
        " WHERE kind = 'claimed') FROM pgbill.schema_state",
    ), "the run had ended before"
    do(pgbill, "check")
    assert_clean(pgbill)


def _waits_for_leases(conn: Connection[Any]) -> bool:
    """Tell whether migrate has begun, and queues for the run's tables."""
    return bool(
        value(
            conn,
            "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
            " AND relation = 'pgbill.lease'::regclass AND mode = 'ExclusiveLock'",
        )
    )


_OTHER = "the database's schema is not the one of this pgbill"
_BY_HAND = "the database's schema was changed by hand"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("UPDATE pgbill.schema_file SET sha256 = '' WHERE path ~ 'grants'", _OTHER),
        ("DELETE FROM pgbill.schema_file WHERE path ~ '/0008_'", _OTHER),
        ("INSERT INTO pgbill.schema_file VALUES ('alembic/9999_x.sql', '')", _OTHER),
        ("ALTER TABLE pgbill.invoice DISABLE TRIGGER _10_fence", _BY_HAND),
        ("ALTER FUNCTION pgbill.bill SET jit = on", _BY_HAND),
    ],
    ids=["older", "older tables", "newer", "without a fence", "another function"],
)
def test_a_schema_of_another_kind_is_refused(
    pgbill: Pgbill, admin: Connection[Any], change: str, complaint: str
) -> None:
    many_accounts(admin, 1)
    run_sql(admin, change)

    for command in (RUN, ("relay", "--once")):
        refused = pgbill(*command)

        assert (refused.exit_code, refused.stdout) == (78, ""), refused.stderr
        assert complaint in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert invoiced_count(admin) == 0
    assert value(admin, "SELECT count(*) FROM pgbill.billing_run") == 0
