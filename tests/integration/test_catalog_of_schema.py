"""The schema keeps its own rules: what is missing is found by its name.

Each test returns the offenders. The rules are those of a schema that can be sharded by
bucket, read at night, and whose guards cannot be forgotten for a new table.
"""

import re
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from pgbill import db, resources
from tests.guards import FENCED
from tests.integration.test_p4_frozen import FOR_EVER, FROZEN
from tests.shop import run_sql, values

# They belong to no account, or to all: reference tables and series.
_REFERENCE = {
    *("currency", "seller", "seller_snapshot", "meter", "price", "price_version"),
    *("price_tier", "policy", "tax_rate", "number_series", "billing_run"),
    "usage_import_state",
    *("closed_month", "journal_export", "journal_file"),
    *("alert_digest", "alert_digest_outcome"),
    *("schema_file", "schema_object", "schema_state", "alembic_version"),
}
# Keyed by their series or by the bucket alone.
_KEYED_OTHERWISE = {
    *("invoice_number", "usage_watermark", "usage_retention", "alert"),
    "unmatched_payment",
}


def test_everything_has_a_comment(conn: Connection[Any]) -> None:
    silent = values(
        conn,
        "SELECT oid::regclass::text FROM pg_catalog.pg_class"
        " WHERE relnamespace IN ('pgbill'::regnamespace, 'pgbill_audit'::regnamespace)"
        " AND relkind IN ('r', 'p', 'v') AND relname <> 'alembic_version'"
        " AND obj_description(oid, 'pg_class') IS NULL"
        " UNION ALL SELECT oid::regprocedure::text FROM pg_catalog.pg_proc"
        " WHERE pronamespace IN"
        " ('pgbill'::regnamespace, 'pgbill_audit'::regnamespace)"
        " AND obj_description(oid, 'pg_proc') IS NULL",
    )

    assert silent == []


def test_a_null_is_explained(conn: Connection[Any]) -> None:
    """A column that may be null says what null means.

    Where the name says it, of times (sealed_at: not yet), of who did it and of parts of
    an address, it need not.
    """
    plain = (
        *("street_2", "region", "registration_id", "customer_number"),
        *("buyer_reference", "electronic_address", "tax_number", "register_entry"),
        *("contact_name", "contact_email", "contact_phone", "purchase_order"),
        *("contract_number", "cost_centre", "revenue_account"),
    )
    silent = values(
        conn,
        "SELECT format('%%s.%%s', attrelid::regclass, attname)"
        " FROM pg_catalog.pg_attribute"
        " INNER JOIN pg_catalog.pg_class ON pg_class.oid = attrelid"
        " WHERE relnamespace = 'pgbill'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition AND attnum > 0 AND NOT attisdropped"
        " AND NOT attnotnull AND attname !~ '_(at|by)$' AND NOT attname = ANY(%s)"
        " AND col_description(attrelid, attnum) IS NULL ORDER BY 1",
        list(plain),
    )

    assert silent == []


def test_a_unit_is_told(conn: Connection[Any]) -> None:
    """A rate, a percentage, a number of digits, an amount of a unit."""
    silent = values(
        conn,
        "SELECT format('%s.%s', attrelid::regclass, attname)"
        " FROM pg_catalog.pg_attribute"
        " INNER JOIN pg_catalog.pg_class ON pg_class.oid = attrelid"
        " WHERE relnamespace = 'pgbill'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition AND attnum > 0 AND NOT attisdropped"
        " AND attname ~ '(rate|percent|digits|days|unit_amount|attempts)$'"
        " AND col_description(attrelid, attnum) IS NULL ORDER BY 1",
    )

    assert silent == []


def test_what_belongs_to_an_account_is_keyed_by_it(conn: Connection[Any]) -> None:
    """Bucket and account come first in every key, so that rows can live apart."""
    astray = values(
        conn,
        "SELECT format('%s: %s', conrelid::regclass, pg_get_constraintdef(con.oid))"
        " FROM pg_catalog.pg_constraint AS con"
        " INNER JOIN pg_catalog.pg_class AS rel ON rel.oid = con.conrelid"
        " INNER JOIN pg_catalog.pg_attribute AS att"
        " ON att.attrelid = rel.oid AND att.attname = 'account_id'"
        " WHERE rel.relnamespace = 'pgbill'::regnamespace AND NOT relispartition"
        " AND relname NOT IN ('alert', 'invoice_number') AND contype IN ('p', 'u', 'x')"
        " AND pg_get_constraintdef(con.oid)"
        " !~ '^(PRIMARY KEY|UNIQUE) \\(bucket, (account_id|key)'"
        " AND pg_get_constraintdef(con.oid)"
        " !~ '^EXCLUDE USING gist \\(bucket WITH =, account_id WITH ='"
        " ORDER BY 1",
    )
    without_account = {
        table.removeprefix("pgbill.")
        for table in values(
            conn,
            "SELECT relname::text FROM pg_catalog.pg_class AS rel"
            " WHERE relnamespace = 'pgbill'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition AND NOT EXISTS (SELECT"
            " FROM pg_catalog.pg_index INNER JOIN pg_catalog.pg_attribute AS att"
            " ON attrelid = indrelid AND attnum = indkey[1]"
            " WHERE indrelid = rel.oid AND indisprimary AND attname = 'account_id')",
        )
    }

    assert astray == []
    assert without_account - _KEYED_OTHERWISE == _REFERENCE


