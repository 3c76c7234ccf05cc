"""Issue an invoice again, with what is known today.

Its period is rated anew: subscriptions, prices, address and policies are those of
today, but the usage is what the closing had seen; what came later stays for the next
invoice. If a tax service is to be asked, the database says what, undoes all, and is
told the answer with the next try: so nobody holds a lease while a service takes its
minutes, and what has changed meanwhile is asked about again.
"""

import contextlib
from collections.abc import Generator
from typing import Any
from urllib.parse import quote

from psycopg import Connection

from pgbill import correction, taxprovider
from pgbill.correction import Correction, Order, Told
from pgbill.errors import TemporaryError
from pgbill.invoice import Header
from pgbill.tax import Question, TaxAwayError, TaxError, TaxService
from pgbill.taxdesk import Desk

_LISTEN_SECONDS = 0.5
_QUESTIONS = 5
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


class Reissuing:
    """A way to issue again; the tax service, if there is one, is asked through it."""

    def __init__(self, desk: Desk | None) -> None:
        """Take the desk to ask at; none: the table of rates."""
        self._desk = desk
        self._away: TaxAwayError | None = None

    def reissue(
        self, conn: Connection[Any], invoice: Header, order: Order
    ) -> Correction:
        """Issue an invoice again; cancel it before if that is not done.

        It commits: `conn` must be in autocommit mode.

        Raises:
            CorrectionError: It cannot be; nothing has changed.
            LeaseHeldError: A worker holds the account.
            TaxAwayError: The tax service has no answer now; nothing has changed.
            TaxError: It has none at all.
        """
        told = self._try(conn, invoice, order, None, None)
        for _ in range(_QUESTIONS):
            if "question" not in told:
                return _read(invoice, order, told)
            answer = self._answer(told, invoice)
            told = self._try(conn, invoice, order, told["question_hash"], answer)
        raise TemporaryError(
            f"what {invoice.number} would bill changes while its tax is asked for.",
            hint="Try again when the import has ended.",
        )

    def _try(
        self,
        conn: Connection[Any],
        invoice: Header,
        order: Order,
        question_hash: str | None,
        answer: str | None,
    ) -> Told:
        told = correction.write(
            conn,
            "reissue",
            invoice,
            order,
            tax_by_table=self._desk is None,
            question_hash=question_hash,
            answer=answer,
            provider=None if self._desk is None else self._desk.provider.name,
        )
        assert told is not None
        return told

    def _answer(self, told: Told, invoice: Header) -> str:
        """Ask, and wait, as long as we are patient with the service: once for all."""
        assert self._desk is not None
        if self._away is not None:
            raise self._away
        key = f"{quote(told['account_key'], safe=_PRINTABLE)}/{told['period_end']}"
        # The service may know the question of the invoice by its key: this is another.
        key = f"{key}/{told['question_hash'][:16]}"
        self._desk.ask(invoice.invoice_id, Question(told["question"], key))
        while not (replies := self._desk.take(timeout_seconds=_LISTEN_SECONDS)):
            if self._desk.is_given_up:
                self._desk.drop(invoice.invoice_id)
                self._away = _away(self._desk.reason)
                raise self._away
        (reply,) = replies
        if reply.answer is not None:
            return reply.answer
        problem = reply.problem or self._desk.reason
        raise _away(problem) if reply.may_pass else TaxError(problem)


def _away(reason: str) -> TaxAwayError:
    return TaxAwayError(
        f"there is no answer about the tax ({reason}); nothing has changed.",
        hint="Try again when the service answers.",
    )


@contextlib.contextmanager
def opened(service: TaxService | None) -> Generator[Reissuing]:
    """Give a way to issue again; at its end the service is hung up on."""
    if service is None:
        yield Reissuing(None)
        return
    with contextlib.closing(Desk(taxprovider.of(service), service)) as desk:
        yield Reissuing(desk)


def _read(invoice: Header, order: Order, told: Told) -> Correction:
    again = told["invoice"]
    note = correction.document(told["credit_note"]) if told["credit_note"] else None
    return Correction(
        invoice.number,
        invoice.gross_amount,
        order.is_dry_run,
        note,
        correction.document(again),
        correction.left_before(invoice, note),
    )
