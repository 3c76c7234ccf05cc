"""The service for trials behaves as it is told, the same for the same seed."""

import json
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from pgbill.tax import TaxError
from pgbill.taxanswer import check
from pgbill.taxtrial import CUT, Conduct, Trial

QUESTION: dict[str, Any] = {
    "currency": "EUR",
    "seller": {"country": "DE"},
    "buyer": {"country": "DE", "tax_status": "business"},
    "lines": [{"line_no": 1, "net_amount": "10.00"}],
}


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return what it shows."""
        return self.now


def _statuses(trial: Trial, count: int = 1_000) -> list[int]:
    return [trial.answer(QUESTION).status for _ in range(count)]


def test_it_is_well_unless_it_is_told_otherwise() -> None:
    trial = Trial(Conduct())

    assert trial.gate(QUESTION) is None
    assert trial.latency(QUESTION) == 0
    assert set(_statuses(trial)) == {200}


def test_the_same_seed_is_the_same_trial() -> None:
    conduct = Conduct(error_share=0.1, refusal_share=0.1, cut_share=0.1)

    first, again, other = (_statuses(Trial(conduct, seed=it)) for it in (1, 1, 2))

    assert first == again
    assert first != other


def test_shares_are_what_they_say() -> None:
    conduct = Conduct(error_share=0.2, error_status=500, refusal_share=0.1)

    statuses = _statuses(Trial(conduct))

    assert statuses.count(500) == pytest.approx(200, abs=40)
    assert statuses.count(422) == pytest.approx(80, abs=30)
    assert Trial(Conduct(cut_share=1)).answer(QUESTION) == CUT


def test_latencies_spread_around_their_median() -> None:
    trial = Trial(Conduct(latency_seconds=0.3, latency_spread=0.5))

    drawn = sorted(trial.latency(QUESTION) for _ in range(1_000))

    assert drawn[500] == pytest.approx(0.3, rel=0.1)
    assert drawn[990] == pytest.approx(0.96, rel=0.2)
    assert Trial(Conduct(slow_share=1, slow_seconds=9)).latency(QUESTION) == 9


@pytest.mark.parametrize("has_dates", [False, True])
def test_more_than_the_limit_is_told_to_wait(has_dates: bool) -> None:
    clock = Clock()
    conduct = Conduct(limit=2, retry_after_seconds=3, has_dates=has_dates)
    trial = Trial(conduct, clock=clock)

    replies = [trial.gate(QUESTION) for _ in range(3)]
    clock.now += 0.5
    later = trial.gate(QUESTION)

    assert replies[:2] == [None, None]
    assert later is None
    refused = replies[2]
    assert refused is not None
    assert refused.status == 429
    after = refused.headers["Retry-After"]
    assert parsedate_to_datetime(after) if has_dates else after == "3"


def test_it_is_down_for_a_while() -> None:
    clock = Clock()
    trial = Trial(Conduct(down_after_seconds=5, down_seconds=10), clock=clock)
    seen: list[bool] = []

    for now in (4.9, 5, 14.9, 15):
        clock.now = now
        seen.append(trial.gate(QUESTION) is not None)

    assert seen == [False, True, True, False]


def test_every_contradiction_is_one() -> None:
    trial = Trial(Conduct(contradiction_share=1))
    reasons: set[str] = set()

    for _ in range(50):
        answer = json.dumps(trial.answer(QUESTION).body)
        with pytest.raises(TaxError) as raised:
            check(json.dumps(QUESTION), answer)
        reasons.add(raised.value.message[:40])

    assert len(reasons) == 4
