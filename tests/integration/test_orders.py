"""Whatever the order of two workers over one account: one invoice, or work still open.

`orders.txt` lists every order that the protocol allows, with what each worker is told,
as the model in `tests/orders.py` has it. Each line is played on real connections, step
by step: where a step must wait for the other worker's commit, it is seen to wait. In
between a third worker tries to get hold of the account whenever it must not, and at the
end it finishes what was left open.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import roles
from pgbill.lease import Lease
from tests import orders
from tests.actors import (
    Actor,
    Threads,
    connect,
    expire,
    is_blocked,
    on_duty,
    wait_for,
)
from tests.builders import Account
from tests.orders import Name, Order, Step
from tests.servers import DatabaseServer
from tests.shop import (
    FIRST_DAY,
    Shop,
    books,
    findings,
    lease_row,
    numbers,
    run_sql,
    value,
)

_TABLE = Path(__file__).with_name("orders.txt")
_ORDERS = dict(sorted((orders.line(each), each) for each in orders.every_order()))


@dataclass
class Worker:
    """A worker on stage: one connection for its work, one for its renewals."""

    main: Actor
    beside: Actor
    held: Lease | None = None
    waiting: "Future[bool] | None" = None
    """Whether it got what it waits for."""


@dataclass
class Stage:
    """Two workers over one account, a third one, and the owner, who only looks."""

    owner: Connection[Any]
    third: Actor
    threads: Threads
    shop: Shop
    workers: dict[Name, Worker]
    account: Account = field(init=False)

    def play(self, order: Order) -> str:
        """Play an order on an account of its own; return the line that it makes."""
        self.account = self.shop.account(self.owner)
        played = [self._play(step) for step in order]
        invoiced = len(books(self.owner, self.account).invoiced)
        assert invoiced == (order[-1].after.invoiced_by is not None)
        return ", ".join(played)

    def finish(self) -> None:
        """Let the third worker do what is left."""
        if lease_row(self.owner, self.account)["holder"] is not None:
            expire(self.owner, self.account)
        for held in self.third.claim(self.account):
            assert self.third.outcomes(held) == ["invoiced"]

    def _play(self, step: Step) -> str:
        worker = self.workers[step.name]
        told = self._act(worker, step)
        for other in self.workers.values():
            if other.waiting and not is_blocked(self.owner, other.main.conn):
                assert wait_for(other.waiting) is False, "it got what it had lost"
                other.main.conn.execute("COMMIT")
                other.waiting = None
        if not step.after.is_claimable:
            assert self.third.claim(self.account) == []
        return f"{step.name} {step.action}" + (f": {told}" if told else "")

    def _act(self, worker: Worker, step: Step) -> str:
        main = worker.main
        match step.action:
            case "claims":
                main.conn.execute("BEGIN")
                (worker.held,) = main.claim(self.account)
                if step.name == "A":
                    main.conn.execute("COMMIT")
            case "expires":
                expire(self.owner, self.account)
            case "renews":
                assert worker.held
                return "held" if worker.beside.renews(worker.held) else "lost"
            case "issues" | "releases":
                return self._try(worker, step)
            case "dies":
                main.conn.execute("ROLLBACK")
            case "has claimed" | "commits":
                main.conn.execute("COMMIT")
        return ""

    def _try(self, worker: Worker, step: Step) -> str:
        """Act in a transaction; it stays open if another must be waited for."""
        act = self._issue if step.action == "issues" else self._release
        conn = worker.main.conn
        conn.execute("BEGIN")
        answer = self.threads.start(act, worker)
        while not answer.done():
            if is_blocked(self.owner, conn):
                worker.waiting = answer
                return "waits"
        if not wait_for(answer):
            conn.execute("COMMIT")
            return "lost"
        if step.action == "releases":
            conn.execute("COMMIT")
        return ""

    @staticmethod
    def _issue(worker: Worker) -> bool:
        assert worker.held
        return worker.main.outcomes(worker.held) == ["invoiced"]

    @staticmethod
    def _release(worker: Worker) -> bool:
        assert worker.held
        worker.main.release(worker.held)
        told: bool = value(
            worker.main.conn,
            "SELECT EXISTS (SELECT FROM pgbill.lease_event WHERE bucket = %s"
            " AND account_id = %s AND kind = 'released' AND fencing_token = %s)",
            *worker.held.account,
            worker.held.fencing_token,
        )
        return told


@pytest.fixture(scope="module")
def stage(server: DatabaseServer, template: str) -> Iterator[Stage]:
    """Return a stage whose database all orders share; afterwards it is audited."""
    with contextlib.closing(server.connect()) as admin:
        name = f"{template}_orders"
        run_sql(admin, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        dsn = server.dsn(name)
        with ExitStack() as stack:
            owner = stack.enter_context(connect(dsn, roles.OWNER))
            workers = [
                Worker(
                    stack.enter_context(on_duty(dsn, name)),
                    stack.enter_context(on_duty(dsn, name)),
                )
                for name in ("A", "B")
            ]
            yield Stage(
                owner,
                stack.enter_context(on_duty(dsn, "third")),
                stack.enter_context(Threads()),
                Shop.open(owner),
                {"A": workers[0], "B": workers[1]},
            )
            assert findings(owner) == {}
        run_sql(admin, f'DROP DATABASE "{name}" WITH (FORCE)')


def test_the_table_lists_every_order() -> None:
    assert _TABLE.read_text(encoding="utf-8").splitlines() == list(_ORDERS)


@pytest.mark.parametrize(
    "line", _ORDERS, ids=[f"line {number}" for number, _ in enumerate(_ORDERS, 1)]
)
def test_there_is_one_invoice_or_work_is_open(stage: Stage, line: str) -> None:
    played = stage.play(_ORDERS[line])

    assert played == line.partition(" -> ")[0]

    stage.finish()
    written = books(stage.owner, stage.account)
    assert (written.periods, written.invoiced) == ([FIRST_DAY], [FIRST_DAY])
    assert written.messages == 1
    issued = numbers(stage.owner, stage.shop.seller_id)
    assert issued == list(range(1, len(issued) + 1))
    assert findings(stage.owner) == {}
