"""Workers whose steps a test takes one by one, on real connections.

An `Actor` calls the functions of `pgbill.lease` and `pgbill.issuing` as a worker does.
On the connection of the `conn` fixture several actors share one transaction, which is
enough where nobody waits for a lock; `on_duty` gives each a connection of its own. That
somebody waits is never guessed by sleeping: `wait_until_blocked` asks the server.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ParamSpec, TypeVar

from psycopg import Connection, conninfo

from pgbill import db, issuing, lease, roles
from pgbill.issuing import Billed, Policy
from pgbill.lease import Lease, Release, Scope, Worker
from tests.builders import Account
from tests.shop import FIRST_DAY

HOUR = 3600.0
EXPIRED = 0.0
"""A time to live that is over when the claim returns."""
PATIENCE_SECONDS = 20

POLICY = Policy(mode="live", issue_on=None, max_due_periods=3, max_attempts=5)

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


def connect(dsn: str, role: str | None = None) -> Connection[Any]:
    """Connect so that no test hangs: a statement waits for so long and no longer."""
    patient = f"-c statement_timeout={PATIENCE_SECONDS}s"
    return db.connect(
        conninfo.make_conninfo(dsn, options=patient), role=role, application="test"
    )


@dataclass(frozen=True, slots=True)
class Actor:
    """A worker, moved by a test."""

    conn: Connection[Any]
    name: str = "worker"
    scope: Scope = Scope(1, FIRST_DAY)  # noqa: RUF009
    policy: Policy = POLICY
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        """Draw an identity."""
        object.__setattr__(self, "worker", Worker(uuid.uuid4(), self.name))

    def claim(
        self, account: Account, *, ttl_seconds: float = HOUR, limit: int = 100
    ) -> list[Lease]:
        """Claim from the account's bucket, as a run over everything does."""
        return lease.claim(
            self.conn,
            bucket=account.bucket,
            scope=self.scope,
            worker=self.worker,
            ttl_seconds=ttl_seconds,
            limit=limit,
            max_attempts=self.policy.max_attempts,
        )

    def claim_one(self, account: Account, *, ttl_seconds: float = HOUR) -> Lease:
        """Claim exactly this account."""
        scope = Scope(
            self.scope.run_id,
            self.scope.through_on,
            (account.bucket, account.account_id),
        )
        (claimed,) = lease.claim(
            self.conn,
            bucket=account.bucket,
            scope=scope,
            worker=self.worker,
            ttl_seconds=ttl_seconds,
            limit=1,
            max_attempts=self.policy.max_attempts,
        )
        return claimed

    def bill(self, *leases: Lease) -> list[Billed]:
        """Rate and issue; the transaction is that of the connection."""
        return issuing.bill(
            self.conn,
            leases,
            scope=self.scope,
            worker=self.worker,
            policy=self.policy,
        )

    def outcomes(self, *leases: Lease) -> list[str]:
        """Bill, and return the outcomes alone."""
        return [each.outcome for each in self.bill(*leases)]

    def renews(self, held: Lease, *, ttl_seconds: float = HOUR) -> bool:
        """Renew; false if the lease is lost."""
        return not lease.renew(self.conn, [held], ttl_seconds=ttl_seconds)

    def release(
        self,
        held: Lease,
        outcome: lease.Outcome = "given_back",
        detail: str | None = None,
    ) -> None:
        """Let go."""
        lease.release(
            self.conn,
            [Release(held, outcome, detail)],
            max_attempts=self.policy.max_attempts,
        )


@contextlib.contextmanager
def on_duty(dsn: str, name: str = "worker", **options: Any) -> Generator[Actor]:  # noqa: ANN401
    """Give an actor a connection of its own, with the rights of a worker."""
    with contextlib.closing(connect(dsn, roles.WORKER)) as conn:
        yield Actor(conn, name, **options)


def bill_all(
    conn: Connection[Any],
    *accounts: Account,
    through_on: date | None = FIRST_DAY,
    policy: Policy = POLICY,
    run_id: int = 1,
) -> list[str]:
    """Bill whatever is due for these accounts, period by period; return outcomes."""
    actor = Actor(conn, "clerk", Scope(run_id, through_on), policy)
    outcomes: list[str] = []
    for account in accounts:
        while claimed := _claim_of(actor, account):
            outcomes += actor.outcomes(*claimed)
    return outcomes


def _claim_of(actor: Actor, account: Account) -> Sequence[Lease]:
    try:
        return [actor.claim_one(account)]
    except ValueError:
        return []


def expire(conn: Connection[Any], account: Account) -> None:
    """Let the account's lease be over now; needs the rights of the owner."""
    done = conn.execute(
        "UPDATE pgbill.lease SET expires_at = clock_timestamp() - interval '1 ms'"
        " WHERE bucket = %s AND account_id = %s AND worker_id IS NOT NULL",
        [account.bucket, account.account_id],
    )
    assert done.rowcount == 1, "nobody holds the lease"


class Threads:
    """Steps that may block, each in a thread; a context manager that joins them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._pool = ThreadPoolExecutor(max_workers=16)

    def __enter__(self) -> "Threads":
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for all; the statement timeout ends what hangs."""
        self._pool.shutdown()

    def start(
        self,
        step: Callable[Given, Answer],
        /,
        *args: Given.args,
        **options: Given.kwargs,
    ) -> "Future[Answer]":
        """Begin a step."""
        return self._pool.submit(step, *args, **options)


def wait_until_blocked(observer: Connection[Any], blocked: Connection[Any]) -> None:
    """Return when another session holds up what `blocked` is doing."""
    _wait(lambda: is_blocked(observer, blocked), "nobody waits for a lock")


def is_blocked(observer: Connection[Any], blocked: Connection[Any]) -> bool:
    """Tell whether another session holds up what `blocked` is doing."""
    row = observer.execute(
        "SELECT cardinality(pg_blocking_pids(%s)) > 0", [blocked.info.backend_pid]
    ).fetchone()
    return row is not None and bool(row[0])


def wait_for(answer: "Future[Answer]") -> Answer:
    """Return the answer of a step that is not blocked any more."""
    return answer.result(timeout=PATIENCE_SECONDS)


def _wait(is_so: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.005)
