"""Whatever is imported, in whatever order and at once: each payment counts once.

Hypothesis moves bookkeepers on real connections: they import files of payments, two at
a time with rows in common, again, and with data that contradicts; between them invoices
are issued, credited and brought from an old system. A model of a few lines says what is
open then; the database must say the same, and no audit finds anything.
"""

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from psycopg import Connection

from pgbill import importing, roles
from pgbill.problem import BadInputError
from tests.actors import Threads, bill_all, connect, wait_for
from tests.inputs import Row, write_csv
from tests.payers import credit
from tests.shop import Shop, findings

pytestmark = pytest.mark.one_server

_SETTINGS = settings(
    max_examples=12,
    stateful_step_count=12,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
_FEE = Decimal("11.90")
_shops = itertools.count(1)

_TARGETS = st.sampled_from(["first", "last", "old", "account", "stray"])
_AMOUNTS = st.integers(-2_000, 3_000).filter(bool).map(lambda it: Decimal(it) / 100)
_PAYMENTS = st.lists(
    st.tuples(st.integers(0, 9), _TARGETS, _AMOUNTS), min_size=1, max_size=4
)


@dataclass(slots=True)
class Item:
    """What the model knows of a document: what it is over, and what is credited."""

    number: str
    due: Decimal
    paid: Decimal = Decimal(0)

    @property
    def open(self) -> Decimal:
        """What is still to be paid."""
        return self.due - self.paid


class Bookkeepers(RuleBasedStateMachine):
    """Two bookkeepers, and a model of what they have done."""

    def __init__(self, conns: Sequence[Connection[Any]], folder: Path) -> None:
        """Open a shop of their own; it shares its numbers with the others."""
        super().__init__()
        self.first, self.second, self.folder = *conns, folder
        self.key = f"shop-{next(_shops)}"
        self.rows: dict[int, Row] = {}
        self.items: dict[str, Item] = {}
        self.on_account = Decimal(0)
        self.counted: set[str] = set()

    @initialize()
    def open(self) -> None:
        """Open the shop, with an account that owes a fee."""
        shop = Shop.open(self.first, key=self.key)
        self.shop, self.account = shop, shop.account(self.first, key=f"{self.key}-a")
        bill_all(self.first, self.account)
        self.items["NL-000001"] = Item("NL-000001", _FEE)

    @rule()
    def issue(self) -> None:
        """Issue an invoice to the same account, of another subscription's fee."""
        number = f"NL-{len(self._own()) + 1:06}"
        other = self.shop.account(self.first, key=f"{self.key}-{number}")
        bill_all(self.first, other)
        self.items[number] = Item(number, _FEE)

    @rule(cents=st.integers(1, 300))
    def credit(self, cents: int) -> None:
        """Credit a part of the first invoice, while there is enough of it."""
        amount = Decimal(cents) / 100
        if self.items["NL-000001"].due > amount:
            credit(self.first, "NL-000001", str(amount), seller=self.key)
            self.items["NL-000001"].due -= amount

    @rule()
    def bring_old(self) -> None:
        """Import an invoice of the system before; again, it is the same."""
        row: Row = {
            "number": f"{self.key}/1",
            "account": self.account.key,
            "issued_on": "2025-01-01",
            "payable_on": "2025-02-01",
            "gross_amount": "25",
            "open_amount": "20",
        }
        importing.invoices(self.first, write_csv(self.folder / "i.csv", [row]))
        self.items.setdefault(f"{self.key}/1", Item(f"{self.key}/1", Decimal(20)))

    @rule(drawn=_PAYMENTS)
    def pay(self, drawn: list[tuple[int, str, Decimal]]) -> None:
        """Import a file; strays are let in."""
        rows = self._drawn(drawn)
        self._load(self.first, "a.csv", rows)
        self._count(rows)

    @rule(mine=_PAYMENTS, yours=_PAYMENTS)
    def pay_at_once(
        self,
        mine: list[tuple[int, str, Decimal]],
        yours: list[tuple[int, str, Decimal]],
    ) -> None:
        """Both import at the same moment."""
        files = [self._drawn(mine), self._drawn(yours)]
        with Threads() as threads:
            loads = [
                threads.start(self._load, conn, f"{name}.csv", rows)
                for conn, name, rows in zip(
                    (self.first, self.second), "ab", files, strict=True
                )
            ]
            for each in loads:
                wait_for(each)
        self._count([*files[0], *files[1]])

    @rule(drawn=_PAYMENTS)
    def contradict(self, drawn: list[tuple[int, str, Decimal]]) -> None:
        """Import a key that is known with another amount: all of it is refused."""
        rows = self._drawn(drawn)
        known = [row for row in rows if row["key"] in self.counted]
        if known:
            wrong = known[0] | {"amount": "77.77"}
            fresh = [row for row in rows if row["key"] != wrong["key"]]
            with contextlib.suppress(BadInputError):
                self._load(self.first, "a.csv", [*fresh, wrong])
                raise AssertionError("it was let in")

    @invariant()
    def all_agree(self) -> None:
        """Every document is open by what the model says."""
        if not self.items:
            return
        assert self._told() == {
            item.number: item.open - filled for item, filled in self._filled()
        }

    def teardown(self) -> None:
        """Ask the audits at the end of each story."""
        assert findings(self.first) == {}

    def _own(self) -> list[str]:
        return [number for number in self.items if number.startswith("NL-")]

    def _drawn(self, drawn: list[tuple[int, str, Decimal]]) -> list[Row]:
        """Return rows; what a key is for was settled when it was first drawn."""
        rows: dict[int, Row] = {}
        for number, target, amount in drawn:
            row: Row = {
                "key": f"{self.key}-{number}",
                "amount": str(amount),
                "paid_on": "2026-02-10",
                "seller": self.key,
                **self._target(target),
            }
            rows[number] = self.rows.setdefault(number, row)
        return list(rows.values())

    def _target(self, target: str) -> Row:
        own = self._own()
        old = f"{self.key}/1"
        targets: dict[str, Row] = {
            "first": {"invoice": own[0], "reference": ""},
            "last": {"invoice": "", "reference": f"for {own[-1]}, thanks"},
            "old": {"invoice": old if old in self.items else own[0], "reference": ""},
            "account": {"invoice": "", "reference": self.account.key},
            "stray": {"invoice": "", "reference": "who knows"},
        }
        return targets[target]

    def _load(self, conn: Connection[Any], name: str, rows: list[Row]) -> None:
        file = write_csv(self.folder / name, rows)
        importing.payments(conn, file, allow_unmatched=True)

    def _count(self, rows: list[Row]) -> None:
        for row in rows:
            if str(row["key"]) in self.counted:
                continue
            amount = Decimal(str(row["amount"]))
            named = [
                it for it in self.items if it in f"{row['invoice']} {row['reference']}"
            ]
            if named:
                self.items[named[0]].paid += amount
            elif row["reference"] == self.account.key:
                self.on_account += amount
            self.counted.add(str(row["key"]))

    def _filled(self) -> list[tuple[Item, Decimal]]:
        """Return what money on account fills of each item of the account."""
        left, filled = self.on_account, list[tuple[Item, Decimal]]()
        in_order = sorted(
            self.items.values(), key=lambda it: it.number.startswith("NL")
        )
        for item in in_order:
            mine = item.number in {"NL-000001", f"{self.key}/1"}
            amount = max(min(left, item.open), Decimal(0)) if mine else Decimal(0)
            left -= amount
            filled.append((item, amount))
        return filled

    def _told(self) -> dict[str, Decimal]:
        rows = self.first.execute(
            "SELECT number_text, open_amount FROM pgbill.invoice_payment_state"
            " WHERE seller_key = %s",
            [self.key],
        )
        return dict(rows.fetchall())


def test_each_payment_counts_once(dsn: str, tmp_path: Path) -> None:
    with connect(dsn, roles.OWNER) as first, connect(dsn, roles.OWNER) as second:
        make: Any = partial(Bookkeepers, (first, second), tmp_path)
        run_state_machine_as_test(make, settings=_SETTINGS)
