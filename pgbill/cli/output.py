"""Print: data on stdout, for a person or a program, and everything else on stderr.

A person gets a table, a program (`--json`) gets JSON with the same names. Decimals are
strings in JSON, since money must not become a float on the way.
"""

import csv as comma_separated
import errno
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from pgbill import resources
from pgbill.errors import PgbillError, UsageError

INTERRUPTED = 130
_UNLIMITED = 10_000
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class Commands(TyperGroup):
    """A group of commands that ends with one sentence when a command fails."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command, and turn our errors into a sentence and an exit code."""
        try:
            return self._invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            known = _known(error)
            if known is None:
                raise
            say(str(known))
            raise typer.Exit(known.exit_code) from error

    def _invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        result = super().invoke(ctx)
        # A full disk is to be told here, and not by Python at its end.
        sys.stdout.flush()
        return result


def _known(error: Exception) -> PgbillError | None:
    """Return our error, or the one that an error from outside amounts to."""
    if isinstance(error, PgbillError):
        return error
    if isinstance(error, UnicodeEncodeError) and error.encoding == "utf-8":
        return UsageError("an argument holds bytes that are not UTF-8.")
    if isinstance(error, OSError) and error.errno in _FULL:
        return PgbillError(f"the output cannot be written: {error.strerror}.")
    if isinstance(error, FileNotFoundError):
        return resources.missing(error)
    # Only a command that has imported the driver can fail in it.
    if "psycopg" not in sys.modules:
        return None
    import psycopg

    from pgbill import db

    return db.translate(error) if isinstance(error, psycopg.Error) else None


def replace_closed_streams() -> None:
    """Open /dev/null for the streams that are closed, as some daemons leave them.

    In the order of their numbers: whatever is opened takes the lowest, and a connection
    must not become stdout.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, opened)


def say(message: str) -> None:
    """Tell a person something, on stderr, after the program's name."""
    sys.stderr.write(f"pgbill: {message}\n")
    sys.stderr.flush()


def write_what_the_terminal_can() -> None:
    """Escape characters that the encoding of stdout or stderr does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def whisper(message: str) -> None:
    """Tell a person something, on stderr, as it stands."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def count(number: int, one: str, many: str | None = None) -> str:
    """Write how many: 1 draft is, 2 drafts are; the plural of one word has an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def a(noun: str) -> str:
    """Put the article before a noun: an invoice, a credit note."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def line(text: str) -> None:
    """Print a line of data on stdout."""
    sys.stdout.write(f"{text}\n")


def data(content: bytes) -> None:
    """Print bytes on stdout, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)


def as_json_line(data: object) -> None:
    """Print data on one line of stdout, for a program that reads lines."""
    line(json.dumps(data, default=_plain, ensure_ascii=False))


def as_json(data: object) -> None:
    """Print data on stdout for a program; dates and decimals become strings."""
    line(json.dumps(data, default=_plain, ensure_ascii=False, indent=2))


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return _text(value)


def table(
    rows: Sequence[Mapping[str, object]],
    columns: Mapping[str, str],
    *,
    json: bool = False,
) -> None:
    """Print rows on stdout: a table for a person, or JSON.

    Args:
        rows: What to print. A value of None is an empty cell.
        columns: Key of the value in a row: heading. Numbers are aligned to the right.
        json: Print a list of objects with exactly these keys.
    """
    if json:
        as_json([{key: row.get(key) for key in columns} for row in rows])
        return
    # Piped output is not to be cut at the width of a terminal that is not there.
    width = None if sys.stdout.isatty() else _UNLIMITED
    Console(file=sys.stdout, width=width).print(grid(rows, columns))


def grid(rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]) -> Table:
    """Lay rows out as a table for a person, see `table`."""
    show_header = any(columns.values())
    laid_out = Table(box=None, pad_edge=False, show_header=show_header)
    for key, heading in columns.items():
        numeric = bool(rows) and all(_is_number(row.get(key)) for row in rows)
        laid_out.add_column(heading, justify="right" if numeric else "left")
    for row in rows:
        # Text, so that a name with brackets is not read as markup.
        laid_out.add_row(*(Text(_cell(row.get(key))) for key in columns))
    return laid_out


def csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print rows on stdout as CSV with a header, as our imports read it."""
    writer = comma_separated.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _is_number(value: object) -> bool:
    return value is None or (
        hasattr(value, "__float__") and not isinstance(value, bool)
    )


def _cell(value: object) -> str:
    return "" if value is None else _text(value)


def _text(value: object) -> str:
    """Write a value in full: a small amount is 0.000001 to people, not 1E-6."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
