"""`pgbill migrate` and `pgbill check`: the database is as this pgbill needs it."""

import contextlib

import typer

from pgbill.cli import output
from pgbill.errors import SchemaError

commands = typer.Typer()


@commands.command()
def migrate() -> None:
    """Bring the database to this version of pgbill: all of it, or nothing.

    Safe to run twice, from two places at once, and beside a run. The login of
    PGBILL_DSN may create roles, or is a member of pgbill_owner.

    Example: pgbill migrate
    """
    from pgbill import config, schema, server

    if schema.migrate(server.dsn(config.load())):
        output.say("the database is at this version now.")
    else:
        output.say("the database was at this version already.")


@commands.command()
def check(*, json: output.AsJson = False) -> None:
    """Tell whether the database is as it must be; exit code 78 if it is not.

    Changes nothing. Reads PGBILL_DSN.

    Example: pgbill check
    """
    from pgbill import config, db, schema, server

    dsn = server.dsn(config.load())
    with contextlib.closing(db.connect(dsn, application="check")) as conn:
        results = schema.check(conn)
    rows = [
        {"what": each.what, "ok": each.problem is None, "problem": each.problem}
        for each in results
    ]
    if json:
        output.as_json(rows)
    else:
        for each in results:
            output.line(f"{each.what}: {each.problem or 'ok'}")
    if any(each.problem for each in results):
        raise typer.Exit(SchemaError.exit_code)