def test_a_foreign_key_between_accounts_rows_names_the_account(
    conn: Connection[Any],
) -> None:
    astray = values(
        conn,
        "SELECT format('%s: %s', conrelid::regclass, pg_get_constraintdef(con.oid))"
        " FROM pg_catalog.pg_constraint AS con"
        " INNER JOIN pg_catalog.pg_class AS rel ON rel.oid = con.conrelid"
        " WHERE rel.relnamespace = 'pgbill'::regnamespace AND contype = 'f'"
        " AND NOT relispartition"
        " AND pg_get_constraintdef(con.oid)"
        " !~ '^FOREIGN KEY \\(bucket, account_id[,)]'"
        " AND EXISTS (SELECT FROM pg_catalog.pg_attribute"
        " WHERE attrelid = confrelid AND attname = 'account_id')",
    )

    assert astray == []


def test_an_account_table_is_fenced_or_says_why_not(conn: Connection[Any]) -> None:
    """Every table with a fencing token has an enabled fence; a lease is the fence."""
    with_token = values(
        conn,
        "SELECT relname::text FROM pg_catalog.pg_class INNER JOIN"
        " pg_catalog.pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = 'pgbill'::regnamespace AND relkind IN ('r', 'p')"
        " AND attname = 'fencing_token' ORDER BY 1",
    )
    # Written after a loss, or about one.
    not_fenced = {"lease", "lease_event", "alert"}

    assert set(with_token) - not_fenced == set(FENCED)
    assert _triggered(conn, "fence") == set(FENCED)


def test_what_is_insert_only_is_frozen(conn: Connection[Any]) -> None:
    assert _triggered(conn, "freeze") == {*FROZEN, *FOR_EVER}


def test_no_trigger_is_disabled(conn: Connection[Any]) -> None:
    disabled = values(
        conn,
        "SELECT format('%s %s', tgrelid::regclass, tgname)"
        " FROM pg_catalog.pg_trigger WHERE tgenabled NOT IN ('O', 'A')",
    )

    assert disabled == []


def _triggered(conn: Connection[Any], function: str) -> set[str]:
    """Return the tables that have an enabled trigger of a function."""
    return set(
        values(
            conn,
            "SELECT relname::text FROM pg_catalog.pg_trigger"
            " INNER JOIN pg_catalog.pg_class ON pg_class.oid = tgrelid"
            " WHERE tgfoid = to_regprocedure(%s) AND tgenabled IN ('O', 'A')"
            " AND NOT relispartition",
            f"pgbill.{function}()",
        )
    )


def test_a_foreign_key_has_an_index(conn: Connection[Any]) -> None:
    """It begins with columns of the key: two where bucket and account are among them.

    To the list of currencies none is needed: it only grows.
    """
    slow = values(
        conn,
        "SELECT format('%s: %s', conrelid::regclass, pg_get_constraintdef(con.oid))"
        " FROM pg_catalog.pg_constraint AS con"
        " INNER JOIN pg_catalog.pg_class AS rel ON rel.oid = con.conrelid"
        " WHERE rel.relnamespace = 'pgbill'::regnamespace AND contype = 'f'"
        " AND NOT relispartition AND confrelid <> 'pgbill.currency'::regclass"
        " AND NOT EXISTS (SELECT FROM pg_catalog.pg_index"
        " WHERE indrelid = conrelid AND indkey[0] = ANY(conkey)"
        " AND (cardinality(conkey) = 1 OR indkey[1] = ANY(conkey)"
        " OR indnkeyatts = 1))"
        " ORDER BY 1",
    )

    assert slow == []


def test_there_are_no_identity_columns(conn: Connection[Any]) -> None:
    """A distributed table takes its numbers from a sequence."""
    assert (
        values(
            conn,
            "SELECT format('%s.%s', attrelid::regclass, attname)"
            " FROM pg_catalog.pg_attribute WHERE attidentity <> ''"
            " AND attrelid::regclass::text LIKE 'pgbill%'",
        )
        == []
    )


