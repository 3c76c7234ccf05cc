"""`pgbill catalog`: sellers, meters, prices and tax rates, as a file declares them."""

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from pgbill.cli import output

if TYPE_CHECKING:
    from pgbill.difference import Change

commands = typer.Typer(
    help="Sellers, meters, prices and tax rates, as a file declares them.",
    no_args_is_help=True,
)


@commands.callback()
def catalog() -> None:
    """Keep `apply` a command of its group, though it is alone there."""


@commands.command()
def apply(
    file: Annotated[str, typer.Argument(help="The file, in TOML.")],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would change.")
    ] = False,
    json: output.AsJson = False,
) -> None:
    """Bring the catalog to what a file declares; print what changes first.

    What the file does not name stays. A price is never edited: a new amount is a new
    version. Exit code 2 if the file holds something wrong. Reads PGBILL_DSN.

    Example: pgbill catalog apply catalog.toml
    """
    from pgbill import catalog, config, db, roles, schema, server

    def announce(changes: "list[Change]") -> None:
        _print(changes, json=json)

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.OWNER, application="catalog apply")
    ) as conn:
        schema.require_current(conn)
        changes = catalog.apply(conn, file, is_dry_run=dry_run, announce=announce)
    if changes:
        output.say("nothing was changed: --dry-run." if dry_run else "applied.")


def _print(changes: "list[Change]", *, json: bool) -> None:
    if not changes and not json:
        output.line("no change")
        return
    rows = [
        {
            "what": each.what,
            "key": each.key,
            "change": each.change,
            "detail": each.detail,
        }
        for each in changes
    ]
    columns = {"what": "What", "key": "Key", "change": "Change", "detail": ""}
    output.table(rows, columns, json=json)
