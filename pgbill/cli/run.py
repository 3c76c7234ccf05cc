"""`pgbill run`: invoice all that is due."""

import sys
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pgbill.cli import output
from pgbill.errors import PgbillError, TemporaryError, UsageError

if TYPE_CHECKING:
    from pgbill.config import Settings
    from pgbill.request import Request
    from pgbill.summary import Summary
    from pgbill.supervision import Progress

commands = typer.Typer()
_PERCENT_AT_MOST = 1_000_000
_MOVED_BY = Decimal(20)


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 (only a day)
    except ValueError:
        message = f"{text!r} is not a date such as 2026-10-31."
        raise typer.BadParameter(message) from None


def _percent(text: str) -> Decimal:
    try:
        percent = Decimal(text)
    except InvalidOperation:
        percent = Decimal(-1)
    # Also not a number: it compares with nothing.
    if not percent.is_finite() or not 0 <= percent <= _PERCENT_AT_MOST:
        message = f"{text!r} is not a percentage such as 20."
        raise typer.BadParameter(message)
    return percent


@commands.command()
def run(
    *,
    through: Annotated[
        date | None,
        typer.Option(
            parser=_day,
            metavar="DATE",
            envvar="PGBILL_THROUGH",
            help="Bill every period that ended by this day, inclusive."
            " Default: yesterday in each account's zone.",
        ),
    ] = None,
    issue_on: Annotated[
        date | None,
        typer.Option(
            parser=_day,
            metavar="DATE",
            envvar="PGBILL_ISSUE_ON",
            help="Date the invoices so. Default: today in the seller's zone.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Worker processes. Default: PGBILL_WORKERS, else 8."
        ),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", envvar="PGBILL_ACCOUNT", help="Only this billing account."
        ),
    ] = None,
    hold_mail: Annotated[
        bool,
        typer.Option(
            "--hold-mail",
            help="Send nothing before pgbill outbox release.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only tell what it would come to, and how that differs from before.",
        ),
    ] = False,
    moved_by: Annotated[
        Decimal | None,
        typer.Option(
            parser=_percent,
            metavar="PERCENT",
            help="With --dry-run: tell of amounts that differ by more than this."
            " Default: 20.",
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --dry-run: write every period into this file."
        ),
    ] = None,
    json: output.AsJson = False,
) -> None:
    """Invoice all that is due: each account once for each billing period.

    Two runs at once join; a run that was killed continues when it is started again; a
    second run of a finished period does nothing. Exit code 1 if accounts could not be
    invoiced, 75 if the run was stopped, or lost the database or the tax service.

    With --dry-run nothing is issued: the amounts are those that the run then issues.
    Exit code 1 if some accounts could not be invoiced.

    Example: pgbill run --through 2026-10-31 --workers 8
    """
    from pgbill import billing, config, server
    from pgbill.request import Request

    settings = config.load()
    if settings.mode == "test":
        output.say("PGBILL_MODE is test: numbers of the test series, but real periods.")
    request = Request(
        through_on=through,
        issue_on=issue_on,
        workers=workers or settings.workers,
        account_key=account,
        hold_mail=hold_mail,
    )
    if csv is not None and not dry_run:
        raise UsageError("--csv goes with --dry-run.")
    if moved_by is not None and not dry_run:
        raise UsageError("--moved-by goes with --dry-run.")
    if dry_run:
        moved_percent = _MOVED_BY if moved_by is None else moved_by
        _rehearse(settings, request, moved_percent, csv, json=json)
        return
    with _progress() as bar:
        summary = billing.run(
            server.dsn(settings),
            settings,
            request,
            on_progress=bar.show,
            on_alert=bar.say,
        )
    _print(summary, json=json)
    if not summary.is_finished:
        raise typer.Exit(TemporaryError.exit_code)
    if summary.failed or summary.parked:
        raise typer.Exit(PgbillError.exit_code)


