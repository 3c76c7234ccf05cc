"""`pgbill outbox`: look at messages, and decide what only a person can."""

import contextlib
from collections.abc import Generator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from pgbill.cli import output
from pgbill.cli.reason import checked
from pgbill.errors import UsageError

if TYPE_CHECKING:
    from psycopg import Connection

    from pgbill.outbox import MessageState, State

commands = typer.Typer(help="The messages that deliver invoices, and how they stand.")

MessageId = Annotated[
    int,
    typer.Argument(min=1, max=2**63 - 1, help="As shown by pgbill outbox list."),
]
Reason = Annotated[str, typer.Option(help="Why; it is recorded with your name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]

_COLUMNS = {
    "message_id": "message",
    "account_key": "account",
    "number_text": "number",
    "address": "address",
    "state": "state",
    "attempt_count": "attempts",
    "last_attempt_at": "last attempt",
    "due_at": "due",
    "reply": "reply",
}
_ATTEMPT_COLUMNS = {
    "attempt_no": "attempt",
    "begun_at": "begun",
    "sent_to": "sent to",
    "holder": "relay",
    "outcome": "outcome",
    "reply": "reply",
    "recorded_by": "recorded by",
    "recorded_at": "recorded",
}


@contextlib.contextmanager
def _connection() -> "Generator[Connection[Any]]":
    from pgbill import config, db, schema, server

    dsn = server.dsn(config.load())
    with contextlib.closing(
        db.connect(dsn, role="pgbill_worker", application="outbox")
    ) as conn:
        schema.require_current(conn)
        yield conn


@commands.command("list")
def list_(
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="held, pending, claimed, deferred, accepted, failed or uncertain."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="At most so many.")
    ] = 100,
    json: output.AsJson = False,
) -> None:
    """List messages, the newest first.

    Example: pgbill outbox list --state uncertain
    """
    from pgbill import outbox

    with _connection() as conn:
        found = outbox.states(conn, state=_state(state), limit=limit)
    rows = [_row(each) for each in found]
    output.table(rows, _COLUMNS if not json else _json_columns(), json=json)
    if len(rows) == limit and not json:
        output.say(f"only the newest {limit} are shown; --limit shows more.")


@commands.command()
def show(message_id: MessageId, *, json: output.AsJson = False) -> None:
    """Show a message and its attempts.

    Example: pgbill outbox show 4711
    """
    from pgbill import outbox

    with _connection() as conn:
        message = _find(conn, message_id)
        attempts = outbox.attempts(conn, message)
    if json:
        rows = [asdict(each) for each in attempts]
        output.as_json({**asdict(message), "attempts": rows})
        return
    facts = {**_row(message), "mode": message.mode, "channel": message.channel}
    for name in ("retry_of", "retry_reason", "retried_by", "retried_as"):
        facts[name] = getattr(message, name)
    output.table(
        [
            {"name": _COLUMNS.get(name, name.replace("_", " ")), "value": value}
            for name, value in facts.items()
            if value is not None
        ],
        {"name": "", "value": ""},
    )
    if attempts:
        output.line("")
        output.table(
            [{**_times(asdict(each)), "reply": _reply(each)} for each in attempts],
            _ATTEMPT_COLUMNS,
        )


@commands.command()
def resolve(
    message_id: MessageId,
    *,
    taken: Annotated[
        bool,
        typer.Option("--taken/--not-taken", help="Whether the mail server took it."),
    ],
    reason: Reason,
    dry_run: DryRun = False,
) -> None:
    """Say what became of a message that is uncertain.

    A relay died, or lost its connection, after it had sent the message and before it
    had the reply. Look into the log of the mail server, or ask the recipient. A
    message that was taken is closed; one that was not is sent again.

    Example: pgbill outbox resolve 4711 --not-taken --reason "not in the server's log"
    """
    from pgbill import outbox

    why = checked(reason)
    with _connection() as conn:
        message = _find(conn, message_id)
        if message.state != "uncertain":
            raise UsageError(f"message {message_id} is {message.state}, not uncertain.")
        kind = "accepted" if taken else "deferred"
        what = f"message {message_id}, attempt {message.attempt_count}: {kind}"
        if dry_run:
            output.say(f"{what} would be recorded.")
            return
        recorded = outbox.record_outcome(
            conn,
            message,
            outbox.Outcome(kind, why),
            attempt_no=message.attempt_count,
            recorded_by=outbox.person(),
        )
        if recorded is None:
            now = _find(conn, message_id).state
            raise UsageError(f"an outcome was recorded meanwhile: it is {now} now.")
    output.say(f"{what} is recorded.")


