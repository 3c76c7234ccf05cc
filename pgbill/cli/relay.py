"""`pgbill relay`: empty the outbox."""

from typing import Annotated

import typer

from pgbill.cli import output

commands = typer.Typer()

_AWAY = 75


@commands.command()
def relay(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is due any more.")
    ] = False,
    connections: Annotated[
        int, typer.Option(min=1, max=32, help="Connections to the mail server.")
    ] = 4,
    json: output.AsJson = False,
) -> None:
    """Send the messages of issued invoices, until stopped or, with --once, done.

    Several relays may run at once. SIGTERM and Ctrl-C finish what is being sent and
    let go of the rest. Reads PGBILL_DSN, PGBILL_MODE, PGBILL_SMTP_HOST, _PORT, _TLS,
    _USERNAME and _PASSWORD, PGBILL_MAIL_FROM, PGBILL_MAIL_REDIRECT, PGBILL_MAIL_DIR,
    PGBILL_MAIL_TIMEOUT_SECONDS and PGBILL_RELAY_TTL_SECONDS; and PGBILL_ALERT_MAIL,
    the address that alerts are mailed to, many in one mail.

    Exit codes: 0 done, 1 messages failed or became uncertain (--once), 75 the mail
    server (--once) or the database is away.

    Example: pgbill relay --once
    """
    from dataclasses import asdict

    from pgbill import config, server
    from pgbill import relay as process

    settings = config.load()
    summary = process.run(
        settings,
        dsn=server.dsn(settings),
        once=once,
        connection_count=connections,
        say=output.say,
    )
    output.say(
        f"{summary.accepted} accepted, {summary.deferred} deferred,"
        f" {summary.failed} failed, {summary.uncertain} uncertain"
        f" in {summary.seconds:.1f} s."
    )
    if summary.left_of_other_mode:
        other = "test" if settings.mode == "live" else "live"
        output.say(
            f"{summary.left_of_other_mode} messages of {other} invoices are left:"
            f" PGBILL_MODE is {settings.mode}, and PGBILL_MAIL_REDIRECT is not set."
        )
    if summary.waiting:
        output.say(f"{summary.waiting} messages wait for the mail server.")
    if summary.alerts_mailed:
        output.say(f"alerts mailed: {summary.alerts_mailed}.")
    if json:
        output.as_json(asdict(summary))
    if once and (summary.waiting or summary.alerts_wait):
        raise typer.Exit(_AWAY)
    if once and (summary.failed or summary.uncertain):
        raise typer.Exit(1)
