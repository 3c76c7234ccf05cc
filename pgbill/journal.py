"""Hand documents over to the ledger: each once, and again as often as asked for.

An export takes every document up to a day that no export before has taken, and numbers
itself. What it says of them is kept as entries, whose key lets a document into one
export only; and the file is kept as it is, to the byte, since the ledger has it too: a
later version of pgbill would write it otherwise. A document that is committed a moment
later is in the next export.

Asked for in another format, an export is written once more from the same entries.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

from psycopg import Connection, Rollback

from pgbill import datev, db, journalcsv, posting, saft
from pgbill.config import Settings
from pgbill.datev import Client
from pgbill.errors import ConfigError, UsageError
from pgbill.posting import Accounts, Head

_QUERIES = db.Queries("journal")
_PART_BYTES = 1_000_000

Format = Literal["csv", "datev", "saft"]


@dataclass(frozen=True, slots=True)
class Listed:
    """An export in a list."""

    export_id: int
    seller: str
    through_on: date
    exported_at: datetime
    exported_by: str
    document_count: int
    formats: str | None
    """Those in which its file was asked for."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An export that was made."""

    export_id: int
    document_count: int


@dataclass(frozen=True, slots=True)
class _Seller:
    seller_id: int
    key: str


@dataclass(frozen=True, slots=True)
class _ExportId:
    export_id: int


@dataclass(frozen=True, slots=True)
class _Count:
    count: int


@dataclass(frozen=True, slots=True)
class _Kept:
    format: Format


@dataclass(frozen=True, slots=True)
class _Part:
    content: bytes


def export(
    conn: Connection[Any],
    settings: Settings,
    *,
    through: date,
    format_: Format,
    by: str,
    seller: str | None = None,
) -> Exported | None:
    """Export what is dated up to a day and in no export yet; `pieces` has the file.

    Args:
        conn: In autocommit mode, as the owner of the schema.
        settings: Which accounts the entries go to.
        through: Inclusive.
        format_: Of the file.
        by: Who exports.
        seller: Its key; none: the only one.

    Returns:
        None if there is nothing to export; nothing has changed then.

    Raises:
        UsageError: The seller is unknown, or the documents do not fit the format.
        ConfigError: A setting is missing that the format needs.
    """
    done: Exported | None = None
    with conn.transaction() as transaction:
        db.execute(conn, _QUERIES["lock_leases"])
        db.execute(conn, _QUERIES["lock_exports"])
        done = _write(conn, _find_seller(conn, seller), through, by)
        if done is None:
            raise Rollback(transaction)
        _keep(conn, settings, done.export_id, format_)
    return done


def again(
    conn: Connection[Any], settings: Settings, export_id: int, format_: Format | None
) -> Format:
    """Have the file of an export for `pieces`, in its first format or another.

    Returns:
        Its format.

    Raises:
        UsageError: There is no such export, or its documents do not fit the format.
    """
    with conn.transaction():
        db.execute(conn, _QUERIES["lock_exports"])
        first = db.fetch_one(conn, _QUERIES["first_format"], _Kept, export_id=export_id)
        if first is None:
            raise UsageError(
                f"there is no export {export_id}.", hint="See pgbill export list."
            )
        chosen = format_ or first.format
        if _part(conn, export_id, chosen, 1) is None:
            _keep(conn, settings, export_id, chosen)
    return chosen


def pieces(conn: Connection[Any], export_id: int, format_: Format) -> Iterator[bytes]:
    """Yield the file of an export as it was kept, piece by piece."""
    for part_no in itertools.count(1):
        content = _part(conn, export_id, format_, part_no)
        if content is None:
            return
        yield content


def find(conn: Connection[Any], *, limit: int) -> list[Listed]:
    """Return the newest exports, the newest first."""
    return db.fetch_all(conn, _QUERIES["exports"], Listed, limit=limit)


def _find_seller(conn: Connection[Any], key: str | None) -> int:
    known = db.fetch_all(conn, _QUERIES["sellers"], _Seller)
    if key is None and len(known) == 1:
        return known[0].seller_id
    for each in known:
        if each.key == key:
            return each.seller_id
    if key is not None:
        raise UsageError(f"there is no seller {key}.")
    names = ", ".join(each.key for each in known) or "none yet"
    raise UsageError(
        "an export is of one seller.", hint=f"Name it with --seller: {names}."
    )


def _write(
    conn: Connection[Any], seller_id: int, through: date, by: str
) -> Exported | None:
    asked = {"seller_id": seller_id, "through_on": through}
    opened = db.fetch_one(conn, _QUERIES["open"], _ExportId, **asked, by=by)
    assert opened is not None
    # All at once, they are joined whole: each with each, they take minutes.
    conn.execute("SET LOCAL enable_nestloop = off")
    written = db.fetch_one(
        conn, _QUERIES["write"], _Count, **asked, export_id=opened.export_id
    )
    assert written is not None
    return Exported(opened.export_id, written.count) if written.count else None


def _keep(
    conn: Connection[Any], settings: Settings, export_id: int, format_: Format
) -> None:
    """Write the file of an export, and keep it in parts of about a megabyte."""
    head = posting.head(conn, export_id)
    assert head is not None
    for part_no, content in enumerate(
        _parts(_render(conn, settings, head, format_)), 1
    ):
        db.execute(
            conn,
            _QUERIES["keep"],
            export_id=export_id,
            format=format_,
            part_no=part_no,
            content=content,
        )


def _parts(rendered: Iterator[bytes]) -> Iterator[bytes]:
    part = bytearray()
    for piece in rendered:
        part += piece
        if len(part) >= _PART_BYTES:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


def _render(
    conn: Connection[Any], settings: Settings, head: Head, format_: Format
) -> Iterator[bytes]:
    accounts = Accounts(
        receivable=settings.ledger_receivable_account,
        revenue=settings.ledger_revenue_account,
        tax=settings.ledger_tax_account,
        prepaid=settings.ledger_prepaid_account,
    )
    if format_ == "csv":
        return journalcsv.render(conn, head, accounts)
    if format_ == "saft":
        return saft.render(conn, head, accounts)
    return datev.render(conn, head, accounts, _client(settings))


def _client(settings: Settings) -> Client:
    if settings.datev_consultant is None or settings.datev_client is None:
        raise ConfigError(
            "DATEV needs the numbers of the consultant and of the client.",
            hint="Set PGBILL_DATEV_CONSULTANT and PGBILL_DATEV_CLIENT.",
        )
    return Client(
        settings.datev_consultant,
        settings.datev_client,
        settings.datev_fiscal_month,
        settings.datev_account_digits,
        datev.tax_keys(settings.datev_tax_keys),
    )


def _part(
    conn: Connection[Any], export_id: int, format_: Format, part_no: int
) -> bytes | None:
    found = db.fetch_one(
        conn,
        _QUERIES["part"],
        _Part,
        export_id=export_id,
        format=format_,
        part_no=part_no,
    )
    return found and found.content
