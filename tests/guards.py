"""The mechanisms that keep the promises, each with a way to take it away.

A guard is proved needed by a mutant: a database without it, in which the forbidden
thing becomes possible. Mutants are made where nothing else lives: in a transaction that
is rolled back, or in a clone that is dropped. Each does what a well-meaning change
might do: drop a constraint, or write a function a little simpler. A mutation that finds
nothing to change fails, so that it cannot prove a guard that is no longer there.
"""

import re
from collections.abc import Callable
from typing import Any

from psycopg import Connection

from tests.shop import run_sql, values

Mutation = Callable[[Connection[Any]], None]

FENCED = (
    "billing_period",
    "invoice",
    "invoice_line",
    "invoice_tax",
    "invoice_cancellation",
    "tax_answer",
    "carried_line",
    "credit_application",
    "held_draft",
)


def edited(function: str, *changes: tuple[str, str]) -> Mutation:
    """Mutate a function: replace pieces of its text, whatever their white space."""

    def take_away(conn: Connection[Any]) -> None:
        (text,) = values(
            conn,
            "SELECT pg_catalog.pg_get_functiondef(oid) FROM pg_catalog.pg_proc"
            " WHERE pronamespace = 'pgbill'::regnamespace AND proname = %s",
            function,
        )
        mutant = _without_comments(str(text))
        for old, new in changes:
            # Lines are kept: pieces of a string are joined by their ends.
            piece = r"\s+".join(map(re.escape, old.split()))
            mutant, count = re.subn(piece, lambda _, new=new: new, mutant)
            assert count, f"pgbill.{function} has no {old!r}"
        run_sql(conn, mutant)

    return take_away


def _without_comments(text: str) -> str:
    # Two hyphens within quotes are an option of a command, in what a person is told.
    return re.sub(r"(?m)^((?:[^'\n-]|'[^'\n]*'|-(?!-))*)--.*$", r"\1", text)


def without_trigger(name: str, *tables: str) -> Mutation:
    """Drop a trigger from tables of `pgbill`."""

    def take_away(conn: Connection[Any]) -> None:
        for table in tables:
            run_sql(conn, f"DROP TRIGGER {name} ON pgbill.{table}")

    return take_away


def without_index(name: str) -> Mutation:
    """Drop a unique index."""
    return lambda conn: run_sql(conn, f"DROP INDEX pgbill.{name}")


def without_key(table: str, definition: str) -> Mutation:
    """Drop the constraint whose definition begins so, and what depends on it."""

    def take_away(conn: Connection[Any]) -> None:
        (name,) = values(
            conn,
            "SELECT conname::text FROM pg_catalog.pg_constraint"
            " WHERE conrelid = to_regclass(%s)"
            " AND starts_with(pg_catalog.pg_get_constraintdef(oid), %s)",
            f"pgbill.{table}",
            definition,
        )
        run_sql(conn, f'ALTER TABLE pgbill.{table} DROP CONSTRAINT "{name}" CASCADE')

    return take_away


def all_of(*mutations: Mutation) -> Mutation:
    """Mutate several things."""

    def take_away(conn: Connection[Any]) -> None:
        for mutation in mutations:
            mutation(conn)

    return take_away
