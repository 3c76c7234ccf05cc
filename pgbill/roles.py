"""Keep the three roles that the rights in the database are given to.

`pgbill_owner` owns everything and migrates, `pgbill_worker` reads and calls the
protocol, `pgbill_reader` reads. None can log in: logins are members. Roles belong to
the whole cluster, so another database may be creating the same ones at this moment.
"""

from typing import Any

from psycopg import Connection, errors, sql

from pgbill.errors import ConfigError

OWNER = "pgbill_owner"
WORKER = "pgbill_worker"
READER = "pgbill_reader"
ALL = (OWNER, WORKER, READER)


def ensure(conn: Connection[Any]) -> None:
    """Create the roles that are missing, and make the login a member of each.

    `conn` is in autocommit mode. What is there already stays; a lost race is fine.

    Raises:
        ConfigError: The login may not; the message says what an administrator must run.
    """
    for role in ALL:
        try:
            _create(conn, role)
            _join(conn, role)
        except errors.InsufficientPrivilege as error:
            user = conn.info.user
            raise ConfigError(
                f"the login {user} may not create or join the role {role}.",
                hint=f"Have an administrator run: CREATE ROLE {role}; GRANT {role} TO"
                f" {user}; and the same for {', '.join(ALL)}.",
            ) from error


def may_act_as(conn: Connection[Any], role: str) -> bool:
    """Tell whether the login can `SET ROLE`; versions differ in how to ask, so try."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
    except (errors.InsufficientPrivilege, errors.InvalidParameterValue):
        return False
    return True


def find_problem(conn: Connection[Any]) -> str | None:
    """Say which roles the login cannot act as, or return none if it can as all."""
    closed = [role for role in ALL if not may_act_as(conn, role)]
    if not closed:
        return None
    return f"the login {conn.info.user} cannot act as {', '.join(closed)}."


def _create(conn: Connection[Any], role: str) -> None:
    query = "SELECT FROM pg_catalog.pg_roles WHERE rolname = %s"
    if conn.execute(query, [role]).rowcount == 0:
        try:
            conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        except (errors.DuplicateObject, errors.UniqueViolation):
            return


def _join(conn: Connection[Any], role: str) -> None:
    if not may_act_as(conn, role):
        grant = sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role))
        try:
            conn.execute(grant)
        except (errors.InternalError_, errors.UniqueViolation):
            # "Tuple concurrently updated": somebody grants it at this moment.
            if not may_act_as(conn, role):
                raise
