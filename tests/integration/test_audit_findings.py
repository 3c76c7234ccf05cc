"""Each audit view finds what it is there for.

`audit_findings.sql` takes mechanisms away, writes what they would have refused, and
says which views show it: exactly these, and no others. `audit_findings_of_rating.sql`
does it to accounts that buy all that there is. A view that nothing proves fails
here as well.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import db, roles
from tests import builders, varied, world
from tests.shop import findings, run_sql, value, values


@dataclass(frozen=True, slots=True)
class Crime:
    """What was done, to which tables, and which views show it."""

    what: str
    tables: list[str]
    shows: set[str]
    statements: str


_CRIME = re.compile(
    r"^-- crime: (?P<what>.+)\n-- tables: (?P<tables>.+)\n-- shows: (?P<shows>.+)\n"
    r"(?P<statements>(?:(?!-- ).*\n?)+)",
    re.MULTILINE,
)
Scene = tuple[Connection[Any], world.World]

CRIMES = [
    Crime(
        crime["what"],
        crime["tables"].split(", "),
        set(crime["shows"].split(", ")),
        crime["statements"],
    )
    for name in ("audit_findings.sql", "audit_findings_of_rating.sql")
    for crime in _CRIME.finditer(
        Path(__file__).with_name(name).read_text(encoding="utf-8")
    )
]

GUARDS = [
    ("_10_fence", "invoice_tax", "p2_fence_missing"),
    ("_20_freeze", "invoice_number", "p4_freeze_missing"),
    ("_30_write_message", "invoice", "p3_message_trigger_missing"),
]


@pytest.fixture(scope="module")
def built(shared_dsn: str) -> Iterator[Scene]:
    """Build the world once, and commit nothing."""
    with contextlib.closing(
        db.connect(shared_dsn, role=roles.OWNER, application="test", autocommit=False)
    ) as conn:
        whole = world.build(conn)
        varied.build(conn)
        yield conn, whole
        conn.rollback()


@pytest.fixture
def scene(
    built: Scene,
) -> Iterator[Scene]:
    """Undo what a test does to the world."""
    conn, whole = built
    with conn.transaction(force_rollback=True):
        yield conn, whole


def names(conn: Connection[Any], built: world.World) -> dict[str, int]:
    """Return what the names in the file stand for."""

    def invoice(period_end: str) -> int:
        found: int = value(
            conn,
            "SELECT invoice_id FROM pgbill.invoice"
            " WHERE bucket = %s AND account_id = %s AND period_end = %s",
            built.busy.bucket,
            built.busy.account_id,
            period_end,
        )
        return found

    varied_account, frugal = (builders.find(conn, key) for key in ("varied", "frugal"))
    return {
        "varied": varied_account.account_id,
        "frugal": frugal.account_id,
        "busy": built.busy.account_id,
        "idle": built.idle.account_id,
        "february": invoice("2026-02-01"),
        "march": invoice("2026-03-01"),
        "sleeper": value(
            conn,
            "SELECT fencing_token FROM pgbill.lease_event"
            " WHERE kind = 'claimed' AND holder = 'sleeper:1'",
        ),
    }


@pytest.mark.parametrize("crime", CRIMES, ids=lambda crime: crime.what)
def test_it_shows(scene: Scene, crime: Crime) -> None:
    conn, whole = scene
    known = names(conn, whole)

    with world.lawless(conn, *crime.tables):
        run_sql(
            conn,
            re.sub(r":([a-z]+)", lambda name: str(known[name[1]]), crime.statements),
        )

    assert set(findings(conn)) == crime.shows


@pytest.mark.parametrize(("trigger", "table", "view"), GUARDS)
def test_a_guard_that_is_disabled_shows(
    scene: Scene, trigger: str, table: str, view: str
) -> None:
    conn, _ = scene
    run_sql(conn, f"ALTER TABLE pgbill.{table} DISABLE TRIGGER {trigger}")

    assert set(findings(conn)) == {view}


@pytest.mark.parametrize(("trigger", "table", "view"), GUARDS)
def test_a_guard_that_is_dropped_shows(
    scene: Scene, trigger: str, table: str, view: str
) -> None:
    conn, _ = scene
    run_sql(conn, f"DROP TRIGGER {trigger} ON pgbill.{table}")

    assert set(findings(conn)) == {view}


def test_a_partition_that_can_be_changed_shows(scene: Scene) -> None:
    """The trigger of the table does not see who names a partition."""
    conn, _ = scene
    run_sql(conn, "ALTER TABLE pgbill.usage_record_2026_01 DISABLE TRIGGER _20_freeze")

    assert values(
        conn, "SELECT DISTINCT table_name FROM pgbill_audit.p4_freeze_missing"
    ) == ["usage_record_2026_01"]


def test_every_view_is_proved(
    scene: Scene,
) -> None:
    conn, _ = scene
    views = values(
        conn,
        "SELECT viewname::text FROM pg_catalog.pg_views"
        " WHERE schemaname = 'pgbill_audit'",
    )

    proved = {view for crime in CRIMES for view in crime.shows}
    assert proved | {view for _, _, view in GUARDS} == set(views)


def test_every_insert_only_table_is_watched(
    scene: Scene,
) -> None:
    """Tables that have a freeze, or a fence, now are those that the views know."""
    conn, _ = scene

    def guarded(function: str) -> set[str]:
        return set(
            values(
                conn,
                "SELECT DISTINCT pg_class.relname::text"
                " FROM pg_catalog.pg_trigger"
                " INNER JOIN pg_catalog.pg_class ON pg_class.oid = tgrelid"
                " WHERE tgfoid = to_regprocedure(%s) AND NOT relispartition",
                function,
            )
        )

    frozen, fenced = guarded("pgbill.freeze()"), guarded("pgbill.fence()")
    for table in frozen | fenced:
        run_sql(conn, f"ALTER TABLE pgbill.{table} DISABLE TRIGGER USER")

    assert frozen == set(
        values(conn, "SELECT table_name FROM pgbill_audit.p4_freeze_missing")
    )
    assert fenced == set(
        values(conn, "SELECT table_name FROM pgbill_audit.p2_fence_missing")
    )
