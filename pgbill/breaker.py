"""Notice that a whole service fails, and leave it alone until it answers again.

An account whose call fails is tried again by itself. But when a third of the recent
calls fail, it is the service that is ill: more calls would make it worse, and would use
up the attempts of accounts that are all right. Then the breaker opens and nobody is let
through. After a rest a single call is, the probe: if it is answered the breaker closes,
else it rests longer. A service that asks for fewer calls is left alone for as long as
it says, which is no failure. One that has let nobody in so far, since the token or the
address is wrong, is known for it after very few calls.

It is arithmetic with a clock that is given to it: it neither waits nor calls. Whoever
wants to call asks `admit`, and tells with the pass what came of it.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

RECENT = 30
"""So many calls are looked at."""
AT_LEAST = 10
"""Fewer of them say nothing about a service."""
DENIALS = 3
"""So many are enough if there was nothing else yet: a small run makes no more calls."""
_LONGEST_REST = 32
"""In rests: each probe that fails doubles the rest, up to this."""
_PATIENT_SECONDS = 1.0


@dataclass(frozen=True, eq=False, slots=True)
class Pass:
    """The leave to make one call."""

    era: int
    """How often the breaker had opened by then: older calls say nothing new."""
    is_probe: bool


class Breaker:
    """What is known of a service from the calls of one worker. Not for many threads."""

    def __init__(
        self, *, rest_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin closed."""
        self.reason: str | None = None
        """What went wrong last."""
        self._rest_seconds = rest_seconds
        self._clock = clock
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._era = 0
        self._opened_at: float | None = None
        self._limited_at: float | None = None
        self._silent_until = 0.0
        self._rests = 1
        self._probe: Pass | None = None
        self._was_let_in = False

    @property
    def is_open(self) -> bool:
        """Whether the service is left alone because it fails."""
        return self._opened_at is not None

    @property
    def trouble_seconds(self) -> float:
        """For how long there has been no getting through, 0 if there is."""
        since = [at for at in (self._opened_at, self._limited_at) if at is not None]
        return self._clock() - min(since) if since else 0.0

    @property
    def wait_seconds(self) -> float:
        """How long to wait before `admit` is worth asking again."""
        left = self._silent_until - self._clock()
        return left if left > 0 else min(_PATIENT_SECONDS, self._rest_seconds / 4)

    def admit(self) -> Pass | None:
        """Return the leave to make a call now, or none."""
        if self._clock() < self._silent_until or self._probe is not None:
            return None
        admitted = Pass(self._era, self.is_open)
        if admitted.is_probe:
            self._probe = admitted
        return admitted

    def succeeded(self, admitted: Pass) -> None:
        """Learn that the service has answered, whatever it said."""
        self._was_let_in = True
        if self._is_news(admitted):
            self._limited_at = None
            self._count(admitted, fails=False)

    def failed(self, admitted: Pass, reason: str) -> None:
        """Learn that it did not, through a fault of its own."""
        self._was_let_in = True
        self.denied(admitted, reason)

    def denied(self, admitted: Pass, reason: str) -> None:
        """Learn that it lets us in with no call, whatever it is about."""
        if self._is_news(admitted):
            self.reason = reason
            self._limited_at = None
            self._count(admitted, fails=True)

    def limited(self, admitted: Pass, seconds: float, reason: str) -> None:
        """Learn that it wants no call at all for so long."""
        now = self._clock()
        self.reason = reason
        self._silent_until = max(self._silent_until, now + seconds)
        if self._limited_at is None:
            self._limited_at = now
        self.withdrawn(admitted)

    def withdrawn(self, admitted: Pass) -> None:
        """Learn that the call was dropped, and says nothing about the service."""
        if self._probe is admitted:
            self._probe = None

    def _is_news(self, admitted: Pass) -> bool:
        return admitted.era == self._era and admitted.is_probe == self.is_open

    def _count(self, admitted: Pass, *, fails: bool) -> None:
        if admitted.is_probe:
            self._probe = None
            self._rest_longer() if fails else self._close()
            return
        self._recent.append(fails)
        seen = len(self._recent)
        enough = AT_LEAST if self._was_let_in else DENIALS
        if fails and seen >= enough and 3 * sum(self._recent) >= seen:
            self._open()

    def _open(self) -> None:
        now = self._clock()
        self._era += 1
        self._opened_at = now
        self._silent_until = now + self._rest_seconds
        self._recent.clear()

    def _rest_longer(self) -> None:
        self._rests = min(2 * self._rests, _LONGEST_REST)
        self._silent_until = self._clock() + self._rests * self._rest_seconds

    def _close(self) -> None:
        self._era += 1
        self._opened_at = None
        self._rests = 1