@commands.command()
def retry(
    message_id: MessageId,
    *,
    reason: Reason,
    to: Annotated[
        str | None, typer.Option(help="Another address; the account keeps its own.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Try a message that has failed once more, as a new message.

    The account keeps its address for the next invoice: import it corrected.

    Example: pgbill outbox retry 4711 --to ap@example.com --reason "address mistyped"
    """
    from pgbill import address, outbox

    why = checked(reason)
    try:
        if to is not None:
            address.check(to)
    except ValueError as error:
        raise UsageError(f"--to is wrong: {error}.") from error
    with _connection() as conn:
        message = _find(conn, message_id)
        if message.state != "failed":
            raise UsageError(f"message {message_id} is {message.state}, not failed.")
        if message.retried_as is not None:
            raise UsageError(
                f"message {message_id} was retried as {message.retried_as} already."
            )
        what = f"a new message with {message.number_text} to {to or message.address}"
        if dry_run:
            output.say(f"{what} would be written.")
            return
        new_id = outbox.retry(
            conn,
            message,
            address=to,
            reason=why,
            retried_by=outbox.person(),
        )
        if new_id is None:
            raise UsageError(f"message {message_id} was retried meanwhile.")
    output.say(f"{what} is written: message {new_id}.")


@commands.command()
def release(
    *,
    run: Annotated[
        int,
        typer.Option(
            min=1, max=2**63 - 1, help="Which run, as shown by pgbill runs list."
        ),
    ],
    dry_run: DryRun = False,
    json: output.AsJson = False,
) -> None:
    """Send the mail that a run has held: pgbill run --hold-mail.

    The run must have ended. The relay takes the messages from then on.

    Example: pgbill outbox release --run 12
    """
    from pgbill import outbox

    with _connection() as conn:
        count = outbox.release_held(conn, run, by=outbox.person(), dry_run=dry_run)
    if json:
        output.as_json({"run_id": run, "messages": count, "dry_run": dry_run})
    if not count:
        output.say(f"run {run} holds no message: nothing was to be released.")
        return
    are = "would be" if dry_run else "is" if count == 1 else "are"
    output.say(f"{output.count(count, 'message')} of run {run} {are} released.")


def _find(conn: "Connection[Any]", message_id: int) -> "MessageState":
    from pgbill import outbox

    found = outbox.states(conn, message_id=message_id, limit=1)
    if not found:
        raise UsageError(f"there is no message {message_id}.")
    return found[0]


def _state(text: str | None) -> "State | None":
    from pgbill.outbox import State

    known: tuple[State, ...] = get_args(State)
    if text is None:
        return None
    for state in known:
        if text == state:
            return state
    raise UsageError(f"--state is one of {', '.join(known)}.")


def _json_columns() -> dict[str, str]:
    from pgbill.outbox import MessageState

    return dict.fromkeys(MessageState.__dataclass_fields__, "")


def _row(message: "MessageState") -> dict[str, object]:
    """Return what a table shows of a message, beside all that JSON has."""
    return _times(asdict(message)) | {"reply": _reply(message)}


def _times(row: dict[str, Any]) -> dict[str, object]:
    from datetime import datetime

    return {
        name: f"{value:%Y-%m-%d %H:%M:%S}Z" if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _reply(answered: Any) -> str | None:  # noqa: ANN401
    if answered.reply_text is None:
        return None
    code = "" if answered.reply_code is None else f"{answered.reply_code} "
    return " ".join(f"{code}{answered.reply_text}".split())
