"""Ask the database for drafts: what each account would be invoiced.

Python moves rows, SQL moves money. A draft is the JSON that `pgbill.rate` wrote and
that `pgbill.issue` reads; it passes through here unopened, as text, so that no amount
is ever turned into something else on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg import Connection

from pgbill import db
from pgbill.lease import Account

_QUERIES = db.Queries("rating")


@dataclass(frozen=True, slots=True)
class Draft:
    """The lines of an account's earliest open period, or the problem against them."""

    bucket: int
    account_id: int
    problem: str | None
    draft: str

    @property
    def account(self) -> Account:
        """The key of the account."""
        return self.bucket, self.account_id


def rate(
    conn: Connection[Any],
    accounts: Sequence[Account],
    *,
    through_on: date | None,
    max_due_periods: int,
) -> list[Draft]:
    """Rate accounts: nothing is written, and nothing is locked.

    Raises:
        psycopg.Error: The data of one of the accounts cannot be rated at all.
    """
    return db.fetch_all(
        conn,
        _QUERIES["rate"],
        Draft,
        buckets=[bucket for bucket, _ in accounts],
        account_ids=[account_id for _, account_id in accounts],
        through_on=through_on,
        max_due_periods=max_due_periods,
    )