def _rehearse(
    settings: "Settings",
    request: "Request",
    moved_percent: Decimal,
    csv_file: Path | None,
    *,
    json: bool,
) -> None:
    from pgbill import dryrun, server
    from pgbill.cli import forecast

    with _progress() as bar:
        told = dryrun.dry_run(
            server.dsn(settings),
            settings,
            request,
            moved_percent=moved_percent,
            csv_file=csv_file,
            on_progress=bar.show,
        )
    forecast.show(told, json=json)
    if told.has_errors:
        raise typer.Exit(PgbillError.exit_code)


class _progress:  # noqa: N801
    """A progress bar on stderr, if a person looks at it."""

    def __enter__(self) -> "_progress":
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        # No refreshing thread: workers may be forked while the bar is shown.
        self._bar = Progress(
            TextColumn("invoicing"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[lost]}"),
            console=Console(stderr=True),
            auto_refresh=False,
            disable=not sys.stderr.isatty(),
        )
        self._bar.start()
        self._task = self._bar.add_task("run", total=None, lost="")
        return self

    def say(self, sentence: str) -> None:
        """Tell a person something, without spoiling the bar."""
        if self._bar.disable:
            output.say(sentence)
        else:
            text = Text(f"pgbill: {sentence}")
            self._bar.console.print(text, soft_wrap=True)

    def show(self, progress: "Progress") -> None:
        """Move the bar."""
        lost = f"{progress.lost} leases lost" if progress.lost else ""
        total = max(progress.due, progress.done)
        self._bar.update(self._task, completed=progress.done, total=total, lost=lost)
        self._bar.refresh()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _print(summary: "Summary", *, json: bool) -> None:
    if json:
        output.as_json(summary)
        return
    if summary.run_id is None:
        output.say(f"nothing is due.{_waiting(summary)}")
        return
    output.table(
        [
            {"what": "invoices issued", "count": summary.invoiced},
            {"what": "periods with nothing to bill", "count": summary.nothing_to_bill},
            {"what": "periods carried forward", "count": summary.carried_forward},
            {"what": "accounts that failed", "count": summary.failed},
            {"what": "accounts parked", "count": summary.parked},
            {"what": "drafts held for review", "count": summary.held},
            {"what": "leases lost", "count": summary.leases_lost},
            {"what": "still due", "count": summary.still_due},
        ],
        {"what": f"run {summary.run_id}", "count": ""},
    )
    if summary.totals:
        output.line("")
        output.table(
            [
                {
                    "currency": each.currency,
                    "invoices": each.invoices,
                    "net": each.net,
                    "tax": each.tax,
                    "gross": each.gross,
                }
                for each in summary.totals
            ],
            {
                "currency": "currency",
                "invoices": "invoices",
                "net": "net",
                "tax": "tax",
                "gross": "gross",
            },
        )
    for each in summary.failures:
        output.say(f"account {each.account_key} {each.outcome}: {each.reason}")
    if summary.failed + summary.parked > len(summary.failures):
        output.say(f"… and more: pgbill runs show {summary.run_id} lists them.")
    if not summary.is_finished:
        output.say(
            f"stopped after {summary.seconds:.1f} s;"
            f" {output.count(summary.still_due, 'account is', 'accounts are')}"
            " still due: the same command continues."
        )
    else:
        output.say(f"done in {summary.seconds:.1f} s.{_waiting(summary)}")
    if summary.holds_mail and summary.invoiced:
        output.say(
            f"its mail is held: pgbill outbox release --run {summary.run_id} sends it."
        )


def _waiting(summary: "Summary") -> str:
    """Say what waits for a person."""
    told = ""
    if count := summary.parked_before:
        parked = output.count(count, "account is", "accounts are")
        told += f" {parked} parked: see pgbill runs retry."
    if count := summary.in_review:
        held = output.count(count, "account waits", "accounts wait")
        told += f" {held} for a review: see pgbill draft list."
    return told
