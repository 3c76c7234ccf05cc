"""What a worker is told, and what it reports: all that crosses a process boundary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pgbill.issuing import Billed, Policy
from pgbill.lease import Scope
from pgbill.renewal import Terms
from pgbill.tax import TaxService


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told, all of it; it crosses a process boundary."""

    dsn: str
    scope: Scope
    policy: Policy
    terms: Terms
    batch_size: int
    first_bucket: int
    """Where this worker begins, so that workers do not queue for the same bucket."""
    tax: TaxService | None = None
    """None: the table of tax rates."""


@dataclass(slots=True)
class Tally:
    """What became of accounts since the last report."""

    invoiced: int = 0
    nothing_to_bill: int = 0
    carried_forward: int = 0
    held: int = 0
    """For a review."""
    failed: int = 0
    parked: int = 0
    lost: int = 0
    given_back: int = 0
    notices: list[str] = field(default_factory=list[str])
    """What a person should know of the service that is asked."""

    @property
    def done_count(self) -> int:
        """Accounts that the run need not look at again."""
        closed = self.invoiced + self.nothing_to_bill + self.carried_forward
        return closed + self.held + self.failed + self.parked

    def count(self, billed: Sequence[Billed]) -> None:
        """Add what the database has answered."""
        outcomes = [each.outcome for each in billed]
        self.invoiced += outcomes.count("invoiced")
        self.nothing_to_bill += outcomes.count("nothing_to_bill")
        self.carried_forward += outcomes.count("carried_forward")
        self.held += outcomes.count("held")
        self.failed += outcomes.count("failed")
        self.parked += outcomes.count("parked")


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Why a worker ends before its work does: nothing of it has failed."""

    exit_code: int
    message: str
    hint: str | None


Report = Callable[[Tally], None]
