"""Load a file into a temporary table, by COPY, in memory that does not grow with it.

The table belongs to the connection and to no transaction of ours: while a producer is
slow at the other end of a pipe, nothing is locked and no import waits for us. It is
dropped when the import ends, whatever its end.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, errors, sql

from pgbill import db, reading
from pgbill.column import Column
from pgbill.problem import Problem, Problems
from pgbill.reading import Source

OnProgress = Callable[[int], None]

_PROGRESS_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class Layout:
    """How a kind of file becomes rows.

    Attributes:
        columns: Those of the file.
        queries: Among them `create`, which makes the staging table, and `drop`.
        table: The staging table; `line` is its first column.
    """

    columns: Sequence[Column]
    queries: db.Queries
    table: str


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that has been loaded, and what was found wrong so far."""

    read_count: int
    problems: Problems

    def refuse(self, found: list["Found"]) -> None:
        """Add what SQL has found, and refuse the file if anything is wrong.

        Raises:
            BadInputError: With everything.
        """
        self.note(found)
        self.problems.refuse()

    def note(self, found: list["Found"]) -> None:
        """Add what SQL has found: the file is refused later, with all that is wrong."""
        self.problems.merge(
            [Problem(each.line, each.column_name, each.reason) for each in found],
            count=found[0].problem_count if found else 0,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A problem that a query has found, and how many it has found in all."""

    line: int
    column_name: str
    reason: str
    problem_count: int


@dataclass(frozen=True, slots=True)
class Count:
    """What a query has counted."""

    count: int


@dataclass(frozen=True, slots=True)
class Written:
    """How much of a file was new, how much had changed, how much neither."""

    new_count: int
    changed_count: int
    unchanged_count: int


@contextmanager
def loaded(
    conn: Connection[Any],
    layout: Layout,
    source: Source,
    on_progress: OnProgress | None = None,
) -> Generator[Staged]:
    """Load a file, and drop what was loaded at the end.

    What cannot be loaded is in the problems, which the caller must refuse.

    Raises:
        InputError: The file cannot be read to its end.
    """
    problems = Problems(source.name)
    try:
        with conn.transaction():
            conn.execute(layout.queries["create"])
            read_count = _copy(conn, layout, source, problems, on_progress)
        conn.execute(sql.SQL("ANALYZE pg_temp.{}").format(sql.Identifier(layout.table)))
        yield Staged(read_count, problems)
    finally:
        # If the connection is lost, so is the table.
        if not conn.broken:
            with contextlib.suppress(errors.InFailedSqlTransaction):
                conn.execute(layout.queries["drop"])


def _copy(
    conn: Connection[Any],
    layout: Layout,
    source: Source,
    problems: Problems,
    on_progress: OnProgress | None,
) -> int:
    targets = ["line", *(column.target for column in layout.columns)]
    query = sql.SQL("COPY pg_temp.{} ({}) FROM STDIN").format(
        sql.Identifier(layout.table),
        sql.SQL(", ").join(map(sql.Identifier, targets)),
    )
    count = 0
    with conn.cursor() as cursor, cursor.copy(query) as copy:
        for line, row in reading.records(source, layout.columns, problems):
            count += 1
            if row is not None:
                copy.write_row((line, *row))
            if on_progress is not None and count % _PROGRESS_RECORDS == 0:
                on_progress(count)
    return count
