"""Connect to PostgreSQL, and run the named queries of `sql/queries/`.

Every connection looks the same: no JIT (it compiles for longer than our queries run),
UTC, a name that `pg_stat_activity` shows, keepalives that notice a vanished peer. SQL
lives in files, one for each module that calls it, with psql's `:param` notation, so
that it can be pasted into psql and read by editors; here it becomes psycopg's
`%(param)s`. What the database refuses becomes one of our errors in one place.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg import Connection, conninfo, sql
from psycopg import errors as pg_errors
from psycopg.rows import TupleRow, class_row

from pgbill import resources
from pgbill.errors import (
    ConfigError,
    PgbillError,
    RefusalError,
    SchemaError,
    TemporaryError,
)

Row = TypeVar("Row")

_DEFAULTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_OPTIONS = "-c jit=off -c TimeZone=UTC"

# libpq gives no SQLSTATE for a failed connection, and these do not pass by waiting.
_FOR_A_PERSON = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry"
    r"|is not permitted to log in|permission denied"
    # psycopg asks for the address itself: no such name, on Linux and elsewhere.
    r"|failed to resolve host .*\[Errno (-2|8)\]"
)


def connect(
    dsn: str, *, role: str | None = None, autocommit: bool = True, application: str
) -> Connection[TupleRow]:
    """Open a connection, as `role` if one is given.

    Args:
        dsn: A connection string or URI. What it says wins over our defaults.
        role: One of pgbill's roles; the login must be a member or a superuser.
        autocommit: If false, each statement opens a transaction that the caller ends.
        application: What `pg_stat_activity` shows, after "pgbill".

    Raises:
        TemporaryError: The server cannot be reached.
        ConfigError: It can, and turns us away.
    """
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"the DSN is not valid: {_first_line(error)}.") from None
    parameters = {**_DEFAULTS, "application_name": f"pgbill {application}", **given}
    parameters["options"] = f"{_OPTIONS} {given.get('options') or ''}".strip()
    try:
        conn = psycopg.connect(autocommit=True, **cast("dict[str, Any]", parameters))
    except psycopg.OperationalError as error:
        raise _unreachable(error) from error
    try:
        if role is not None:
            set_role(conn, role)
        conn.autocommit = autocommit
    except BaseException:
        conn.close()
        raise
    return conn


def set_role(conn: Connection[Any], role: str) -> None:
    """Act as `role` from here on.

    Raises:
        SchemaError: The role is missing, so nothing has been migrated here.
        ConfigError: The login is not a member of the role.
    """
    try:
        conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
    except pg_errors.InvalidParameterValue as error:
        raise SchemaError(
            f"the database has no role {role}.", hint="Run pgbill migrate."
        ) from error
    except pg_errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"the login {conn.info.user} may not act as {role}.",
            hint=f"Have an administrator run: GRANT {role} TO {conn.info.user}.",
        ) from error


def _unreachable(error: psycopg.OperationalError) -> PgbillError:
    what = f"cannot reach the database: {_first_line(error)}."
    if _FOR_A_PERSON.search(str(error)):
        return ConfigError(what, hint="Check PGBILL_DSN.")
    return TemporaryError(what, hint="Check that the server runs, then try again.")


def _first_line(error: Exception) -> str:
    line = str(error).strip().splitlines()[0]
    return re.sub(r"^connection (failed|is bad): ", "", line).rstrip(".")


_REFUSALS = {refusal.sqlstate: refusal for refusal in RefusalError.__subclasses__()}


def translate(error: psycopg.Error) -> PgbillError | None:
    """Turn an error of the database into ours, or into none if it is a defect."""
    state = error.diag.sqlstate or error.sqlstate or ""
    message = error.diag.message_primary or _first_line(error)
    if state.startswith("IV"):
        refusal = _REFUSALS.get(state, RefusalError)
        return refusal(message, hint=error.diag.message_hint)
    if isinstance(error, pg_errors.InsufficientPrivilege):
        return ConfigError(f"{message}.", hint="Check the login's roles: pgbill check.")
    if isinstance(error, pg_errors.UndefinedTable | pg_errors.UndefinedFunction):
        return SchemaError(f"{message}.", hint="Run pgbill migrate.")
    if isinstance(error, psycopg.OperationalError):
        return TemporaryError(f"the database gave up: {message}.")
    return None


@contextmanager
def refusals() -> Generator[None]:
    """Raise the database's refusals as `RefusalError`, with their message and hint."""
    try:
        yield
    except psycopg.Error as error:
        translated = translate(error)
        if isinstance(translated, RefusalError):
            raise translated from error
        raise


# What may hold a colon or a percent sign that is no parameter, then the parameter.
_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*'                # string
    | "(?:[^"]|"")*"                # quoted name
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$   # dollar-quoted string
    | --[^\n]*                      # comment
    | /\*.*?\*/                     # comment
    | ::                            # cast
    | :(?P<param>[a-z_][a-z0-9_]*)  # parameter
    | %
    """,
    re.VERBOSE | re.DOTALL,
)
_SECTION = re.compile(r"^-- name: *(\w+) *$", re.MULTILINE)


class Queries:
    """The named queries of `sql/queries/<module>.sql`."""

    def __init__(self, module: str) -> None:
        """Name the file; it is read when the first query is asked for."""
        self.path = resources.path("sql", "queries", f"{module}.sql")

    def __getitem__(self, name: str) -> sql.SQL:
        """Return the query of that name, ready for psycopg."""
        return self._queries[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names, in the order of the file."""
        return iter(self._queries)

    @cached_property
    def _queries(self) -> dict[str, sql.SQL]:
        return parse(self.path.read_text(encoding="utf-8"))


def parse(text: str) -> dict[str, sql.SQL]:
    """Split a file at its `-- name:` lines, and put psycopg's placeholders in.

    Raises:
        ValueError: Two queries have the same name.
    """
    pieces = _SECTION.split(text)
    queries: dict[str, sql.SQL] = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if name in queries:
            raise ValueError(f"two queries are named {name}")
        # The files are part of the program, as literal as its strings.
        queries[name] = sql.SQL(cast("LiteralString", to_psycopg(body.strip())))
    return queries


def to_psycopg(query: str) -> str:
    """Turn `:param` into `%(param)s`, outside strings, casts and comments.

    A query without parameters is sent as it stands, so its percent signs stay single.
    """
    if not any(match["param"] for match in _TOKEN.finditer(query)):
        return query

    def placeholder(match: re.Match[str]) -> str:
        if match["param"]:
            return f"%({match['param']})s"
        return match[0].replace("%", "%%")

    return _TOKEN.sub(placeholder, query)


def fetch_all(
    conn: Connection[Any], query: sql.SQL, row: type[Row], /, **params: object
) -> list[Row]:
    """Run a query and return its rows, each as a `row` built by column name."""
    with refusals(), conn.cursor(row_factory=class_row(row)) as cursor:
        return cursor.execute(query, params or None).fetchall()


def fetch_one(
    conn: Connection[Any], query: sql.SQL, row: type[Row], /, **params: object
) -> Row | None:
    """Run a query and return its first row, or none if there is none."""
    with refusals(), conn.cursor(row_factory=class_row(row)) as cursor:
        return cursor.execute(query, params or None).fetchone()


def execute(conn: Connection[Any], query: sql.SQL, /, **params: object) -> int:
    """Run a statement and return how many rows it touched."""
    with refusals():
        return conn.execute(query, params or None).rowcount