def test_no_constraint_is_deferrable(conn: Connection[Any]) -> None:
    assert (
        values(
            conn,
            "SELECT conname::text FROM pg_catalog.pg_constraint"
            " WHERE condeferrable AND connamespace = 'pgbill'::regnamespace",
        )
        == []
    )


def test_no_function_with_the_owners_rights_trusts_the_callers_path(
    conn: Connection[Any],
) -> None:
    trusting = values(
        conn,
        "SELECT oid::regprocedure::text FROM pg_catalog.pg_proc"
        " WHERE pronamespace = 'pgbill'::regnamespace AND prosecdef"
        " AND NOT coalesce(proconfig, '{}') @> ARRAY['search_path=\"\"']",
    )

    assert trusting == []


def test_tokens_are_drawn_one_by_one(conn: Connection[Any]) -> None:
    assert conn.execute(
        "SELECT seqcache FROM pg_catalog.pg_sequence"
        " WHERE seqrelid = 'pgbill.fencing_token'::regclass"
    ).fetchone() == (1,)


def test_nothing_that_a_renewal_changes_is_indexed(conn: Connection[Any]) -> None:
    """Or each renewal would write to an index, and none would stay in its page."""
    indexed = values(
        conn,
        "SELECT attname::text FROM pg_catalog.pg_index"
        " INNER JOIN pg_catalog.pg_attribute"
        " ON attrelid = indrelid AND attnum = ANY(indkey)"
        " WHERE indrelid = 'pgbill.lease'::regclass",
    )

    assert set(indexed) == {"bucket", "account_id", "due_on"}


def test_amounts_are_exact(conn: Connection[Any]) -> None:
    """There is no floating point anywhere, and no money type."""
    inexact = values(
        conn,
        "SELECT format('%s.%s', attrelid::regclass, attname)"
        " FROM pg_catalog.pg_attribute INNER JOIN pg_catalog.pg_class"
        " ON pg_class.oid = attrelid WHERE attnum > 0"
        " AND relnamespace IN ('pgbill'::regnamespace, 'pgbill_audit'::regnamespace)"
        " AND atttypid IN ('float4'::regtype, 'float8'::regtype, 'money'::regtype)",
    )

    assert inexact == []


def test_times_have_a_zone_and_names_tell_the_type(conn: Connection[Any]) -> None:
    misnamed = values(
        conn,
        "SELECT format('%s.%s %s', attrelid::regclass, attname, atttypid::regtype)"
        " FROM pg_catalog.pg_attribute INNER JOIN pg_catalog.pg_class"
        " ON pg_class.oid = attrelid WHERE relnamespace = 'pgbill'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0"
        " AND ((attname ~ '_at$') <> (atttypid = 'timestamptz'::regtype)"
        " OR (attname ~ '(_on|period_start|period_end)$')"
        " <> (atttypid = 'date'::regtype)"
        " OR (attname ~ '[^g]_period$') <> (atttypid = 'daterange'::regtype)"
        " OR atttypid IN ('timestamp'::regtype, 'time'::regtype))",
    )

    assert misnamed == []


def test_the_lease_leaves_room_in_its_pages(conn: Connection[Any]) -> None:
    (options,) = values(
        conn,
        "SELECT reloptions FROM pg_catalog.pg_class"
        " WHERE oid = 'pgbill.lease'::regclass",
    )

    assert options == ["fillfactor=60"]


_FILES = sorted(resources.path("sql", "queries").glob("*.sql"))
_PARAMETER = re.compile(r"%\((\w+)\)s")
_COMMENT = re.compile(r"^--[^\n]*\n", re.MULTILINE)


@pytest.mark.parametrize("module", [file.stem for file in _FILES])
def test_every_query_fits_the_schema(conn: Connection[Any], module: str) -> None:
    """A column that is renamed is found here, not at night."""
    queries = db.Queries(module)

    unfit = {
        name: problem
        for name in queries
        if (problem := _problem(conn, queries[name].as_string(conn)))
    }

    assert unfit == {}


def _problem(conn: Connection[Any], query: str) -> str | None:
    """Prepare a query; those that stage a file are run, so that others find it."""
    text = _COMMENT.sub("", query)
    try:
        with conn.transaction():
            if text.startswith(("CREATE TEMPORARY TABLE", "LOCK")):
                run_sql(conn, text)
            elif not text.startswith("DROP"):
                run_sql(conn, f"PREPARE fitting AS {_numbered(text)}")
                run_sql(conn, "DEALLOCATE fitting")
    except psycopg.Error as error:
        return str(error)
    return None


def _numbered(query: str) -> str:
    """Write parameters as PostgreSQL does."""
    names = list(dict.fromkeys(_PARAMETER.findall(query)))
    if not names:
        return query
    numbered = _PARAMETER.sub(lambda it: f"${names.index(it[1]) + 1}", query)
    return numbered.replace("%%", "%")
