"""`pgbill invoice credit`, `cancel` and `reissue`: correct what was issued."""

import contextlib
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgbill.cli import corrected, output
from pgbill.cli.reason import checked
from pgbill.errors import PgbillError, TemporaryError, UsageError

if TYPE_CHECKING:
    from psycopg import Connection

    from pgbill.bulk import Outcome
    from pgbill.correction import Correction, Order, Taking
    from pgbill.invoice import Header

commands = typer.Typer()

_AMOUNT = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_LINE_LIMIT = 2**31 - 1
_SHOWN_CHARACTERS = 40

Number = Annotated[str, typer.Argument(help="As printed: NL-000042.")]
SomeNumber = Annotated[
    str | None, typer.Argument(metavar="NUMBER", help="As printed: NL-000042.")
]
Reason = Annotated[
    str, typer.Option(metavar="TEXT", help="Why. It is kept, with your name.")
]
Seller = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Needed if several sellers use the number."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be issued; issue nothing.")
]
File = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Correct all that a CSV file names: column number, perhaps seller.",
    ),
]


@commands.command()
def credit(
    number: Number,
    *,
    line: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Only this line; may be given several times."),
    ] = None,
    amount: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AMOUNT",
            help="So much: of the --line before it, as the line shows it; without"
            " --line, of the whole invoice, with tax.",
        ),
    ] = None,
    reason: Reason,
    seller: Seller = None,
    dry_run: DryRun = False,
    json: output.AsJson = False,
) -> None:
    """Issue a credit note for an invoice: all that is left of it, or a part.

    Tax is that of the invoice. Never more is credited than is left; credit notes that
    take all of it are, together, exactly the invoice. Exit code 75 if a run is
    working on the account. Reads PGBILL_DSN.

    Example: pgbill invoice credit NL-000042 --line 2 --amount 15.00
    --reason "counted twice"
    """
    _require_lines(number, line or [])
    takings, whole = _asked(line or [], [_amount(each) for each in amount or []])

    def act(conn: "Connection[Any]", head: "Header", order: "Order") -> "Correction":
        from pgbill import correction

        return correction.credit(conn, head, order, takings=takings, amount=whole)

    _correct_one(act, number, seller, _order(reason, dry_run=dry_run), json=json)


@commands.command()
def cancel(
    number: SomeNumber = None,
    *,
    file: File = None,
    reason: Reason,
    seller: Seller = None,
    dry_run: DryRun = False,
    json: output.AsJson = False,
) -> None:
    """Cancel an invoice: credit all that is left of it. It does not hold any more.

    What it has billed is not billed again, unless it is issued again. With --from, an
    invoice that is cancelled already is passed by. Reads PGBILL_DSN.

    Example: pgbill invoice cancel NL-000042 --reason "wrong customer"
    """

    def act(conn: "Connection[Any]", head: "Header", order: "Order") -> "Correction":
        from pgbill import correction

        return correction.cancel(conn, head, order)

    from pgbill import invoice

    order = _order(reason, dry_run=dry_run)
    if _is_one(number, file, seller):
        _correct_one(act, str(number), seller, order, json=json)
        return
    with _connected() as conn:
        _correct_all(
            conn,
            str(file),
            lambda head: act(conn, head, order),
            is_done=lambda head: invoice.is_cancelled(conn, head),
            json=json,
        )


