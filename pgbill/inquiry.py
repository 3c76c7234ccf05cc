"""Ask a tax service for a dry run, under lease, and keep what it answers.

The run that follows uses the answers and asks nobody again. A lease is held from before
an account is asked for until its answer is kept, and renewed meanwhile: nobody else
asks at the same moment, and an answer that comes after the lease is lost is not kept.
Nothing else is written, and the leases are given back.
"""

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import Connection

from pgbill import clock, issuing, lease, taxing, taxprovider
from pgbill.issuing import Answered, Asked
from pgbill.lease import Account, Lease, Release, Scope, Worker
from pgbill.renewal import Renewal, Terms
from pgbill.tax import Question, TaxAwayError, TaxService
from pgbill.taxdesk import Desk

_LISTEN_SECONDS = 0.1
_NO_CAP = 1_000_000
"""Asking is no attempt to invoice: it parks nobody."""


class Inquiry:
    """Questions to a tax service, and the leases under which they are asked."""

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        service: TaxService,
        terms: Terms,
        scope: Scope,
    ) -> None:
        """Name whom to ask, and how long leases live; nobody is asked yet."""
        self._connect = connect
        self._service = service
        self._terms = terms
        self._scope = scope
        self._worker = Worker.of_this_process()

    def ask(self, questions: Sequence[Asked]) -> dict[Account, str]:
        """Ask all, keep the answers, and return why some have none.

        Raises:
            TaxAwayError: The service fails and has not recovered; what was answered
                is kept.
        """
        desk = Desk(taxprovider.of(self._service), self._service)
        conn = self._connect()
        renewal = Renewal(self._connect, self._terms, on_loss=lambda: None)
        try:
            with renewal:
                return self._ask_all(conn, desk, renewal, list(questions)[::-1])
        finally:
            desk.close()
            self._give_back(conn, renewal)
            conn.close()

    def _ask_all(
        self,
        conn: Connection[Any],
        desk: Desk,
        renewal: Renewal,
        left: list[Asked],
    ) -> dict[Account, str]:
        problems: dict[Account, str] = {}
        waiting: dict[Lease, Asked] = {}
        while left or waiting:
            if desk.is_given_up:
                raise TaxAwayError(
                    f"the tax service fails and has not recovered ({desk.reason}).",
                    hint="Start the dry run again when it answers.",
                )
            while left and desk.free_count > 0:
                asked = left.pop()
                held = self._claim(conn, renewal, asked)
                if held is None:
                    problems[asked.account] = "another worker has claimed the account"
                    continue
                waiting[held] = asked
                key = taxing.idempotency_key(asked)
                desk.ask(held, Question(asked.question or "", key))
            self._listen(conn, desk, renewal, waiting, problems)
        return problems

    def _claim(
        self, conn: Connection[Any], renewal: Renewal, asked: Asked
    ) -> Lease | None:
        since = clock.seconds()
        claimed = lease.claim(
            conn,
            bucket=asked.bucket,
            scope=Scope(self._scope.run_id, self._scope.through_on, asked.account),
            worker=self._worker,
            ttl_seconds=self._terms.ttl,
            limit=1,
            max_attempts=_NO_CAP,
        )
        renewal.hold(claimed, since=since)
        return claimed[0] if claimed else None

    def _listen(
        self,
        conn: Connection[Any],
        desk: Desk,
        renewal: Renewal,
        waiting: dict[Lease, Asked],
        problems: dict[Account, str],
    ) -> None:
        """Take the replies that have come, keep the answers, give the leases back."""
        answered: list[Answered] = []
        done: list[Lease] = []
        for reply in desk.take(timeout_seconds=_LISTEN_SECONDS):
            held = reply.ticket
            assert isinstance(held, Lease)
            asked = waiting.pop(held)
            done.append(held)
            if reply.answer is None:
                problems[held.account] = reply.problem or "there is no answer"
            else:
                answered.append(Answered(held, asked, reply.answer))
        issuing.keep_answers(conn, answered, provider=desk.provider.name)
        self._release(conn, renewal, done)

    def _give_back(self, conn: Connection[Any], renewal: Renewal) -> None:
        held = renewal.held()
        if held:
            self._release(conn, renewal, held)

    def _release(
        self, conn: Connection[Any], renewal: Renewal, leases: Sequence[Lease]
    ) -> None:
        gone = [Release(each, "given_back", "asked for its tax") for each in leases]
        lease.release(conn, gone, max_attempts=_NO_CAP)
        renewal.drop(leases)
