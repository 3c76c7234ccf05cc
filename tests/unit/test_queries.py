"""Named queries are pasted into psql as they stand, and reach psycopg unharmed."""

from pathlib import Path

import pytest

from pgbill import db, resources


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("WHERE a = :a", "WHERE a = %(a)s"),
        ("WHERE a = :a AND b = :a_b2", "WHERE a = %(a)s AND b = %(a_b2)s"),
        ("SELECT :a::date", "SELECT %(a)s::date"),
        ("SELECT x::date, :a", "SELECT x::date, %(a)s"),
        ("SELECT ':no', ':it''s', :a", "SELECT ':no', ':it''s', %(a)s"),
        ('SELECT ":no", :a', 'SELECT ":no", %(a)s'),
        ("SELECT $$ :no $$, $x$ :no $$ :no $x$, :a", None),
        ("SELECT :a -- as :no", "SELECT %(a)s -- as :no"),
        ("SELECT :a /* as :no\n:no */", "SELECT %(a)s /* as :no\n:no */"),
        ("SELECT :a % 7", "SELECT %(a)s %% 7"),
        ("SELECT :a LIKE '5%'", "SELECT %(a)s LIKE '5%%'"),
        ("SELECT x[1:2], :a", "SELECT x[1:2], %(a)s"),
        ("SELECT f(x := 1, y := :a)", "SELECT f(x := 1, y := %(a)s)"),
        ("SELECT 5 % 2, ':no'", "SELECT 5 % 2, ':no'"),
    ],
)
def test_parameters_are_found_and_nothing_else(written: str, sent: str | None) -> None:
    expected = written.replace(":a", "%(a)s") if sent is None else sent

    assert db.to_psycopg(written) == expected


def test_a_file_is_split_at_its_names() -> None:
    queries = db.parse(
        "-- Preface.\n\n-- name: one\nSELECT 1;\n\n-- name: two\nSELECT 2;"
    )

    assert {name: query.as_string() for name, query in queries.items()} == {
        "one": "SELECT 1;",
        "two": "SELECT 2;",
    }


def test_two_queries_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="named one"):
        db.parse("-- name: one\nSELECT 1\n-- name: one\nSELECT 2")


@pytest.mark.parametrize(
    "file",
    sorted(resources.path("sql", "queries").glob("*.sql")),
    ids=lambda it: it.stem,
)
def test_each_shipped_file_holds_queries(file: Path) -> None:
    assert list(db.Queries(file.stem))


def test_an_unknown_query_is_a_defect() -> None:
    with pytest.raises(KeyError):
        db.Queries("schema")["absent"]
