"""Bill accounts behind a lock that expires: the pipeline that pgbill replaces.

This is the story's pipeline with all promises switched off, for the demo alone. A
worker takes the next account that is neither invoiced nor locked, takes its lock (the
way of Redis' `SET NX EX`), looks again whether the account is invoiced, asks the tax
service, writes the invoice, mails it, and deletes the lock's key. It is as careful as
a lock lets it be. But the lock ends at a time, whether the work is done or not, and its
holder does not know.

Each worker is a process of its own, `python -m pgbill.naive`, which is told its job on
stdin, and to begin by a second line.
"""

import contextlib
import http.client
import json
import os
import smtplib
import sys
import time
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from functools import cache
from typing import Any, LiteralString
from urllib.parse import urlsplit

from psycopg import Connection, sql

from pgbill import db, resources

HEADER = "X-Pgbill-Demo"

_TRIED_AT_ONCE = 16
_IDLE_SECONDS = 0.05
_PATIENCE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told."""

    number: int
    dsn: str
    ttl_seconds: float
    tax_url: str
    smtp_host: str
    smtp_port: int

    def to_line(self) -> bytes:
        """Return it as the worker reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class _Account:
    key: str
    country: str
    seller_country: str
    tax_status: str
    currency: str
    recipients: list[str]


@dataclass(frozen=True, slots=True)
class _Count:
    how_many: int


@dataclass(frozen=True, slots=True)
class _Locked:
    claim: str


@cache
def queries() -> dict[str, sql.SQL]:
    """Return the named queries of the pipeline; `create` makes its schema."""
    folder = resources.path("sql", "naive")
    return {
        **db.parse((folder / "queries.sql").read_text(encoding="utf-8")),
        **db.parse("-- name: create\n" + (folder / "schema.sql").read_text("utf-8")),
    }


class Worker:
    """A worker; all that it knows of its lock is that it once had it."""

    def __init__(
        self, job: Job, conn: Connection[Any], mails: smtplib.SMTP, taxes: "_Taxes"
    ) -> None:
        """Take what is connected already."""
        self._job = job
        self._conn = conn
        self._mails = mails
        self._taxes = taxes
        self._claims = 0

    def run(self) -> None:
        """Work until every account of the list has an invoice."""
        while True:
            tried = self._fetch("open", _Account, limit=_TRIED_AT_ONCE)
            if not tried and self._count("left") == 0:
                return
            if not any(self._try(account) for account in tried):
                time.sleep(_IDLE_SECONDS)

    def _try(self, account: _Account) -> bool:
        """Bill an account, unless somebody else has its lock by now."""
        claim = self._lock(account)
        if claim is None:
            return False
        if self._count("is_invoiced", key=account.key) == 0:
            self._bill(account, claim)
        self._do("unlock", key=account.key, claim=claim)
        return True

    def _lock(self, account: _Account) -> str | None:
        self._claims += 1
        claim = f"{self._job.number}:{os.getpid()}:{self._claims}"
        ttl_seconds = self._job.ttl_seconds
        locked = self._fetch(
            "lock", _Locked, key=account.key, claim=claim, ttl_seconds=ttl_seconds
        )
        return claim if locked else None

    def _bill(self, account: _Account, claim: str) -> None:
        tax = self._taxes.ask(account)
        self._do("invoice", key=account.key, claim=claim, tax=tax)
        for recipient in account.recipients:
            self._mails.send_message(_mail(account, recipient))
        self._do("mailed", key=account.key, claim=claim)

    def _fetch(self, name: str, row: type[Any], **params: object) -> list[Any]:
        return db.fetch_all(self._conn, queries()[name], row, **params)

    def _count(self, name: str, **params: object) -> int:
        counted: list[_Count] = self._fetch(name, _Count, **params)
        return counted[0].how_many

    def _do(self, name: LiteralString, **params: object) -> None:
        db.execute(self._conn, queries()[name], **params)


class _Taxes:
    """The tax service, asked over one connection."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._http = http.client.HTTPConnection(
            self._url.hostname or "", self._url.port, timeout=_PATIENCE_SECONDS
        )

    def ask(self, account: _Account) -> str:
        """Return the answer, however long it takes."""
        question = {
            "currency": account.currency,
            "seller": {"country": account.seller_country},
            "buyer": {"country": account.country, "tax_status": account.tax_status},
            "lines": [{"line_no": 1}],
        }
        self._http.request(
            "POST",
            self._url.path,
            json.dumps(question).encode(),
            {"Content-Type": "application/json", "Idempotency-Key": account.key},
        )
        with self._http.getresponse() as reply:
            return reply.read().decode()


def _mail(account: _Account, recipient: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "naive@example.test"
    mail["To"] = recipient
    mail["Subject"] = f"Invoice for {account.key}"
    mail[HEADER] = "naive"
    mail.set_content("Sent by the pipeline that pgbill's demo compares pgbill with.\n")
    return mail


def main() -> None:
    """Be a worker: read the job, connect, wait for the second line, and work."""
    job = Job(**json.loads(sys.stdin.readline()))
    with (
        contextlib.closing(db.connect(job.dsn, application="naive worker")) as conn,
        smtplib.SMTP(job.smtp_host, job.smtp_port, timeout=_PATIENCE_SECONDS) as mails,
    ):
        worker = Worker(job, conn, mails, _Taxes(job.tax_url))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        # An empty line is the end of whoever was to give the word.
        if sys.stdin.readline():
            worker.run()


if __name__ == "__main__":
    main()
