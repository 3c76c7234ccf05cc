"""Work on a run whose tax a service computes: claim, rate, ask, issue.

The worker keeps many questions in flight and issues in batches what has been answered,
so that a slow answer holds up nobody else; meanwhile all their leases are renewed. It
claims no more than it can ask, so ten thousand waiting accounts need no more memory
than a few. An answer is kept before it is used: a successor does not ask again.

While the service fails as a whole nothing new is claimed, and what is held waits. If
that takes too long the worker gives all of it back and ends: nothing has failed, and
the next run begins where this one was.
"""

import contextlib
import time
from collections.abc import Sequence
from urllib.parse import quote

from psycopg import errors

from pgbill import issuing, taxprovider
from pgbill.issuing import Answered, Asked, Billed
from pgbill.job import Job, Report
from pgbill.lease import Account, Lease, Release
from pgbill.tax import Question, TaxAwayError, TaxService
from pgbill.taxdesk import Desk, Reply
from pgbill.worker import REFUSED, Shift

_LISTEN_SECONDS = 0.05
_GATHER_SECONDS = 0.05
_LOOK_EVERY_SECONDS = 1.0
_NOTHING_TO_ASK = "{}"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


def shift(job: Job, report: Report) -> Shift:
    """Return the worker that a job needs."""
    return Shift(job, report) if job.tax is None else TaxShift(job, report, job.tax)


