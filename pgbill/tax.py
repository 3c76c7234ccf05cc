"""Say what it is to know the tax of an invoice, and what can go wrong with it.

Whoever knows the tax is a provider. The table of rates is one that the database looks
into by itself, while it rates. Any other is asked: a service over HTTP, or what another
package brings along as an entry point of the group `pgbill.tax_providers`. It may take
minutes, so it is asked outside any transaction and many questions at once.

How an answer went wrong is told by the class of the error and never by its words: it
decides whether the account fails, whether it is asked for again, and whether the whole
service is to be left alone for a while.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgbill.errors import PgbillError, TemporaryError

ENTRY_POINTS = "pgbill.tax_providers"
TABLE = "table"
HTTP = "http"


class TaxError(PgbillError):
    """The tax service gave no answer that can be used."""


class TaxBrokenError(TaxError):
    """A provider fell over; the account fails, and the service is doubted."""


class TaxUnavailableError(TaxError):
    """The tax service has no answer now; the same question may get one later."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Keep how many seconds it wants to be left alone with this question."""
        super().__init__(message)
        self.retry_after = retry_after


class TaxDeniedError(TaxUnavailableError):
    """The tax service will not talk to us at all, whichever account it is about."""


class TaxLimitedError(TaxUnavailableError):
    """The tax service wants fewer questions, of all accounts."""


class TaxAwayError(TemporaryError):
    """The tax service fails and has not recovered."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for an account: JSON that the database has written."""

    text: str
    idempotency_key: str
    """The same for all attempts at one account and period; printable ASCII."""


@dataclass(frozen=True, slots=True)
class TaxService:
    """A tax service, and how it is asked. Waits and limits are in seconds."""

    url: str | None
    token: str | None
    timeout_seconds: float
    """For one call, from its beginning to the last byte of the answer."""
    in_flight: int
    """Calls at once, for each worker."""
    provider: str = HTTP
    """`http`, or the name of an entry point."""
    connect_seconds: float = 10.0
    read_seconds: float = 300.0
    """The longest silence."""
    attempts: int = 5
    """How often an account is asked for by one claim, if the service itself is well."""
    retry_seconds: float = 0.5
    """Up to which the first wait between attempts is drawn; it doubles."""
    retry_at_most_seconds: float = 60.0
    """The longest wait, also if the service asks for a longer one."""
    patience_seconds: float = 300.0
    """How long a service that fails as a whole is waited for."""
    ca_file: Path | None = None
    """Whom to trust; none: the usual authorities."""

    def __repr__(self) -> str:
        """Leave the token out."""
        return f"TaxService({self.provider}, {self.url})"


class TaxProvider(Protocol):
    """Whoever knows the tax of an invoice's lines, and is asked for it.

    All is called in one event loop. A call that is not wanted any more is cancelled.
    """

    @property
    def name(self) -> str:
        """What is kept with each answer to say where it comes from."""
        ...

    async def assess(self, question: Question) -> str:
        """Return the answer as JSON; it may take minutes.

        Raises:
            TaxError: There is none, for a reason that is said. Any other exception is
                taken for a failure of the whole service.
        """
        ...

    async def close(self) -> None:
        """Hang up; no call is in flight any more."""
        ...


def printable(text: str) -> str:
    """Return what somebody else has said as one line that can be kept and shown."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(shown.split())
