"""`pgbill server`: look at the embedded server, and stop it."""

import typer

from pgbill.cli import output

commands = typer.Typer(
    help="The embedded PostgreSQL server, which is used when PGBILL_DSN is not set."
)


@commands.command()
def status(*, json: output.AsJson = False) -> None:
    """Tell whether the embedded server runs, and where.

    It is started by the first command that needs it. Reads PGBILL_DATA_DIR.

    Example: pgbill server status
    """
    from pgbill import config, server

    found = server.status(config.load())
    if json:
        output.as_json(found)
        return
    megabytes = found.size_bytes / 1_000_000
    rows = [
        ("state", "running" if found.running else "stopped"),
        ("version", f"PostgreSQL {found.version}"),
        ("data", found.data_dir),
        ("pid", found.pid),
        ("socket", found.socket_dir),
        ("dsn", found.dsn),
        ("size", f"{megabytes:,.0f} MB"),
    ]
    output.table(
        [{"name": name, "value": value} for name, value in rows],
        {"name": "", "value": ""},
    )


@commands.command()
def stop() -> None:
    """Stop the embedded server; the next command that needs it starts it again.

    Commands that are running lose their connection. Reads PGBILL_DATA_DIR.

    Example: pgbill server stop
    """
    from pgbill import config, server

    settings = config.load()
    if server.stop(settings):
        output.say(f"stopped the embedded PostgreSQL in {settings.data_dir}.")
    else:
        output.say("the embedded PostgreSQL does not run.")
