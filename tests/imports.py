"""Imports of usage by the product's own code, which a test can hold open."""

import contextlib
import json
import tempfile
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgbill import importing, reading, staging
from pgbill import usage as usage_file
from tests.builders import Account

Record = dict[str, str]


def record(
    account: Account, meter_key: str, key: str, occurred_at: datetime, quantity: str
) -> Record:
    """Return a line of a file of usage."""
    return {
        "key": key,
        "account": account.key,
        "meter": meter_key,
        "quantity": quantity,
        "occurred_at": occurred_at.isoformat(),
    }


def usage(conn: Connection[Any], *records: Record) -> int:
    """Import usage records; return how many were new."""
    with _file(records) as path:
        return importing.usage(conn, path).new


@contextlib.contextmanager
def written_usage(conn: Connection[Any], *records: Record) -> Generator[None]:
    """Import usage records, and commit after the body."""
    with (
        _file(records) as path,
        reading.opened(path, format_=None) as source,
        staging.loaded(conn, usage_file.LAYOUT, source) as staged,
    ):
        last_seq = usage_file.prepare(conn, staged)
        with conn.transaction():
            usage_file.write(conn, staged, last_seq=last_seq)
            yield


@contextlib.contextmanager
def _file(records: tuple[Record, ...]) -> Generator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "usage.jsonl"
        path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        yield str(path)
