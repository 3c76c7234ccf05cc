"""Say in numbers and sentences what the replay has shown, on terminal and page."""

from collections.abc import Iterable
from dataclasses import dataclass

from pgbill.incident import Outcome, Plan


@dataclass(frozen=True, slots=True)
class Row:
    """What happened, to each; bad is what nobody would want."""

    what: str
    lock: str
    pgbill: str
    lock_is_bad: bool = False
    pgbill_is_bad: bool = False


def rows(plan: Plan, lock: Outcome, pgbill: Outcome) -> list[Row]:
    """Put the numbers side by side."""
    due = len(plan.due)
    both = lock, pgbill
    too_many = [each.copies.invoices != due for each in both]
    audits = ["no audit" if each.findings is None else each.findings for each in both]
    return [
        _row("accounts due", due, due),
        Row("invoices", *_texts(it.copies.invoices for it in both), *too_many),
        _bad("accounts invoiced twice", *(each.copies.twice for each in both)),
        _bad("    three times", *(each.copies.three_times for each in both)),
        _bad("    more often", *(each.copies.more_often for each in both)),
        Row("mails sent", *_texts(each.mails for each in both), *too_many),
        _row("expired before the work was done", *(each.expired for each in both)),
        _bad("    and invoiced all the same", *(each.went_on for each in both)),
        _row("    and the work dropped", *(each.dropped for each in both)),
        _row("late writes tried and refused", *(each.refused for each in both)),
        _bad("keys of others deleted", *(each.foreign_keys for each in both)),
        _row("alerts for a person", *(each.alerts for each in both)),
        Row("audit findings", *_texts(audits), pgbill_is_bad=bool(pgbill.findings)),
        _row("seconds", *(f"{each.seconds:.1f}" for each in both)),
    ]


def _row(what: str, lock: object, pgbill: object) -> Row:
    return Row(what, str(lock), str(pgbill))


def _bad(what: str, lock: int, pgbill: int) -> Row:
    return Row(what, str(lock), str(pgbill), lock > 0, pgbill > 0)


def _texts(values: Iterable[object]) -> tuple[str, str]:
    lock, pgbill = values
    return str(lock), str(pgbill)


def sentences(plan: Plan, lock: Outcome, pgbill: Outcome) -> list[str]:
    """Explain the numbers."""
    return [
        (
            f"For {len(plan.slow)} of {len(plan.due)} accounts the tax service took"
            f" longer than the {plan.ttl_seconds:g} s after which locks expire, so"
            " others began the same accounts while the first were still at work:"
            f" {lock.went_on} invoices were written and mailed after their lock was"
            f" over, and {lock.foreign_keys} keys deleted that were somebody else's."
        ),
        (
            "pgbill renews a lease beside the work for as long as its worker lives, so"
            f" slow answers cost nothing; the {pgbill.expired} leases that did expire,"
            " when one worker slept and another was killed, were taken over by others,"
            " each with an alert for a person to see."
        ),
        (
            "When the sleeper woke, its time was over, and it dropped its work. The"
            " replay has then written with the tokens of the leases that were lost, as"
            " a worker would that does not notice. The database has refused every one:"
            f" {pgbill.refused} late writes."
        ),
    ]
