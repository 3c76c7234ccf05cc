"""`pgbill account`: take an account out of all runs, and let it back in."""

from typing import Annotated

import typer

from pgbill.cli import output
from pgbill.cli.reason import checked
from pgbill.errors import UsageError

commands = typer.Typer(
    no_args_is_help=True, help="Take billing accounts out of runs, and back in."
)

_Account = Annotated[
    str, typer.Argument(metavar="ACCOUNT", help="The key of the billing account.")
]
_Reason = Annotated[str, typer.Option(help="Why; it is recorded with your name.")]


@commands.command()
def park(account: _Account, *, reason: _Reason) -> None:
    """Park an account: no run takes it until somebody unparks it.

    A worker that is invoicing it at this moment loses it, and writes nothing more.

    Example: pgbill account park A-1042 --reason "the contract is in dispute"
    """
    from pgbill import config, login, runs, server

    why = checked(reason)
    with runs.connected(server.dsn(config.load())) as conn:
        done = runs.park(conn, account, reason=why, by=login.who())
    if done:
        output.say(f"account {account} is parked.")
    else:
        output.say(f"account {account} is parked already; nothing has changed.")


@commands.command()
def unpark(account: _Account, *, reason: _Reason) -> None:
    """Unpark an account: the next run takes it, with all that is due for it today.

    Example: pgbill account unpark A-1042 --reason "settled"
    """
    from pgbill import config, login, runs, server

    why = checked(reason)
    with runs.connected(server.dsn(config.load())) as conn:
        found = runs.retry_parked(conn, account_key=account, reason=why, by=login.who())
    if not found:
        raise UsageError(f"account {account} is not parked.")
    output.say(f"account {account} is unparked: the next pgbill run takes it.")
