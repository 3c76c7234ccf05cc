"""A worker writes through the protocol alone, a reader writes nothing.

So no program of the worker's role, whatever it does, can pass by the order of locks,
the tokens and the numbers. The functions of the protocol run with the rights of the
owner; what they call cannot be called from outside.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection, errors

from pgbill import roles
from tests.actors import Actor, connect
from tests.shop import Shop, run_sql, value, values

_TABLES = (
    "SELECT relname::text FROM pg_catalog.pg_class"
    " WHERE relnamespace = 'pgbill'::regnamespace AND relkind IN ('r', 'p')"
    " ORDER BY relname"
)
_PROTOCOL = {
    *("claim", "renew", "release", "abandon", "settle", "unpark", "due_buckets"),
    *("due_count", "rate", "issue", "bill", "open_run", "run_summary", "seal_run"),
    *("analyze_written", "bucket_of", "receivables_at", "unbilled_at"),
    *("due_message_buckets", "claim_messages", "renew_messages", "release_messages"),
    *("begin_attempt", "record_outcome", "retry_message"),
    *("begin_dry_run", "decide_draft", "park", "retry_run", "run_failures"),
    "release_held_messages",
    *("record_refusal", "digest_is_due", "begin_digest", "record_digest"),
    *("rate_and_question", "keep_tax_answers", "with_tax", "preview"),
    *("credit", "reissue"),
}
_PURE = {
    *("boundary", "boundary_number", "local_midnight", "instant_within", "bucket_of"),
    *("price", "value_of", "tiered", "rounded", "rounded_quantity"),
    *("measured", "taxes_of", "tax_of", "receivables_at", "entries_of"),
}


def _functions(conn: Connection[Any], role: str) -> set[str]:
    return set(
        values(
            conn,
            "SELECT proname::text FROM pg_catalog.pg_proc"
            " WHERE pronamespace = 'pgbill'::regnamespace"
            " AND has_function_privilege(%s, oid, 'EXECUTE')",
            role,
        )
    )


@pytest.fixture(params=[roles.WORKER, roles.READER])
def outsider(
    request: pytest.FixtureRequest, shared_dsn: str
) -> Iterator[Connection[Any]]:
    """Return a connection of a role that owns nothing, rolled back."""
    role: str = request.param
    with contextlib.closing(connect(shared_dsn, role)) as conn:
        conn.autocommit = False
        yield conn
        conn.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO pgbill.{} DEFAULT VALUES",
        "UPDATE pgbill.{} SET {} = {}",
        "DELETE FROM pgbill.{}",
        "TRUNCATE pgbill.{}",
        "LOCK TABLE pgbill.{}",
    ],
)
def test_no_table_is_written_directly(
    outsider: Connection[Any], statement: str
) -> None:
    tables = values(outsider, _TABLES)
    assert len(tables) > 25

    for table in tables:
        column = value(
            outsider,
            "SELECT attname::text FROM pg_catalog.pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum = 1",
            f"pgbill.{table}",
        )
        with pytest.raises(errors.InsufficientPrivilege), outsider.transaction():
            run_sql(outsider, statement.format(table, column, column))


def test_no_sequence_is_drawn_from_directly(outsider: Connection[Any]) -> None:
    sequences = values(
        outsider,
        "SELECT relname::text FROM pg_catalog.pg_class"
        " WHERE relnamespace = 'pgbill'::regnamespace AND relkind = 'S'",
    )

    for sequence in sequences:
        for call in ("nextval('pgbill.{}')", "setval('pgbill.{}', 1)"):
            with pytest.raises(errors.InsufficientPrivilege), outsider.transaction():
                run_sql(outsider, f"SELECT {call.format(sequence)}")


def test_no_guard_is_switched_off(outsider: Connection[Any]) -> None:
    for statement in (
        "ALTER TABLE pgbill.invoice DISABLE TRIGGER _10_fence",
        "DROP TRIGGER _10_fence ON pgbill.invoice",
        "SET session_replication_role = replica",
        "CREATE FUNCTION pgbill.mine() RETURNS text RETURN ''",
        "SELECT pgbill.draw_numbers(ARRAY[1], ARRAY[1::bigint], ARRAY[1::bigint])",
        "SELECT pgbill.park_exhausted(1, ARRAY[1::bigint])",
        "SELECT pgbill.revoke_leases(ARRAY[1], ARRAY[1::bigint], 'mine')",
    ):
        with pytest.raises(errors.InsufficientPrivilege), outsider.transaction():
            run_sql(outsider, statement)


def test_all_can_be_read(outsider: Connection[Any]) -> None:
    for table in values(outsider, _TABLES):
        run_sql(outsider, f"SELECT FROM pgbill.{table} LIMIT 1")


def test_a_worker_executes_the_protocol_and_nothing_else(
    conn: Connection[Any],
) -> None:
    assert _functions(conn, roles.WORKER) == _PROTOCOL


def test_a_reader_executes_what_only_computes(conn: Connection[Any]) -> None:
    assert _functions(conn, roles.READER) == _PURE


def test_what_a_reader_executes_reads_nothing(conn: Connection[Any]) -> None:
    """It is not SECURITY DEFINER and cannot change anything."""
    powerful = values(
        conn,
        "SELECT proname::text FROM pg_catalog.pg_proc"
        " WHERE pronamespace = 'pgbill'::regnamespace"
        " AND has_function_privilege('pgbill_reader', oid, 'EXECUTE')"
        " AND (prosecdef OR provolatile = 'v')",
    )

    assert powerful == []


def test_the_protocol_is_enough_to_bill(conn: Connection[Any]) -> None:
    account = Shop.open(conn).account(conn)
    conn.execute("SET LOCAL ROLE pgbill_worker")
    worker = Actor(conn)
    held = worker.claim_one(account)

    assert worker.renews(held)
    assert worker.outcomes(held) == ["invoiced"]


def test_roles_cannot_log_in_and_own_no_rights_elsewhere(
    conn: Connection[Any],
) -> None:
    assert (
        conn.execute(
            "SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname = ANY(%s)"
            " AND (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb"
            " OR rolreplication OR rolbypassrls)",
            [list(roles.ALL)],
        ).fetchall()
        == []
    )
