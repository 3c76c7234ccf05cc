"""Watch how everything stands: `pgbill status --watch`.

On a terminal it is one page that changes in place. Where nobody looks at a terminal, in
a log or a pipe, it is a line each time, or an object for programs. A database that goes
away for a moment is told and waited for: who watches wants to see what comes then.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pgbill.cli import output

if TYPE_CHECKING:
    from psycopg import Connection
    from rich.console import RenderableType

    from pgbill.status import Progress, Status

WORKERS = {
    "holder": "worker",
    "held": "leases",
    "expired": "expired",
    "longest": "longest",
    "renewed": "renewed before",
}
SLOW = {
    "account": "slow account",
    "for": "for",
    "holder": "by",
    "period_end": "period end",
    "attempts": "attempts",
    "expired": "expired",
}
_MINUTE = 60
_HOUR = 3_600


def watch(dsn: str, *, every_seconds: float, json: bool) -> None:
    """Look again and again, until Ctrl-C."""
    look = _Look(dsn)
    with contextlib.closing(look), _screen(json=json) as show:
        while True:
            show(look.at_it())
            time.sleep(every_seconds)


class _Look:
    """Looks, and connects again after the database was away."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: Connection[Any] | None = None
        # What is wrong from the beginning ends the command.
        self._connect()

    def close(self) -> None:
        """Disconnect."""
        if self._conn is not None:
            self._conn.close()

    def at_it(self) -> "Status | str":
        """Return how everything stands, or why that is not known."""
        import psycopg

        from pgbill import status
        from pgbill.errors import TemporaryError

        try:
            return status.read(self._conn or self._connect())
        except (TemporaryError, psycopg.OperationalError) as error:
            self.close()
            self._conn = None
            return f"the database is away: {str(error).strip().splitlines()[0]}"

    def _connect(self) -> "Connection[Any]":
        from pgbill import db, roles

        self._conn = db.connect(self._dsn, role=roles.READER, application="status")
        return self._conn


@contextlib.contextmanager
def _screen(*, json: bool) -> "Generator[Callable[[Status | str], None]]":
    if json:
        yield _show_object
    elif not sys.stdout.isatty():
        yield _show_line
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(), auto_refresh=False, screen=True) as live:

            def show_page(told: "Status | str") -> None:
                live.update(page(told), refresh=True)

            yield show_page


def _show_object(told: "Status | str") -> None:
    output.as_json_line({"problem": told} if isinstance(told, str) else told)
    sys.stdout.flush()


def _show_line(told: "Status | str") -> None:
    output.line(line(told))
    sys.stdout.flush()


def line(told: "Status | str") -> str:
    """Say in a line how everything stands."""
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}"
    if isinstance(told, str):
        return f"{now} {told}"
    leases = told.leases
    parts = [progress(each) for each in told.progress] or ["no run is open"]
    parts.append(
        f"due {leases.due_count}, held {leases.held_count} by"
        f" {len(told.workers)} workers, expired {leases.expired_count},"
        f" parked {leases.parked_count}, in review {leases.draft_count}"
    )
    if told.slow:
        slowest = told.slow[0]
        parts.append(f"slow: {slowest.account_key} for {duration(slowest.seconds)}")
    parts.append(f"open alerts {told.incident_count}")
    return f"{now} {'; '.join(parts)}"


def page(told: "Status | str") -> "RenderableType":
    """Lay all of it out for a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, Ctrl-C ends"
    if isinstance(told, str):
        return Group(Text(now), Text(told))
    parts: list[RenderableType] = [Text(now)]
    for each in told.progress:
        parts.append(Text(progress(each)))
        parts.append(ProgressBar(total=100, completed=each.percent, width=60))
    parts.append(Text(line(told).partition("Z ")[2]))
    if told.workers:
        parts += [Text(), output.grid(workers(told), WORKERS)]
    if told.slow:
        parts += [Text(), output.grid(slow(told), SLOW)]
    messages = ", ".join(f"{name}: {count}" for name, count in told.outbox.items())
    parts += [Text(), Text(f"Messages: {messages}.")]
    for alert in told.newest_alerts:
        parts.append(Text(f"alert {alert.alert_id}, {alert.kind}: {alert.summary}"))
    return Group(*parts)


def progress(run: "Progress") -> str:
    """Say how far a run is."""
    rest = "nothing moves"
    if run.seconds_left is not None:
        rest = f"{duration(run.seconds_left)} left"
    elif run.held_count:
        rest = f"waits for {output.count(run.held_count, 'lease')}"
    failed = f", {run.failed_count} failed" if run.failed_count else ""
    return (
        f"run {run.run_id}: {run.closed_count} done, {run.due_count} due"
        f" ({run.percent:.0f} %){failed}, {run.per_second:.1f}/s, {rest}"
    )


def workers(told: "Status") -> list[dict[str, object]]:
    """Return the rows of who holds leases."""
    return [
        {
            "holder": each.holder,
            "held": each.held_count,
            "expired": each.expired_count,
            "longest": duration(each.longest_seconds),
            "renewed": duration(each.renewed_seconds),
        }
        for each in told.workers
    ]


def slow(told: "Status") -> list[dict[str, object]]:
    """Return the rows of accounts that take long."""
    return [
        {
            "account": each.account_key,
            "for": duration(each.seconds),
            "holder": each.holder,
            "period_end": each.due_on,
            "attempts": each.attempts,
            "expired": "yes" if each.is_expired else "no",
        }
        for each in told.slow
    ]


def duration(seconds: float) -> str:
    """Write a length of time in the units that matter."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
