"""Say what a run has done: accounts by outcome, totals by currency, failures."""

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Total:
    """What was invoiced in a currency, in its major unit."""

    currency: str
    invoices: int
    net: Decimal
    tax: Decimal
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Failure:
    """An account that could not be invoiced, and why."""

    account_key: str
    outcome: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run has done, by all its workers, up to its end or its stop."""

    run_id: int | None
    """None if nothing was due, so that no run was begun."""
    is_finished: bool
    invoiced: int = 0
    nothing_to_bill: int = 0
    carried_forward: int = 0
    failed: int = 0
    parked: int = 0
    held: int = 0
    """Drafts that wait for a review."""
    leases_lost: int = 0
    still_due: int = 0
    parked_before: int = 0
    in_review: int = 0
    """Due accounts that wait for a review, of this run or of one before."""
    holds_mail: bool = False
    seconds: float = 0
    totals: list[Total] = field(default_factory=list[Total])
    failures: list[Failure] = field(default_factory=list[Failure])
