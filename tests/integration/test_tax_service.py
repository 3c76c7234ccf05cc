"""A tax service may be slow, wrong or away: an account is invoiced once, or says why.

The service is a real one, on a port of this machine, whose latency and answers the test
sets.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from psycopg import Connection

from pgbill.issuing import Billed
from pgbill.lease import Lease
from pgbill.taxanswer import unit_of
from pgbill.taxserver import Answered, TaxServer
from pgbill.worker import Shift
from tests import builders
from tests.shifts import job, run_shift
from tests.shop import FEBRUARY, FIRST_DAY, Shop, findings, value, values
from tests.taxes import always, asks, takes

pytestmark = pytest.mark.one_server


@pytest.fixture
def service() -> Iterator[TaxServer]:
    with TaxServer(rate="7") as server:
        yield server


def test_the_tax_of_an_invoice_is_what_the_service_says(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """Not what the table of rates says, which has 19 %."""
    shop = Shop.open(admin)
    shop.account(admin)

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.invoiced == 1
    assert values(admin, "SELECT tax_rate FROM pgbill.invoice_tax") == [7]
    assert findings(admin) == {}


def test_what_has_no_line_is_closed_without_a_question(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """An account that pays nothing."""
    builders.account(admin, Shop.open(admin).seller_id)

    tally = run_shift(job(dsn, tax=asks(service)))

    assert (tally.nothing_to_bill, service.questions) == (1, [])


def test_a_slow_answer_loses_no_lease_and_holds_up_nobody(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """Twice the life of a lease for one account, nothing for the others."""
    shop = Shop.open(admin)
    slow, *quick = (shop.account(admin, key=f"A-{number}") for number in range(20))

    def latency(asked: dict[str, Any]) -> float:
        return 3 if asked["key"].startswith("A-0/") else 0

    service.latency = latency

    tally = run_shift(job(dsn, ttl=1.5, tax=asks(service)))

    assert (tally.invoiced, tally.lost) == (20, 0)
    assert value(admin, "SELECT count(*) FROM pgbill.alert") == 0
    late = values(
        admin,
        "SELECT account_id FROM pgbill.billing_period"
        " WHERE closed_at > (SELECT min(closed_at) FROM pgbill.billing_period)"
        " + interval '1.5 s'",
    )
    assert late == [slow.account_id]
    assert len(quick) == 19


def test_an_answer_is_kept_and_not_asked_for_again(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """The worker dies between answer and issue: its successor uses the answer."""
    shop = Shop.open(admin)
    shop.account(admin)

    class KilledError(Exception):
        pass

    def die(shift: Shift) -> None:
        def ask_database(live: Sequence[Lease]) -> list[Billed]:
            raise KilledError(live)

        shift._ask_database = ask_database  # pyright: ignore[reportPrivateUsage]

    with pytest.raises(KilledError):
        run_shift(job(dsn, ttl=0.3, tax=asks(service)), die)
    time.sleep(0.4)

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.invoiced == 1
    assert len(service.questions) == 1
    assert findings(admin) == {}


def test_an_answer_that_makes_no_sense_fails_the_account_alone(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """No answer for a line, a rate of 700 %, another currency, a word of its own."""
    shop = Shop.open(admin)
    for number in range(5):
        shop.account(admin, key=f"A-{number}", city=f"Town {number}")
    wrong: dict[str, tuple[int, dict[str, Any]]] = {
        "Town 1": (200, {"lines": []}),
        "Town 2": (200, {"lines": [{"line_no": 1, "category": "S", "rate": "700"}]}),
        "Town 3": (200, {"currency": "USD", "lines": []}),
        "Town 4": (422, {"reason": "this VAT id is unknown"}),
    }
    right = service.answer

    def answer(asked: dict[str, Any]) -> Answered:
        return wrong.get(asked["buyer"]["city"]) or right(asked)

    service.answer = answer

    tally = run_shift(job(dsn, tax=asks(service)))

    assert (tally.invoiced, tally.failed) == (1, 4)
    reasons = values(
        admin,
        "SELECT detail FROM pgbill.lease WHERE outcome = 'failed' ORDER BY account_id",
    )
    assert [reason.split(": ", 1)[0] for reason in reasons] == [
        "the tax service did not answer each line once (left out",
        "the tax service's answer is wrong",
        "the tax service answers in USD, asked was EUR",
        "the tax service says 422",
    ]
    assert "this VAT id is unknown" in reasons[3]


def test_a_service_that_is_away_fails_accounts_with_its_reason(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """And the next run, when it is back, invoices them."""
    shop = Shop.open(admin)
    shop.account(admin)
    with TaxServer() as gone:
        away = asks(gone)

    first = run_shift(job(dsn, tax=away))
    second = run_shift(job(dsn, run_id=2, tax=asks(service)))

    assert (first.failed, second.invoiced) == (1, 1)


def test_a_lease_that_is_lost_while_the_service_is_asked_is_dropped(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """Its answer comes later, and nothing is written with it."""
    shop = Shop.open(admin)
    account = shop.account(admin)
    service.latency = takes(1.0)

    def take_over() -> None:
        while not service.questions:
            time.sleep(0.01)
        admin.execute(
            "UPDATE pgbill.lease SET fencing_token = nextval('pgbill.fencing_token'),"
            " worker_id = gen_random_uuid(), holder = 'thief', claimed_at = now(),"
            " expires_at = now() + interval '1.5 s'"
        )

    thief = threading.Thread(target=take_over)
    thief.start()
    tally = run_shift(job(dsn, ttl=0.6, every=0.1, tax=asks(service)))
    thief.join()

    assert tally.lost == 1
    assert tally.invoiced == 1
    assert value(admin, "SELECT count(*) FROM pgbill.invoice") == 1
    assert account.account_id in values(
        admin, "SELECT account_id FROM pgbill.lease_event WHERE kind = 'abandoned'"
    )


def test_a_worker_that_is_stopped_gives_back_what_it_asks_for(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """With calls in flight that would take a minute, it ends at once."""
    shop = Shop.open(admin)
    for _ in range(30):
        shop.account(admin)
    service.latency = takes(60)

    def stop_soon(shift: Shift) -> None:
        def wait() -> None:
            while len(service.questions) < 20:
                time.sleep(0.01)
            shift.stop()

        threading.Thread(target=wait).start()

    started = time.monotonic()
    tally = run_shift(job(dsn, tax=asks(service, in_flight=20)), stop_soon)

    assert time.monotonic() - started < 10
    assert (tally.given_back, tally.invoiced) == (20, 0)
    assert value(admin, "SELECT count(*) FROM pgbill.lease WHERE holder <> ''") == 0


def test_the_key_sent_is_the_same_for_all_attempts_at_a_period(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """The service may then answer the same, and count it once."""
    shop = Shop.open(admin)
    shop.account(admin, key="A-1")
    service.answer = always(500)
    run_shift(job(dsn, tax=asks(service)))

    run_shift(job(dsn, run_id=2, tax=asks(service)))

    assert len(service.questions) == 10
    assert {key for key, _ in service.questions} == {f"A-1/{FIRST_DAY}"}
    assert FEBRUARY > FIRST_DAY


def test_minor_units_are_those_of_the_database(conn: Connection[Any]) -> None:
    """Where answers are checked no database is at hand."""
    digits = dict(conn.execute("SELECT currency, digits FROM pgbill.currency"))

    assert {each: -unit_of(each).adjusted() for each in digits} == digits
