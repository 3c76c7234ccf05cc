"""Two clerks and a run at once, on connections of their own: the books stay right.

Hypothesis draws what each of them does, round by round; within a round all act at the
same moment. Whatever is refused, and in whatever order they come: no more is credited
than there is, what is cancelled is credited to the cent, and no audit finds anything.
"""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from pgbill import roles
from pgbill.errors import CorrectionError, LeaseHeldError
from pgbill.lease import Scope
from tests import builders, shop
from tests.actors import POLICY, Actor, Threads, connect, on_duty, wait_for
from tests.builders import Account, Price
from tests.clerk import Clerk

pytestmark = pytest.mark.one_server

_ROUNDS = settings(
    max_examples=15,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

_SCOPE = Scope(1, date(2026, 6, 30))
_PATIENT = replace(POLICY, max_due_periods=100)
_CENTS = st.integers(1, 20_000).map(lambda cents: str(Decimal(cents) / 100))
_WHICH = st.integers(0, 5)
_CORRECTION = st.one_of(
    st.tuples(st.just("amount"), _WHICH, _CENTS),
    st.tuples(st.just("line"), _WHICH, _CENTS),
    st.tuples(st.just("whole"), _WHICH, st.none()),
    st.tuples(st.just("cancel"), _WHICH, st.none()),
    st.tuples(st.just("reissue"), _WHICH, st.none()),
)
_RUN = st.sampled_from([None, "run", "use"])
_PLAN = st.lists(st.tuples(_CORRECTION, _CORRECTION, _RUN), min_size=2, max_size=6)


@dataclass(frozen=True, slots=True)
class Office:
    """Two clerks, a worker, and somebody who looks on; all are connected."""

    clerks: tuple[Connection[Any], Connection[Any]]
    worker: Actor
    owner: Connection[Any]
    shop: shop.Shop
    reduced: Price

    def account(self) -> Account:
        """Open an account: three fees of two tax rates, usage, a credit, a discount."""
        account = self.shop.account(self.owner)
        builders.subscription(self.owner, account, (self.reduced, "3"))
        builders.prepaid_credit(self.owner, account, "60.00")
        builders.discount(self.owner, account, percent="12.5")
        builders.charge(self.owner, account, unit_amount=Decimal("99.99"))
        self.use(account)
        self.run(account)
        self.run(account)
        return account

    def use(self, account: Account) -> None:
        """Import usage of January, which may be late by now."""
        when = datetime(2026, 1, 15, 12, tzinfo=UTC)
        with self.owner.transaction():
            self.shop.use(self.owner, account, "7.31", occurred_at=when)

    def run(self, account: Account) -> None:
        """Bill the next period, if it is due and nobody holds the account."""
        with contextlib.suppress(ValueError):
            self.worker.bill(self.worker.claim_one(account))


@contextlib.contextmanager
def _office(dsn: str) -> Generator[Office]:
    with (
        connect(dsn, roles.OWNER) as owner,
        connect(dsn, roles.WORKER) as first,
        connect(dsn, roles.WORKER) as second,
        on_duty(dsn, scope=_SCOPE, policy=_PATIENT) as worker,
    ):
        opened = shop.Shop.open(owner)
        builders.tax_rate(owner, rate="7", tax_class="reduced")
        reduced = builders.price(
            owner, opened.seller_id, amount="3.33", tax_class="reduced"
        )
        yield Office((first, second), worker, owner, opened, reduced)


def _numbers(conn: Connection[Any], account: Account) -> list[str]:
    return shop.values(
        conn,
        "SELECT number_text FROM pgbill.invoice_overview WHERE account_id = %s"
        " ORDER BY invoice_id",
        account.account_id,
    )


def _act(clerk: Clerk, kind: str, which: int, amount: str | None) -> bool:
    """Correct one of the documents that are there; false if it is refused."""
    numbers = _numbers(clerk.conn, clerk.account)
    number = numbers[which % len(numbers)]
    acts: dict[str, Callable[[], object]] = {
        "amount": lambda: clerk.credit(number, amount=amount),
        "line": lambda: clerk.credit(number, (1 + which % 4, amount)),
        "whole": lambda: clerk.credit(number),
        "cancel": lambda: clerk.cancel(number),
        "reissue": lambda: clerk.reissue(number),
    }
    try:
        acts[kind]()
    except (CorrectionError, LeaseHeldError):
        return False
    return True


def _check(owner: Connection[Any], account: Account) -> None:
    clerk = Clerk(owner, account)
    for number in _numbers(owner, account):
        head = clerk.head(number)
        if head.kind == "invoice":
            net, tax, gross = clerk.left(number)
            assert 0 <= gross <= head.gross_amount
            assert net + tax == gross
            assert head.state == "issued" or (net, tax, gross) == (0, 0, 0)


Round = tuple[tuple[str, int, str | None], tuple[str, int, str | None], str | None]


def test_whatever_they_do_the_books_are_right(dsn: str) -> None:
    done: list[bool] = []
    with _office(dsn) as office, Threads() as threads:

        @_ROUNDS
        @given(_PLAN)
        def at_once(plan: list[Round]) -> None:
            account = office.account()
            clerks = [Clerk(conn, account) for conn in office.clerks]
            for *corrections, other in plan:
                answers = [
                    threads.start(_act, clerk, *correction)
                    for clerk, correction in zip(clerks, corrections, strict=True)
                ]
                if other is not None:
                    wait_for(threads.start(getattr(office, other), account))
                done.extend(map(wait_for, answers))
                _check(office.owner, account)
            assert shop.findings(office.owner) == {}

        at_once()

    # Not all of it was refused, and not all went through.
    assert set(done) == {True, False}
