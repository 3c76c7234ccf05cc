"""Read the records of a CSV or JSON-lines file, one at a time, however long it is.

Whatever is wrong with the file itself stops the reading: it is missing, has another
encoding, a line without end. What is wrong with a record is noted, and the reading goes
on, so that a user hears of everything at once. A record has the number of the physical
line on which it begins, the number that an editor shows.
"""

import csv
import json
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from pgbill.column import Column
from pgbill.errors import InputError, UsageError
from pgbill.problem import Problems, shown

Format = Literal["csv", "jsonl"]
Row = tuple[str | None, ...]

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_LINE_LIMIT = 1_000_000
_EXTENSIONS: Mapping[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


@dataclass(frozen=True, slots=True)
class Source:
    """An open file, and how the user named it."""

    name: str
    format: Format
    stream: BinaryIO

    def error(self, line: int, reason: str) -> InputError:
        """Return an error that stops the reading at a line."""
        return InputError(f"{self.name}:{line}: {reason}.")


@contextmanager
def opened(
    file: str,
    *,
    format_: Format | None = None,
    hint: str = "Add --format csv or --format jsonl.",
) -> Generator[Source]:
    """Open a file, or standard input for `-`, whose format is CSV if none is given.

    Raises:
        InputError: It cannot be read.
        UsageError: Its name does not tell the format; `hint` says what to do.
    """
    if file == STDIN:
        yield Source(file, format_ or "csv", sys.stdin.buffer)
        return
    known = format_ or _EXTENSIONS.get(Path(file).suffix.lower())
    if known is None and not Path(file).is_dir():
        raise UsageError(f"the name of {file} does not tell its format.", hint=hint)
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below, past the except
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}.") from error
    with stream:
        # A folder has not been opened.
        yield Source(file, known or "csv", stream)


def records(
    source: Source, columns: Sequence[Column], problems: Problems
) -> Iterator[tuple[int, Row | None]]:
    """Go through the records: the line of each, and its values for `columns`.

    Yields:
        None instead of the values if they are wrong; `problems` says how.

    Raises:
        InputError: The file cannot be read any further.
    """
    read = _csv if source.format == "csv" else _jsonl
    return read(source, columns, problems)


def _lines(source: Source) -> Iterator[str]:
    """Decode the lines, with their ends."""
    number = 0
    while chunk := _read_line(source, number + 1):
        number += 1
        if number == 1:
            chunk = chunk.removeprefix(_BOM)
        try:
            line = chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            raise source.error(
                number,
                f"the file is not UTF-8: byte 0x{chunk[error.start]:02x}"
                f" at position {error.start + 1} of the line",
            ) from None
        if "\0" in line:
            raise source.error(number, "the line holds a NUL byte")
        yield line
    if number == 0:
        raise InputError(f"{source.name} is empty.")


def _read_line(source: Source, number: int) -> bytes:
    try:
        chunk = source.stream.readline(_LINE_LIMIT + 1)
    except OSError as error:
        raise InputError(f"cannot read {source.name}: {error.strerror}.") from error
    if len(chunk) > _LINE_LIMIT:
        raise source.error(number, f"the line is longer than {_LINE_LIMIT:,} bytes")
    return chunk


def _csv(
    source: Source, columns: Sequence[Column], problems: Problems
) -> Iterator[tuple[int, Row | None]]:
    reader = csv.reader(_lines(source), strict=True)
    header: list[str] | None = None
    picks: list[int | None] = []
    begins = 1
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise source.error(begins, f"the CSV is not valid: {error}") from None
        line, begins = begins, reader.line_num + 1
        if values is None:
            break
        if not values:
            continue
        if header is None:
            header = _header(source, line, values, columns)
            places = {name: place for place, name in enumerate(header)}
            picks = [places.get(column.name) for column in columns]
        elif len(values) != len(header):
            problems.add(
                line, "", f"it has {len(values)} values, the header has {len(header)}"
            )
            yield line, None
        else:
            given = (None if at is None else values[at].strip() for at in picks)
            yield line, _row(line, columns, given, problems)
    if header is None:
        raise InputError(f"{source.name} is empty.")


def _header(
    source: Source, line: int, values: list[str], columns: Sequence[Column]
) -> list[str]:
    """Check the names of the columns, all of them before any record is read."""
    header = [value.strip() for value in values]
    known = [column.name for column in columns if not column.is_list]
    wrong = [f"there is no column {shown(it)}" for it in header if it not in known]
    wrong += [
        f"the column {it} is missing"
        for it in (column.name for column in columns if column.is_required)
        if it not in header
    ]
    wrong += [f"the column {it} stands twice" for it in known if header.count(it) > 1]
    if not wrong:
        return header
    if len(header) == 1 and re.search(r"[;\t]", header[0]):
        raise source.error(line, "the values are not separated by commas")
    allowed = f" (the columns are {', '.join(known)})"
    raise source.error(line, "; ".join(wrong) + allowed)


def _jsonl(
    source: Source, columns: Sequence[Column], problems: Problems
) -> Iterator[tuple[int, Row | None]]:
    for line, text in enumerate(_lines(source), start=1):
        if text.strip():
            try:
                members = _members(text)
            except ValueError as error:
                problems.add(line, "", str(error))
                yield line, None
            else:
                yield line, _json_row(line, columns, members, problems)


def _json_row(
    line: int, columns: Sequence[Column], members: dict[str, Any], problems: Problems
) -> Row | None:
    before = problems.count
    names = [column.name for column in columns]
    for name in members.keys() - set(names):
        allowed = f"the columns are {', '.join(names)}"
        problems.add(line, name, f"there is no such column ({allowed})")
    given: list[str | None] = []
    for column in columns:
        try:
            given.append(_plain(column, members.get(column.name)))
        except ValueError as error:
            problems.add(line, column.name, str(error))
            given.append(None)
    if problems.count > before:
        return None
    return _row(line, columns, given, problems)


def _members(text: str) -> dict[str, Any]:
    try:
        # Numbers stay the text that they are: a float would lose decimals.
        found: object = json.loads(
            text,
            parse_float=str,
            parse_int=str,
            parse_constant=str,
            object_pairs_hook=_without_twins,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    raise ValueError("it is not a JSON object")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return members


def _plain(column: Column, value: object) -> str | None:
    """Return a JSON value as the text that CSV would have held."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if column.is_list or (column.is_object and isinstance(value, dict)):
        return json.dumps(value)
    if isinstance(value, str):
        return value.strip()
    raise ValueError(f"{shown(value)} is not a plain value")


def _row(
    line: int,
    columns: Sequence[Column],
    given: Iterable[str | None],
    problems: Problems,
) -> Row | None:
    """Parse the values of a record; none if one of them is wrong."""
    before = problems.count
    row: list[str | None] = []
    for column, value in zip(columns, given, strict=True):
        if not value:
            if column.is_required:
                problems.add(line, column.name, "the value is missing")
            row.append(None)
            continue
        try:
            row.append(column.parse(value))
        except ValueError as error:
            problems.add(line, column.name, str(error))
    return tuple(row) if before == problems.count else None