@commands.command()
def reissue(
    number: SomeNumber = None,
    *,
    file: File = None,
    reason: Reason,
    seller: Seller = None,
    dry_run: DryRun = False,
    json: output.AsJson = False,
) -> None:
    """Issue an invoice again with what is known today; cancel it if it is not.

    Its period is billed anew, with today's subscriptions, prices, address and policies,
    and with the usage that it had seen: later usage is for the next invoice. With
    --from, an invoice that was issued again already is passed by. Reads PGBILL_DSN,
    and PGBILL_TAX_URL as pgbill run does.

    Example: pgbill invoice reissue --from wrong.csv --dry-run --reason "new address"
    """
    from pgbill import config, invoice, reissue, taxprovider

    order = _order(reason, dry_run=dry_run)
    is_one = _is_one(number, file, seller)
    service = taxprovider.chosen(config.load())
    with reissue.opened(service) as reissuing:
        if is_one:
            _correct_one(reissuing.reissue, str(number), seller, order, json=json)
            return
        with _connected() as conn:
            _correct_all(
                conn,
                str(file),
                lambda head: reissuing.reissue(conn, head, order),
                is_done=lambda head: invoice.is_issued_again(conn, head),
                json=json,
            )


def _is_one(number: str | None, file: str | None, seller: str | None) -> bool:
    if (number is None) == (file is None):
        raise UsageError("give the number of one invoice, or --from FILE.")
    if file is not None and seller is not None:
        raise UsageError("--seller goes with a number; a file has a column seller.")
    return number is not None


def _order(reason: str, *, dry_run: bool) -> "Order":
    from pgbill import login
    from pgbill.correction import Order

    return Order(checked(reason), login.who(), dry_run)


def _amount(text: str) -> Decimal:
    """Read an amount; how many decimals its currency has, the database knows."""
    if not _AMOUNT.fullmatch(text):
        shown = (
            text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        )
        raise UsageError(f"{shown} is not an amount, such as 15.00.")
    return Decimal(text)


def _require_lines(number: str, lines: list[int]) -> None:
    """Refuse what the database has no number for."""
    for each in lines:
        if each > _LINE_LIMIT:
            raise UsageError(f"{number} has no line {each}.")


def _asked(
    lines: list[int], amounts: list[Decimal]
) -> tuple[list["Taking"] | None, Decimal | None]:
    """Pair lines and amounts, in their order; or return the amount of it all."""
    from pgbill.correction import Taking

    if not lines and len(amounts) <= 1:
        return None, next(iter(amounts), None)
    if len(amounts) not in (0, len(lines)):
        raise UsageError(
            "give one --amount for each --line, or none to credit them whole."
        )
    if not amounts:
        return [Taking(each) for each in lines], None
    return [Taking(*each) for each in zip(lines, amounts, strict=True)], None


@contextmanager
def _connected() -> "Generator[Connection[Any]]":
    from pgbill import config, db, roles, schema, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role=roles.WORKER, application="correction")
    ) as conn:
        schema.require_current(conn)
        yield conn


def _correct_one(
    act: "Callable[[Connection[Any], Header, Order], Correction]",
    number: str,
    seller: str | None,
    order: "Order",
    *,
    json: bool,
) -> None:
    from pgbill import invoice

    with _connected() as conn:
        done = act(conn, invoice.header(conn, number, seller=seller), order)
    if json:
        output.as_json({**_plain(done), "difference_amount": done.difference_amount})
    else:
        corrected.show(done)


def _plain(done: "Correction") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(done)


def _correct_all(
    conn: "Connection[Any]",
    file: str,
    act: "Callable[[Header], Correction]",
    *,
    is_done: "Callable[[Header], bool]",
    json: bool,
) -> None:
    """Correct what a file names; exit 1 if some are refused, 75 if some must wait."""
    from pgbill import bulk

    heads = bulk.read(conn, file)
    outcomes: list[Outcome] = []
    for each in bulk.correct(heads, act, is_done=is_done):
        outcomes.append(each)
        if each.reason is not None:
            output.say(f"{each.number} {each.state}: {each.reason.rstrip('.')}.")
    if json:
        output.as_json(outcomes)
    else:
        corrected.show_all(outcomes)
    states = {each.state for each in outcomes}
    if "refused" in states:
        raise typer.Exit(PgbillError.exit_code)
    if states & {"busy", "put off"}:
        raise typer.Exit(TemporaryError.exit_code)