class TaxShift(Shift):
    """A worker that asks a tax service between rating and issuing."""

    def __init__(self, job: Job, report: Report, service: TaxService) -> None:
        """Open the desk; nobody is asked yet.

        Raises:
            ConfigError: There is no such provider.
        """
        super().__init__(job, report)
        self._service = service
        self._desk = Desk(taxprovider.of(service), service)
        self._waiting: dict[Lease, Asked] = {}
        self._ready: dict[Account, Answered] = {}
        self._is_shut = False
        self._look_at = 0.0
        self._away: TaxAwayError | None = None

    def run(self) -> None:
        """Work until nothing is due, and hang up on the service at the end.

        Raises:
            TaxAwayError: The service fails and has not recovered; all is given back.
        """
        try:
            super().run()
        finally:
            self._desk.close()
        if self._away is not None:
            raise self._away

    def _turn(self) -> bool:
        """Ask for what is new, issue what is answered, drop what is lost."""
        self._look_at_service()
        if self._away is not None:
            return False
        self._listen(0 if self._ready else _LISTEN_SECONDS)
        # The slots that have become free are used again before what came is issued.
        if batch := self._claim_more():
            self._ask(batch)
        elif not self._is_busy:
            return self._wait()
        self._issue_ready()
        self._drop_losses()
        self._forget_lost()
        self._hand_in()
        self._failing_since = None
        return True

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting or self._ready)

    def _claim_more(self) -> list[Lease]:
        """Claim for the free slots; at the end of a run, do not look all the time."""
        size = min(self._desk.free_count, self._job.batch_size)
        now = time.monotonic()
        if not size or (self._is_busy and now < self._look_at):
            return []
        batch = self._claim(size)
        if not batch:
            self._look_at = now + min(_LOOK_EVERY_SECONDS, self._job.terms.ttl / 4)
        return batch

    def _look_at_service(self) -> None:
        """Say when it begins to fail and when it is back; give it up in the end."""
        if self._desk.is_given_up:
            self._away = TaxAwayError(
                "the tax service fails and has not recovered within"
                f" {self._service.patience_seconds:g} s ({self._desk.reason}).",
                hint="Start the run again when it answers; it continues.",
            )
        if self._desk.is_shut != self._is_shut:
            self._is_shut = self._desk.is_shut
            self._tally.notices.append(
                f"the tax service fails ({self._desk.reason}): no more accounts are"
                " claimed until it answers again."
                if self._is_shut
                else "the tax service answers again."
            )

    def _ask(self, batch: Sequence[Lease]) -> None:
        """Rate what is live; ask the service, unless the answer is known."""
        live = [each for each in batch if self._renewal.is_live(each)]
        if not live:
            return
        try:
            asked = self._rate(live)
        except errors.QueryCanceled as error:
            if self._is_interrupted:
                self._is_interrupted = False
                self._ask(live)
            else:
                self._ask_each(live, error)
            return
        except REFUSED as error:
            self._ask_each(live, error)
            return
        leases = {each.account: each for each in live}
        refused = [each for each in asked if each.outcome is not None]
        self._refuse(
            [
                Release(
                    leases[each.account],
                    "parked" if each.outcome == "parked" else "failed",
                    each.problem,
                )
                for each in refused
            ]
        )
        for each in asked:
            if each.outcome is None:
                self._ask_about(leases[each.account], each)

    def _ask_each(self, refused: Sequence[Lease], error: Exception) -> None:
        """Divide what cannot be rated, down to one account."""
        if len(refused) == 1:
            self._settle(refused[0], error)
            return
        half = len(refused) // 2
        self._ask(refused[:half])
        self._ask(refused[half:])

    def _rate(self, live: Sequence[Lease]) -> list[Asked]:
        self._is_billing = True
        try:
            return issuing.rate_and_question(
                self._connection(),
                live,
                scope=self._job.scope,
                policy=self._job.policy,
            )
        finally:
            self._is_billing = False

    def _refuse(self, releases: Sequence[Release]) -> None:
        self._release(releases)
        self._tally.parked += sum(each.outcome == "parked" for each in releases)
        self._tally.failed += sum(each.outcome == "failed" for each in releases)

    def _ask_about(self, held: Lease, asked: Asked) -> None:
        if asked.question is None or asked.answer is not None:
            answer = asked.answer or _NOTHING_TO_ASK
            self._ready[held.account] = Answered(held, asked, answer)
            return
        self._waiting[held] = asked
        self._desk.ask(held, Question(asked.question, idempotency_key(asked)))

    def _listen(self, timeout_seconds: float) -> None:
        """Take the replies that have come; without an answer the account fails."""
        failed: list[Release] = []
        for reply in self._gather(timeout_seconds):
            held = reply.ticket
            assert isinstance(held, Lease)
            asked = self._waiting.pop(held)
            if reply.answer is not None:
                self._ready[held.account] = Answered(held, asked, reply.answer)
            elif self._renewal.is_live(held):
                failed.append(
                    Release(held, "failed", reply.problem, may_pass=reply.may_pass)
                )
        self._fail(failed)

    def _gather(self, timeout_seconds: float) -> list[Reply]:
        """Return what has come, a batch if there is more to come.

        Once answers come, questions are kept at hand for as many calls as will end
        before the next turn: nobody is claimed long before it can be asked for.
        """
        replies = self._desk.take(timeout_seconds=timeout_seconds)
        if replies and len(self._desk):
            self._stopping.wait(_GATHER_SECONDS)
            replies += self._desk.take(timeout_seconds=0)
        self._desk.ahead = max(2 * len(replies), self._desk.ahead // 2)
        return replies

    def _issue_ready(self) -> None:
        """Issue what is answered, a batch at most; what may kill its worker alone."""
        ready = list(self._ready.values())[: self._job.batch_size]
        if not ready:
            return
        leases = [each.lease for each in ready]
        for each in leases:
            if each.is_suspect:
                self._bill([each])
        self._bill([each for each in leases if not each.is_suspect])
        for each in leases:
            self._ready.pop(each.account, None)
        # An account with another period due comes again now.
        self._look_at = 0.0

    def _commit(self, live: Sequence[Lease]) -> list[Billed]:
        """Keep the answers, which commits, and issue: an answer is never lost."""
        self._keep([self._ready[each.account] for each in live])
        return super()._commit(live)

    def _ask_database(self, live: Sequence[Lease]) -> list[Billed]:
        return issuing.issue(
            self._connection(),
            [self._ready[each.account] for each in live],
            scope=self._job.scope,
            worker=self.worker,
            policy=self._job.policy,
        )

    def _give_back(self, leases: Sequence[Lease]) -> None:
        """Give back; what is answered by now is kept, so that nobody asks again."""
        self._listen(0)
        with contextlib.suppress(*REFUSED):
            self._keep(list(self._ready.values()))
        super()._give_back(leases)

    def _keep(self, answered: Sequence[Answered]) -> None:
        provider = self._desk.provider.name
        issuing.keep_answers(self._connection(), answered, provider=provider)

    def _forget_lost(self) -> None:
        """Drop the calls for leases that are gone."""
        held = set(self._renewal.held())
        for each in [each for each in self._waiting if each not in held]:
            del self._waiting[each]
            self._desk.drop(each)
        for account, each in list(self._ready.items()):
            if each.lease not in held:
                del self._ready[account]


def idempotency_key(asked: Asked) -> str:
    """Name account and boundary; what a header cannot carry is written as in a URL."""
    return f"{quote(asked.account_key, safe=_PRINTABLE)}/{asked.period_end}"
