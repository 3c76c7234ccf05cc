"""Prove the numbers: each series from its first to its last, in one line.

What an auditor wants to see is that nothing is missing, nothing is there twice, and
that dates never go back. Here it is counted from the documents, series by series; the
audit views of P5 then name the very numbers.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg import Connection

from pgbill import db

_QUERIES = db.Queries("numbering")


@dataclass(frozen=True, slots=True)
class Series:
    """A series of numbers, and what is wrong with it.

    Attributes:
        first_number: With which it was to begin.
        lowest: The first number that was given; none if none was, as the next three.
        missing_count: Numbers between the first and the highest that nobody has.
        back_count: Documents dated, or issued, before the one with the number before.
        stands_at_last: Whether its next number is the one after the highest.
    """

    seller: str
    kind: str
    mode: str
    prefix: str
    first_number: int
    lowest: int | None
    highest: int | None
    document_count: int
    first_on: date | None
    last_on: date | None
    missing_count: int
    duplicate_count: int
    back_count: int
    stands_at_last: bool

    @property
    def findings(self) -> list[str]:
        """What is wrong, in words; empty if all is as it must be."""
        found = [
            (self.missing_count != 0, f"{self.missing_count} missing"),
            (self.duplicate_count != 0, f"{self.duplicate_count} given twice"),
            (self.back_count != 0, f"{self.back_count} dated back"),
            (not self.stands_at_last, "does not stand at its last number"),
        ]
        return [told for is_so, told in found if is_so]


def look(conn: Connection[Any]) -> list[Series]:
    """Return all series, by seller, mode and kind; all from one snapshot."""
    return db.fetch_all(conn, _QUERIES["series"], Series)
