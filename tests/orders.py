"""A small model of two workers over one account, and all orders of their steps.

The model knows what the protocol promises, and nothing of SQL: who holds the newest
token, whether the lease is over, who has something open. `every_order` goes through all
that two workers can do, and says after each step what its worker must be told. A claim
and an issue are split into what comes before their commit and the commit, where the
other worker can come between.

A goes first, as somebody must. A may be slow (its lease expires), may come to its
senses (it renews) and may die before its commit; B may renew, and neither expires nor
dies, since nobody is left to take over from B.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Name = Literal["A", "B"]
Phase = Literal["new", "claiming", "holding", "issuing", "waiting", "gone"]
Action = Literal[
    "claims",
    "has claimed",
    "expires",
    "renews",
    "issues",
    "commits",
    "releases",
    "dies",
]


@dataclass(frozen=True, slots=True)
class Worker:
    """Where a worker is in its work; `waiting` for the lock of the other."""

    phase: Phase = "new"
    has_renewed: bool = False
    has_expired: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What has committed, and what the two are at."""

    newest: Name | None = None
    """Whose token is the newest; none: it was burned, or nobody has claimed yet."""
    is_over: bool = False
    invoiced_by: Name | None = None
    a: Worker = Worker()
    b: Worker = Worker()

    def worker(self, name: Name) -> Worker:
        """Return a worker."""
        return self.a if name == "A" else self.b

    def having(self, name: Name, worker: Worker) -> "State":
        """Put a worker in its place."""
        return replace(self, a=worker) if name == "A" else replace(self, b=worker)

    @property
    def is_locked(self) -> bool:
        """Whether one of the two has something open."""
        return {self.a.phase, self.b.phase} & {"claiming", "issuing"} != set()

    @property
    def is_claimable(self) -> bool:
        """Whether a claim must return the account."""
        is_free = self.newest is None or self.is_over
        return is_free and self.invoiced_by is None and not self.is_locked


@dataclass(frozen=True, slots=True)
class Step:
    """What a worker does, what it is told, and how things stand then."""

    name: Name
    action: Action
    told: str
    after: State

    def __str__(self) -> str:
        """Write it as the table does."""
        return f"{self.name} {self.action}" + (f": {self.told}" if self.told else "")


Order = tuple[Step, ...]


def every_order(state: State | None = None, before: Order = ()) -> Iterator[Order]:
    """Go through all orders, each until neither worker has anything left to do."""
    following = list(_following(state or State()))
    if not following:
        yield before
    for step in following:
        yield from every_order(step.after, (*before, step))


def line(order: Order) -> str:
    """Write an order as a line of the table."""
    invoiced_by = order[-1].after.invoiced_by
    end = f"invoiced by {invoiced_by}" if invoiced_by else "open"
    return f"{', '.join(map(str, order))} -> {end}"


def _following(state: State) -> Iterator[Step]:
    for name in ("A", "B"):
        phase = state.worker(name).phase
        if phase == "new" and (name == "A" or state.a.phase != "new"):
            yield from _claim(state, name)
        elif phase == "claiming":
            yield _commit_claim(state, name)
        elif phase == "holding":
            yield from _expire(state, name)
            yield from _renew(state, name)
            yield _issue(state, name)
            yield _release(state, name)
        elif phase == "issuing":
            yield from _renew(state, name)
            yield from _end(state, name)
        elif phase == "waiting":
            yield from _renew(state, name)


def _other(name: Name) -> Name:
    return "B" if name == "A" else "A"


def _moved(state: State, name: Name, phase: Phase) -> State:
    return state.having(name, replace(state.worker(name), phase=phase))


def _claim(state: State, name: Name) -> Iterator[Step]:
    if not state.is_claimable:
        return
    claiming = _moved(state, name, "claiming")
    if name == "B":
        yield Step(name, "claims", "", claiming)
    else:
        yield replace(_commit_claim(claiming, name), action="claims")


def _commit_claim(state: State, name: Name) -> Step:
    """The other may have waited to see this; now it sees that it has lost."""
    after = replace(_moved(state, name, "holding"), newest=name, is_over=False)
    other = _other(name)
    if state.worker(other).phase == "waiting":
        after = _moved(after, other, "gone")
    return Step(name, "has claimed", "", after)


def _expire(state: State, name: Name) -> Iterator[Step]:
    worker = state.worker(name)
    is_free_to = state.newest == name and not state.is_locked and name == "A"
    if is_free_to and not worker.has_expired:
        after = state.having(name, replace(worker, has_expired=True))
        yield Step(name, "expires", "", replace(after, is_over=True))


def _renew(state: State, name: Name) -> Iterator[Step]:
    """Lost means another token; a lock only means that nothing is extended."""
    worker = state.worker(name)
    if worker.has_renewed:
        return
    after = state.having(name, replace(worker, has_renewed=True))
    if state.newest != name:
        yield Step(name, "renews", "lost", _moved(after, name, "gone"))
    elif state.is_locked:
        yield Step(name, "renews", "held", after)
    else:
        yield Step(name, "renews", "held", replace(after, is_over=False))


def _issue(state: State, name: Name) -> Step:
    if state.newest != name:
        return Step(name, "issues", "lost", _moved(state, name, "gone"))
    if state.is_locked:
        return Step(name, "issues", "waits", _moved(state, name, "waiting"))
    return Step(name, "issues", "", _moved(state, name, "issuing"))


def _release(state: State, name: Name) -> Step:
    if state.newest != name:
        return Step(name, "releases", "lost", _moved(state, name, "gone"))
    if state.is_locked:
        return Step(name, "releases", "waits", _moved(state, name, "waiting"))
    after = replace(_moved(state, name, "gone"), newest=None, is_over=False)
    return Step(name, "releases", "", after)


def _end(state: State, name: Name) -> Iterator[Step]:
    gone = _moved(state, name, "gone")
    done = replace(gone, newest=None, is_over=False, invoiced_by=name)
    yield Step(name, "commits", "", done)
    if name == "A":
        yield Step(name, "dies", "", gone)
