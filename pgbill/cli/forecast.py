"""Print what a dry run has found: `pgbill run --dry-run`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pgbill.cli import output

if TYPE_CHECKING:
    from pgbill.forecast import Forecast

_SHOWN = 20
_TOTALS = {
    "currency": "currency",
    "invoices": "invoices",
    "net": "net",
    "tax": "tax",
    "gross": "gross",
    "held": "held",
    "held_gross": "gross held",
    "previous_invoices": "invoices before",
    "previous_gross": "gross before",
    "change": "change",
}
_CHANGES = {
    "difference": "difference",
    "account": "account",
    "period_end": "period end",
    "outcome": "outcome",
    "currency": "",
    "gross": "gross",
    "previous_gross": "before",
    "change": "change",
    "change_percent": "%",
}
_COUNTS = {
    "invoiced": "invoices",
    "nothing_to_bill": "periods with nothing to bill",
    "carried_forward": "periods carried forward",
    "held": "drafts held for review",
    "failed": "accounts that would fail",
    "parked": "accounts that would be parked",
    "parked_before": "accounts parked before",
    "in_review": "accounts that wait for a review",
    "in_progress": "accounts being invoiced now, left out",
    "new": "new",
    "missing": "missing",
    "moved": "moved",
}


def show(forecast: "Forecast", *, json: bool) -> None:
    """Print all of it for a program, or the most important for a person."""
    if json:
        output.as_json(forecast)
        return
    counts = asdict(forecast)
    output.table(
        [{"what": told, "count": counts[name]} for name, told in _COUNTS.items()],
        {"what": "a run would come to", "count": ""},
    )
    if forecast.totals:
        output.line("")
        output.table([asdict(each) for each in forecast.totals], _TOTALS)
    if forecast.changes:
        output.line("")
        output.table(forecast.changes[:_SHOWN], _CHANGES)
        _more(forecast.changes)
    for each in forecast.errors[:_SHOWN]:
        output.say(f"account {each['account']} {each['outcome']}: {each['reason']}")
    _more(forecast.errors)
    output.say("nothing was issued: it was a dry run.")


def _more(told: Sequence[object]) -> None:
    if len(told) > _SHOWN:
        output.say("… and more: --json, or --csv FILE for all.")
