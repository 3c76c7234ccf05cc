"""Add up what a run would come to, and compare it with the period before.

Each period stands beside the closing before the account's first due one: new is who had
no invoice there, missing is who had one and would have none now, moved is whose amount
differs by more than a threshold. What is held for review is compared like an invoice,
and added up by itself. Every row can go to a file; the sums, the largest
changes and the errors are kept, so a million accounts need no more memory than a few.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import IO

from pgbill.rehearsal import Row

_LISTED = 1_000
_ZERO = Decimal(0)
_ASKED_FOR = {"invoiced", "held"}

_COLUMNS = (
    *("account", "period_start", "period_end", "outcome", "currency", "net", "tax"),
    *("gross", "previous_gross", "change", "change_percent", "difference", "reason"),
)


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a dry run beside the closing before."""

    row: Row
    difference: str | None
    """new, missing or moved; none: nothing that matters."""

    @property
    def gross_amount(self) -> Decimal:
        """What would be invoiced, or is held; zero if nothing."""
        return _asked_for(self.row)

    @property
    def change_amount(self) -> Decimal:
        """How much more that is than before."""
        return self.gross_amount - (self.row.previous_gross_amount or _ZERO)

    @property
    def change_percent(self) -> Decimal | None:
        """The change, in percent of before; none: that was nothing."""
        before = self.row.previous_gross_amount
        if not before:
            return None
        return (self.change_amount * 100 / abs(before)).quantize(Decimal("0.1"))

    def cells(self) -> dict[str, object]:
        """Return what a table, a file and a program are told."""
        row = self.row
        return {
            "account": row.account_key,
            "period_start": row.period_start,
            "period_end": row.period_end,
            "outcome": row.outcome,
            "currency": row.currency,
            "net": row.net_amount,
            "tax": row.tax_amount,
            "gross": row.gross_amount,
            "previous_gross": row.previous_gross_amount,
            "change": self.change_amount,
            "change_percent": self.change_percent,
            "difference": self.difference,
            "reason": row.reason,
        }


@dataclass(slots=True)
class Total:
    """What would be invoiced in a currency, and what was in the period before.

    Attributes:
        held: Drafts for review, those that wait since before among them.
        change: Of what would be invoiced or held, against before.
    """

    currency: str
    invoices: int = 0
    net: Decimal = _ZERO
    tax: Decimal = _ZERO
    gross: Decimal = _ZERO
    held: int = 0
    held_gross: Decimal = _ZERO
    previous_invoices: int = 0
    previous_gross: Decimal = _ZERO
    change: Decimal = _ZERO


@dataclass(slots=True)
class Forecast:
    """What a run would come to."""

    invoiced: int = 0
    nothing_to_bill: int = 0
    carried_forward: int = 0
    held: int = 0
    failed: int = 0
    parked: int = 0
    parked_before: int = 0
    in_review: int = 0
    in_progress: int = 0
    """Accounts that are being invoiced at this moment: they are not in it."""
    new: int = 0
    missing: int = 0
    moved: int = 0
    totals: list[Total] = field(default_factory=list[Total])
    changes: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    """New, missing and moved ones, by currency, the largest change first; a thousand at
    most."""
    errors: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    """Accounts that would fail or be parked; a thousand at most."""

    @property
    def has_errors(self) -> bool:
        """Whether the run would not be able to invoice some accounts."""
        return bool(self.failed or self.parked)


class Report:
    """Adds rows up, and writes them to a file."""

    def __init__(self, moved_percent: Decimal, file: "IO[str] | None") -> None:
        self.forecast = Forecast()
        self.account_count = 0
        self._moved_percent = moved_percent
        self._totals: dict[str, Total] = {}
        self._changes: list[Change] = []
        self._writer = None if file is None else csv.writer(file)
        if self._writer is not None:
            self._writer.writerow(_COLUMNS)

    def add(self, rows: Iterable[Row]) -> None:
        """Take the rows of a bucket."""
        seen: set[str] = set()
        for row in rows:
            seen.add(row.account_key)
            self._add(Change(row, self._difference(row)))
        self.account_count += len(seen)
        if len(self._changes) > 2 * _LISTED:
            self._changes = _largest(self._changes)

    def finished(self) -> Forecast:
        """Return what all rows come to."""
        forecast = self.forecast
        forecast.totals = [self._totals[name] for name in sorted(self._totals)]
        for total in forecast.totals:
            total.change = total.gross + total.held_gross - total.previous_gross
        forecast.changes = [each.cells() for each in _largest(self._changes)]
        return forecast

    def _add(self, change: Change) -> None:
        row, forecast = change.row, self.forecast
        name = row.outcome
        if row.was_before:
            name = "parked_before" if row.outcome == "parked" else "in_review"
        _count(forecast, name)
        if change.difference is not None:
            _count(forecast, change.difference)
            self._changes.append(change)
        is_error = row.outcome in {"failed", "parked"} and not row.was_before
        if is_error and len(forecast.errors) < _LISTED:
            forecast.errors.append(change.cells())
        self._add_amounts(row)
        if self._writer is not None:
            self._writer.writerow(change.cells().values())

    def _add_amounts(self, row: Row) -> None:
        total = self._totals.setdefault(row.currency, Total(row.currency))
        if row.outcome == "invoiced":
            total.invoices += 1
            total.net += row.net_amount or _ZERO
            total.tax += row.tax_amount or _ZERO
            total.gross += row.gross_amount or _ZERO
        elif row.outcome == "held":
            total.held += 1
            total.held_gross += row.gross_amount or _ZERO
        if row.is_first and row.previous_gross_amount is not None:
            total.previous_invoices += 1
            total.previous_gross += row.previous_gross_amount

    def _difference(self, row: Row) -> str | None:
        before = row.previous_gross_amount
        if row.outcome not in _ASKED_FOR:
            return None if before is None else "missing"
        if before is None:
            return "new"
        change = abs(_asked_for(row) - before) * 100
        return "moved" if change > self._moved_percent * abs(before) else None


def _asked_for(row: Row) -> Decimal:
    return (row.gross_amount or _ZERO) if row.outcome in _ASKED_FOR else _ZERO


def _count(forecast: Forecast, name: str) -> None:
    assert name in {each.name for each in fields(Forecast)}
    setattr(forecast, name, getattr(forecast, name) + 1)


def _largest(changes: list[Change]) -> list[Change]:
    """Return the largest of all currencies, by currency: amounts of two compare ill."""
    ordered = sorted(
        changes,
        key=lambda it: (-abs(it.change_amount), it.row.account_key, it.row.period_end),
    )
    return sorted(ordered[:_LISTED], key=lambda it: it.row.currency)
