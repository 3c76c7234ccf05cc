"""Prices, policies and usage drawn by hypothesis, for laws that hold for any figures.

Amounts have up to four decimals, so that rounding has something to do, and quantities
two. A price of each model is drawn by its columns, as a catalog would have stored it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from psycopg import Connection

from tests.builders import Tier

ROUNDINGS = ("half_up", "half_down", "half_even", "down", "floor")
BY_SUM = (
    *("per_unit", "package", "graduated", "volume", "stairstep"),
    *("stairstep_cumulative", "capacity", "graduated_percentage"),
)
"""Models by which the sum of the records is priced."""
MODELS = (*BY_SUM, "percentage")

Terms = dict[str, Any]


def law(max_examples: int) -> settings:
    """Take so many examples, each of which the test rolls back."""
    return settings(
        max_examples=max_examples,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )


@contextmanager
def example(conn: Connection[Any]) -> Generator[Connection[Any]]:
    """Roll back what an example has written."""
    with conn.transaction(force_rollback=True):
        yield conn


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a price costs."""

    model: str
    amount: str = "0"
    tiers: list[Tier] | None = None
    terms: Terms = field(default_factory=dict[str, Any])

    @property
    def columns(self) -> Terms:
        """What `builders.price` takes besides the amount."""
        return {"model": self.model, "tiers": self.tiers, "terms": self.terms}

    @property
    def is_limited(self) -> bool:
        """Whether it has a minimum or a maximum."""
        return bool(self.terms.keys() & {"minimum_amount", "maximum_amount"})


def decimals(low: str, high: str, *, places: int) -> SearchStrategy[str]:
    """Draw numbers as text, of at most so many decimals."""
    scale = 10**places
    whole = st.integers(int(Decimal(low) * scale), int(Decimal(high) * scale))
    return whole.map(lambda number: f"{Decimal(number).scaleb(-places):f}")


AMOUNTS = decimals("0", "20", places=4)
QUANTITIES = decimals("0", "60", places=2)
_LIMITS = st.none() | decimals("0", "150", places=2).map(Decimal)


@st.composite
def prices(draw: DrawFn, *models: str) -> Drawn:
    """Draw a price of one of the models, maybe with a minimum or a maximum."""
    model = draw(st.sampled_from(models))
    drawn = Drawn(model, draw(AMOUNTS), _tiers_of(draw, model), _terms(draw, model))
    least, more = draw(_LIMITS), draw(_LIMITS)
    limits: Terms = {}
    if least is not None:
        limits["minimum_amount"] = least
    if more is not None:
        limits["maximum_amount"] = (least or Decimal(0)) + more
    return replace(drawn, terms=drawn.terms | limits)


def _tiers_of(draw: DrawFn, model: str) -> list[Tier] | None:
    if model in ("per_unit", "package", "percentage"):
        return None
    if model == "capacity":
        included = draw(decimals("1", "50", places=1))
        return [(included, "0", draw(AMOUNTS)), (None, draw(AMOUNTS), "0")]
    units = st.just("0") if model.startswith("stairstep") else AMOUNTS
    return draw(tiers(units, AMOUNTS))


@st.composite
def tiers(
    draw: DrawFn, units: SearchStrategy[str], flats: SearchStrategy[str]
) -> list[Tier]:
    """Draw one to four tiers, the last of which has no end."""
    ends = sorted(draw(st.sets(st.integers(1, 500), max_size=3)))
    up_tos = [*(f"{end / 10}" for end in ends), None]
    return [(up_to, draw(units), draw(flats)) for up_to in up_tos]


def _terms(draw: DrawFn, model: str) -> Terms:
    if model == "per_unit":
        return {"per_quantity": draw(st.sampled_from([1, 7]))}
    if model == "package":
        size = draw(decimals("0.5", "20", places=1))
        return {"package_size": size, "free_quantity": draw(st.integers(0, 10))}
    if model == "percentage":
        return {
            "fixed_amount": draw(AMOUNTS),
            "free_amount": draw(st.none() | st.integers(0, 80)),
            "free_count": draw(st.none() | st.integers(0, 3)),
            "record_maximum": draw(st.none() | st.integers(20, 90)),
        }
    return {"bills_zero": True if model == "capacity" else draw(st.booleans())}


@st.composite
def policies(draw: DrawFn) -> Terms:
    """Draw how lines, parts and taxes are rounded."""
    return {
        "line_rounding": draw(st.sampled_from(ROUNDINGS)),
        "tax_rounding": draw(st.sampled_from(ROUNDINGS)),
        "tax_rounding_scope": draw(st.sampled_from(["line", "rate", "total"])),
        "proration": draw(st.sampled_from(["actual", "second", "actual_30", "30_360"])),
        "negative_total": "credit_note",
    }


@dataclass(frozen=True, slots=True)
class Sale:
    """What an account is billed for in a month."""

    policy: Terms
    tax_included: bool
    used: list[tuple[Drawn, str, list[str]]]
    """Prices, each with its tax class and the usage records."""
    charges: list[tuple[str, str]]
    """Amounts, each with its tax class."""
    discounts: list[tuple[str, str]]


DISCOUNTS = st.lists(
    st.tuples(st.sampled_from(["percent", "amount"]), decimals("1", "99", places=2)),
    max_size=3,
)


def sales(*tax_classes: str) -> SearchStrategy[Sale]:
    """Draw what an account is billed for."""
    tax_class = st.sampled_from(tax_classes)
    records = st.lists(QUANTITIES, max_size=3)
    charge = st.tuples(decimals("-50", "50", places=3), tax_class)
    return st.builds(
        Sale,
        policies(),
        st.booleans(),
        st.lists(
            st.tuples(prices(*MODELS), tax_class, records), min_size=1, max_size=3
        ),
        st.lists(charge, max_size=2),
        DISCOUNTS,
    )
