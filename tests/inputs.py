"""Files to import, and what is said of them when they are refused."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill.problem import BadInputError

Row = dict[str, object]


def write_csv(file: Path, rows: Sequence[Row]) -> str:
    """Write rows under a header of all their columns; return the path."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return str(file)


def write_jsonl(file: Path, rows: Sequence[Row]) -> str:
    """Write each row as a line of JSON; return the path."""
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    file.write_text(text, encoding="utf-8")
    return str(file)


def refusals(run: Callable[..., object], *args: object) -> list[str]:
    """Expect a refusal; return what it names, without the folder of the file."""
    with pytest.raises(BadInputError) as raised:
        run(*args)
    assert raised.value.exit_code == 2
    folder = raised.value.source.rpartition("/")[0]
    return [line.removeprefix(f"{folder}/") for line in raised.value.lines]


def rows(conn: Connection[Any], table: str) -> list[dict[str, Any]]:
    """Return a whole table, without the columns that sequences fill."""
    query = (
        "SELECT to_jsonb(it) FROM pgbill.{} AS it ORDER BY to_jsonb(it)::text COLLATE"
        ' "C"'
    )
    found = conn.execute(query.replace("{}", table).encode()).fetchall()
    drawn = {"account_id", "subscription_id", "import_seq"}
    return [
        {name: value for name, value in row[0].items() if name not in drawn}
        for row in found
    ]
