"""An invoice that is issued again asks the tax service, while nobody holds the account.

The service is a real one, on a port of this machine, whose answers the test sets.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from pgbill import bulk, reissue, roles
from pgbill.correction import Correction
from pgbill.tax import TaxAwayError
from pgbill.taxserver import Answered, TaxServer
from tests.actors import connect
from tests.builders import Account
from tests.clerk import DRY_RUN, ORDER, Clerk
from tests.shifts import job, run_shift
from tests.shop import FIRST_DAY, Shop, findings, lease_row, value, values
from tests.taxes import always, asks

pytestmark = pytest.mark.one_server


@pytest.fixture
def service() -> Iterator[TaxServer]:
    with TaxServer(rate="7") as server:
        yield server


@pytest.fixture
def clerk(dsn: str, admin: Connection[Any], service: TaxServer) -> Iterator[Clerk]:
    """Return a clerk of an account whose invoice, of 10.70, has 7 % tax."""
    account = Shop.open(admin).account(admin)
    run_shift(job(dsn, tax=asks(service)))
    with connect(dsn, roles.WORKER) as conn:
        yield Clerk(conn, account)


def _reissue(clerk: Clerk, service: TaxServer, order: Any = ORDER) -> Correction:  # noqa: ANN401
    with reissue.opened(asks(service, attempts=2)) as reissuing:
        return reissuing.reissue(clerk.conn, clerk.head("NL-000001"), order)


def _move(admin: Connection[Any], account: Account, city: str) -> None:
    admin.execute(
        "UPDATE pgbill.account SET city = %s WHERE account_id = %s",
        [city, account.account_id],
    )


def test_another_question_is_asked(
    admin: Connection[Any], clerk: Clerk, service: TaxServer
) -> None:
    """At the rate of today; the credit note has that of its invoice."""
    _move(admin, clerk.account, "Kiel")
    service.rate = "10"

    would = _reissue(clerk, service, DRY_RUN)
    done = _reissue(clerk, service)

    assert done.credit_note is not None
    assert done.invoice is not None
    assert (str(done.credit_note.gross_amount), str(done.invoice.gross_amount)) == (
        "-10.70",
        "11.00",
    )
    assert would.invoice is not None
    assert would.invoice.gross_amount == done.invoice.gross_amount
    keys = [key for key, _ in service.questions]
    assert len(keys) == 3
    assert keys[1] == keys[2] != keys[0]
    assert values(admin, "SELECT count(*) FROM pgbill.tax_answer") == [2]
    assert findings(admin) == {}


def test_the_same_question_is_asked_again(
    admin: Connection[Any], clerk: Clerk, service: TaxServer
) -> None:
    """Its answer was wrong, perhaps; each has a key of its own, and is kept."""
    service.rate = "10"
    once = _reissue(clerk, service)
    service.rate = "20"
    with reissue.opened(asks(service)) as reissuing:
        twice = reissuing.reissue(clerk.conn, clerk.head("NL-000002"), ORDER)

    assert once.invoice is not None
    assert twice.invoice is not None
    assert str(once.invoice.gross_amount) == "11.00"
    assert str(twice.invoice.gross_amount) == "12.00"
    assert len({key for key, _ in service.questions}) == 3
    assert len({str(question) for _, question in service.questions}) == 1
    assert values(
        admin,
        "SELECT answer #>> '{lines,0,rate}' FROM pgbill.tax_answer"
        " ORDER BY fencing_token",
    ) == ["7", "10", "20"]
    assert findings(admin) == {}


def test_what_changes_while_it_is_asked_is_asked_again(
    admin: Connection[Any], clerk: Clerk, service: TaxServer
) -> None:
    """The account moves again while the service thinks; nobody holds it then."""
    _move(admin, clerk.account, "Kiel")
    seen: list[object] = []

    def answer(question: dict[str, Any]) -> Answered:
        seen.append(lease_row(admin, clerk.account)["holder"])
        _move(admin, clerk.account, "Husum")
        return service.usual_answer(question)

    service.answer = answer

    done = _reissue(clerk, service)

    assert done.invoice is not None
    assert seen == [None, None]
    assert (
        value(
            admin,
            "SELECT buyer ->> 'city' FROM pgbill.invoice WHERE revision = 2",
        )
        == "Husum"
    )
    assert findings(admin) == {}


def test_a_service_that_is_away_puts_all_of_a_file_off(
    clerk: Clerk, service: TaxServer
) -> None:
    """And is waited for once, not for each."""
    service.answer = always(401)
    heads = [clerk.head("NL-000001")] * 3
    begun = time.monotonic()

    with reissue.opened(asks(service, patience_seconds=1)) as reissuing:
        outcomes = list(
            bulk.correct(
                heads,
                lambda head: reissuing.reissue(clerk.conn, head, ORDER),
                is_done=lambda _: False,
            )
        )

    assert [each.state for each in outcomes] == ["put off"] * 3
    assert "says 401" in str(outcomes[2].reason)
    assert time.monotonic() - begun < 3


def test_without_an_answer_nothing_has_changed(
    admin: Connection[Any], clerk: Clerk, service: TaxServer
) -> None:
    _move(admin, clerk.account, "Kiel")
    service.answer = always(503)
    before = lease_row(admin, clerk.account)

    with pytest.raises(TaxAwayError, match="says 503") as raised:
        _reissue(clerk, service)

    assert raised.value.exit_code == 75
    assert clerk.number(FIRST_DAY) == "NL-000001"
    assert value(admin, "SELECT count(*) FROM pgbill.invoice") == 1
    assert lease_row(admin, clerk.account) == before
