"""Look after the workers of a run: start them, count, replace the dead, drain.

Workers that die are replaced, a bounded number of times in a row: as long as accounts
are invoiced in between, some others are to blame, which are parked in the end. The
first SIGTERM or SIGINT lets workers finish what they commit and give the rest back; the
second ends them at once.
"""

import contextlib
import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import FrameType

from pgbill.alert import Watch
from pgbill.crew import Crew, Ended
from pgbill.errors import TemporaryError
from pgbill.job import GivenUp, Job, Tally

_LISTEN_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    done: int
    due: int
    lost: int


OnProgress = Callable[[Progress], None]
OnNotice = Callable[[str], None]
"""What to do with a sentence that a worker says."""


class Supervision:
    """The parent's part of a run: start workers, count, replace the dead, drain."""

    def __init__(
        self,
        jobs: list[Job],
        due: int,
        *,
        on_progress: OnProgress,
        on_notice: OnNotice,
        watch: Watch,
        analyze: Callable[[], None],
    ) -> None:
        """Name the work; `analyze` is called soon after the first commits."""
        self._jobs = jobs
        self._due = due
        self._on_progress = on_progress
        self._on_notice = on_notice
        self._watch = watch
        self._analyze = analyze
        self._crew = Crew()
        self._done = 0
        self._lost = 0
        self._signals = 0
        self._deaths = 0
        self._given_up: GivenUp | None = None
        self._noticed: str | None = None
        self._analyze_at = [1, due // 20]

    def supervise(self) -> None:
        """Return when all workers have ended, by themselves or by a signal.

        Raises:
            TemporaryError: Workers kept dying.
        """
        with _signals(self._on_signal):
            for job in self._jobs:
                self._crew.start(job)
            while len(self._crew):
                for news in self._crew.hear(_LISTEN_SECONDS):
                    self._take(news)
                self._on_progress(Progress(self._done, self._due, self._lost))
                self._watch.look()

    @property
    def given_up(self) -> GivenUp | None:
        """Why a worker gave up, the first of them; none if it was told to stop."""
        return None if self._signals else self._given_up

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals == 1:
            self._crew.stop()
        else:
            self._crew.kill()

    def _take(self, news: Tally | Ended) -> None:
        if isinstance(news, Tally):
            self._done += news.done_count
            self._lost += news.lost
            if news.done_count:
                self._deaths = 0
            self._notice(news.notices)
            # While the tables are small: plans made before then are mended by it.
            if self._analyze_at and self._done >= self._analyze_at[0]:
                self._analyze_at.pop(0)
                self._analyze()
        elif news.given_up is not None:
            self._given_up = self._given_up or news.given_up
        elif news.is_killed and not self._signals:
            self._replace(news)

    def _notice(self, sentences: list[str]) -> None:
        """Pass on what workers say, once if all of them say the same."""
        for sentence in sentences:
            if sentence != self._noticed:
                self._noticed = sentence
                self._on_notice(sentence)

    def _replace(self, ended: Ended) -> None:
        self._deaths += 1
        if self._deaths > 10 + 2 * len(self._jobs):
            self._crew.stop()
            raise TemporaryError(
                "workers die again and again.",
                hint="See what kills them, then start the run again; it continues.",
            )
        self._crew.start(ended.job)


@contextlib.contextmanager
def _signals(handler: Callable[[], None]) -> Generator[None]:
    def handle(_number: int, _frame: FrameType | None) -> None:
        handler()

    previous = {
        number: signal.signal(number, handle)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
