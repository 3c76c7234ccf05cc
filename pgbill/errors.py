"""Tell what went wrong, and what the caller is to do about it.

One tree, so that one `except` at the top is enough, and an exit code on each branch, so
that cron knows whether to try again. The first line of a docstring is the message of an
error that is raised without one.

    PgbillError                  1   could not be done
    ├── FindingsError            1   something is to be looked at
    ├── RefusalError             1   a trigger or a protocol function says no
    │   ├── LeaseLostError           IV001
    │   ├── FrozenError              IV002
    │   ├── IssueDateError           IV003
    │   ├── TokenError               IV004
    │   ├── LeaseHeldError      75   IV005: what is to change is being invoiced
    │   ├── OverspentError           IV006
    │   ├── CorrectionError      2   IV007: an invoice cannot be corrected in this way
    │   └── ClosedMonthError     2   IV008: documents are dated into open months
    ├── UsageError               2   the command was given wrongly
    │   └── InputError           2   a file holds something wrong
    ├── TemporaryError          75   the same command may succeed later
    └── ConfigError             78   a person must act first
        └── SchemaError         78   the database is not as this pgbill needs it

Refusals carry SQLSTATEs of a class of our own, IV: psycopg maps unknown classes that
begin with P or X to misleading exceptions.
"""

from typing import ClassVar


class PgbillError(Exception):
    """It could not be done."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        """Keep one sentence of what happened, and perhaps one of what to do."""
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        """Join the message and the hint, as sentences."""
        if not self.hint:
            return self.message
        stop = "" if self.message.endswith((".", "!", "?", ":")) else "."
        return f"{self.message}{stop} {self.hint}"


class FindingsError(PgbillError):
    """There is something to look at."""


class RefusalError(PgbillError):
    """The database refused what would have broken a promise."""

    sqlstate: ClassVar[str] = ""


class LeaseLostError(RefusalError):
    """Another worker has claimed the account."""

    sqlstate = "IV001"


class FrozenError(RefusalError):
    """What has been issued never changes."""

    sqlstate = "IV002"


class IssueDateError(RefusalError):
    """The dates of a series never go back."""

    sqlstate = "IV003"


class TokenError(RefusalError):
    """A fencing token only grows."""

    sqlstate = "IV004"


class LeaseHeldError(RefusalError):
    """Accounts are being invoiced at this moment: try again when the run has ended."""

    exit_code = 75
    sqlstate = "IV005"


class OverspentError(RefusalError):
    """A prepaid credit is spent once."""

    sqlstate = "IV006"


class CorrectionError(RefusalError):
    """An invoice is never credited with more than is left of it."""

    exit_code = 2
    sqlstate = "IV007"


class ClosedMonthError(RefusalError):
    """The month is closed."""

    exit_code = 2
    sqlstate = "IV008"


class UsageError(PgbillError):
    """The command was given wrongly."""

    exit_code = 2


class InputError(UsageError):
    """The input holds something wrong."""


class TemporaryError(PgbillError):
    """It cannot be done now; the same command may succeed later."""

    exit_code = 75


class ConfigError(PgbillError):
    """The configuration needs a change before this can work."""

    exit_code = 78


class SchemaError(ConfigError):
    """The database's schema is not that of this pgbill: run pgbill migrate."""
