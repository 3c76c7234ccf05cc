"""A tax service on a bad day: what may pass is waited for, what is final is told.

The service is a real one, on a port of this machine. It is slow, limits the questions,
fails, is dead for a while or for good, and contradicts itself, at times that are scaled
down. Each account is invoiced once, or keeps the reason why it is not.
"""

import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from bench import memory
from pgbill import lease, taxing
from pgbill.job import Job, Tally
from pgbill.lease import DueBucket, Scope
from pgbill.tax import Question, TaxAwayError, TaxError, TaxService
from pgbill.taxserver import TaxServer
from pgbill.taxtrial import CUT, Conduct, Reply, Trial
from pgbill.worker import Shift
from tests.builders import Account
from tests.shifts import add, job, run_shift
from tests.shop import FIRST_DAY, Shop, findings, value, values
from tests.taxes import always, asks, at_first, dead_after, takes

pytestmark = pytest.mark.one_server


@pytest.fixture
def service() -> Iterator[TaxServer]:
    with TaxServer(rate="7") as server:
        yield server


def _accounts(conn: Connection[Any], count: int) -> list[Account]:
    shop = Shop.open(conn)
    with conn.transaction():
        return [shop.account(conn, key=f"A-{number}") for number in range(count)]


def _reasons(conn: Connection[Any]) -> list[str]:
    return values(
        conn,
        "SELECT detail FROM pgbill.lease WHERE outcome IN ('failed', 'parked')"
        " ORDER BY account_id",
    )


def _give_up(work: Job) -> tuple[Tally, str]:
    """Work until the service is given up; return what was done and what is said."""
    total = Tally()
    shift = taxing.shift(work, lambda tally: add(total, tally))
    with pytest.raises(TaxAwayError) as raised:
        shift.run()
    return total, str(raised.value)


def _stop_when(is_so: Callable[[], bool]) -> Callable[[Shift], None]:
    def prepare(shift: Shift) -> None:
        def wait() -> None:
            while not is_so():
                time.sleep(0.01)
            shift.stop()

        threading.Thread(target=wait).start()

    return prepare


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 425])
def test_what_may_pass_is_tried_again(
    dsn: str, admin: Connection[Any], service: TaxServer, status: int
) -> None:
    _accounts(admin, 2)
    service.answer = at_first(2, always(status), service)

    tally = run_shift(job(dsn, tax=asks(service)))

    assert (tally.invoiced, tally.failed) == (2, 0)
    assert len(service.questions) == 6


def test_a_time_out_and_a_cut_connection_are_tried_again(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 2)

    def cut(_question: dict[str, Any]) -> Reply:
        return CUT

    def latency(_question: dict[str, Any]) -> float:
        return 5 if len(service.questions) == 2 else 0

    service.answer = at_first(1, cut, service)
    service.latency = latency

    tally = run_shift(job(dsn, tax=asks(service, timeout=0.3)))

    assert (tally.invoiced, tally.failed) == (2, 0)


def test_after_its_attempts_an_account_fails_with_the_last_words(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """It alone: for the others the service is well."""
    _accounts(admin, 20)

    def answer(asked: dict[str, Any]) -> Reply:
        if asked["key"].startswith("A-7/"):
            return Reply(503, {"reason": "region down"})
        return service.usual_answer(asked)

    service.answer = answer

    tally = run_shift(job(dsn, tax=asks(service, attempts=3)))

    assert (tally.invoiced, tally.failed) == (19, 1)
    assert _reasons(admin) == ['the tax service says 503: {"reason": "region down"}']
    assert sum(key.startswith("A-7/") for key, _ in service.questions) == 3


@pytest.mark.parametrize("status", [400, 409, 422])
def test_what_the_service_refuses_is_final_and_told_in_its_words(
    dsn: str, admin: Connection[Any], service: TaxServer, status: int
) -> None:
    """Also if they sound as if it might pass."""
    _accounts(admin, 1)
    service.answer = lambda _question: (status, {"reason": "try again later"})

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.failed == 1
    assert len(service.questions) == 1
    assert "try again later" in _reasons(admin)[0]


@pytest.mark.parametrize("is_date", [False, True])
def test_a_limit_is_kept_for_as_long_as_the_service_says(
    dsn: str, admin: Connection[Any], service: TaxServer, is_date: bool
) -> None:
    """By all accounts: nobody asks in between."""
    _accounts(admin, 8)
    asked_at: list[float] = []

    def gate(_question: dict[str, Any]) -> Reply | None:
        asked_at.append(time.monotonic())
        if len(asked_at) > 1:
            return None
        after = formatdate(time.time() + 2, usegmt=True) if is_date else "1"
        return Reply(429, {}, {"Retry-After": after})

    service.gate = gate

    tally = run_shift(
        job(dsn, tax=asks(service, in_flight=1, retry_at_most_seconds=30))
    )

    assert (tally.invoiced, tally.failed) == (8, 0)
    assert len(asked_at) == 9
    # A date has whole seconds only.
    assert asked_at[1] - asked_at[0] > (0.9 if is_date else 0.99)


def test_a_wait_without_end_is_not_believed(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 2)
    service.answer = at_first(1, always(429, Retry_After="86400"), service)
    begun = time.monotonic()

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.invoiced == 2
    assert time.monotonic() - begun < 10


def test_a_service_with_a_limit_gets_no_account_to_fail(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """However often they are sent away: it is no attempt of theirs."""
    _accounts(admin, 60)
    service.behave(Trial(Conduct(limit=40, retry_after_seconds=0)))

    tally = run_shift(job(dsn, tax=asks(service, attempts=1)))

    assert (tally.invoiced, tally.failed) == (60, 0)
    assert len(service.questions) > 60
    assert findings(admin) == {}


def test_a_mixed_bad_day_costs_no_account_that_is_all_right(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """One in ten fails, some connections are cut, latencies spread."""
    _accounts(admin, 80)
    conduct = Conduct(
        latency_seconds=0.02, latency_spread=1, error_share=0.1, cut_share=0.05
    )
    service.behave(Trial(conduct, seed=1))

    tally = run_shift(job(dsn, ttl=5, tax=asks(service, in_flight=16, attempts=20)))

    assert (tally.invoiced, tally.failed, tally.lost) == (80, 0, 0)
    assert findings(admin) == {}


def test_contradictions_fail_their_accounts_with_both_figures(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 2)

    def answer(_asked: dict[str, Any]) -> Reply:
        line = {"line_no": 1, "category": "S", "rate": "19", "tax_amount": "2.30"}
        return Reply(200, {"currency": "EUR", "lines": [line]})

    service.answer = answer

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.failed == 2
    told = "tax of line 1 is 2.30, its rate gives 1.90"
    assert _reasons(admin) == [f"the tax service contradicts itself: {told}"] * 2
    assert value(admin, "SELECT count(*) FROM pgbill.tax_answer") == 0


def test_an_answer_that_the_database_refuses_fails_its_account_alone(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """Of a batch that is kept in one statement."""
    _accounts(admin, 20)
    admin.execute(
        "ALTER TABLE pgbill.tax_answer ADD CONSTRAINT tax_answer_is_sober"
        " CHECK (answer ->> 'mood' IS NULL)"
    )

    def answer(asked: dict[str, Any]) -> Reply:
        reply = service.usual_answer(asked)
        if asked["key"].startswith("A-7/"):
            reply.body["mood"] = "giddy"
        return reply

    service.answer = answer

    tally = run_shift(job(dsn, tax=asks(service)))

    assert (tally.invoiced, tally.failed) == (19, 1)
    assert "tax_answer_is_sober" in _reasons(admin)[0]


def test_a_service_that_is_dead_for_a_while_costs_nobody_anything(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """In the middle of a run, longer than a lease lives; one attempt an account."""
    _accounts(admin, 120)
    service.latency = takes(0.05)
    service.gate = dead_after(40, seconds=4, server=service)

    tally = run_shift(job(dsn, ttl=3, tax=asks(service, in_flight=16)))

    assert (tally.invoiced, tally.failed, tally.lost) == (120, 0, 0)
    assert [notice.partition(" (")[0] for notice in tally.notices] == [
        "the tax service fails",
        "the tax service answers again.",
    ]
    assert findings(admin) == {}


def test_while_the_service_fails_nothing_is_claimed(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """What is held waits, and is asked for again by few."""
    _accounts(admin, 200)
    service.answer = always(503)

    def has_failed_for_a_while() -> bool:
        return len(service.questions) > 25

    tally = run_shift(
        job(dsn, tax=asks(service, in_flight=20)), _stop_when(has_failed_for_a_while)
    )

    assert (tally.invoiced, tally.failed) == (0, 0)
    # What rests between two attempts makes room for others, but not now.
    assert 20 <= tally.given_back <= 40


def test_a_service_that_does_not_recover_ends_the_shift_and_fails_nobody(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 50)
    service.answer = always(503)

    work = job(dsn, tax=asks(service, in_flight=20, patience_seconds=0.5))
    tally, sentence = _give_up(work)

    assert sentence == (
        "the tax service fails and has not recovered within 0.5 s (the tax service"
        " says 503: {}). Start the run again when it answers; it continues."
    )
    assert (tally.failed, tally.invoiced, tally.lost) == (0, 0, 0)
    assert value(admin, "SELECT count(*) FROM pgbill.lease WHERE holder <> ''") == 0
    assert value(admin, "SELECT max(attempts) FROM pgbill.lease") == 0

    service.answer = service.usual_answer
    assert run_shift(job(dsn, tax=asks(service))).invoiced == 50
    assert findings(admin) == {}


def test_a_service_that_is_not_there_ends_the_shift_too(
    dsn: str, admin: Connection[Any]
) -> None:
    _accounts(admin, 20)
    with TaxServer() as gone:
        service = asks(gone, patience_seconds=0.5)

    tally, sentence = _give_up(job(dsn, tax=service))

    assert "cannot be reached" in sentence
    assert tally.failed == 0


def test_a_limit_that_never_ends_is_given_up_as_well(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 3)
    service.answer = always(429, Retry_After="0")

    tally, sentence = _give_up(job(dsn, tax=asks(service, patience_seconds=0.5)))

    assert "says 429" in sentence
    assert tally.failed == 0


@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_wrong_token_fails_nobody(
    dsn: str, admin: Connection[Any], count: int
) -> None:
    """It is not about them; and nobody storms a service that lets no one in."""
    _accounts(admin, count)
    with TaxServer(token="right") as service:
        work = job(dsn, tax=asks(service, in_flight=10, patience_seconds=0.3))
        tally, sentence = _give_up(work)

    assert "has not recovered within 0.3 s (the tax service says 401: {" in sentence
    assert (tally.failed, tally.parked) == (0, 0)
    assert value(admin, "SELECT count(*) FROM pgbill.lease WHERE holder <> ''") == 0
    assert value(admin, "SELECT max(attempts) FROM pgbill.lease") == 0


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_service_that_lets_nobody_in_is_asked_few_times(
    dsn: str, admin: Connection[Any], service: TaxServer, status: int
) -> None:
    """And when it does again, all is invoiced by the same run."""
    _accounts(admin, 2)
    service.answer = at_first(2, always(status), service)

    tally = run_shift(job(dsn, tax=asks(service)))

    assert (tally.invoiced, tally.failed) == (2, 0)
    assert len(service.questions) <= 6
    assert tally.notices[0].startswith(
        f"the tax service fails (the tax service says {status}"
    )


def test_a_lease_that_is_lost_while_its_call_rests_is_not_asked_for_again(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 1)
    service.answer = always(503, Retry_After="1")

    def take_over() -> None:
        while not service.questions:
            time.sleep(0.01)
        admin.execute(
            "UPDATE pgbill.lease SET fencing_token = nextval('pgbill.fencing_token'),"
            " worker_id = gen_random_uuid(), holder = 'thief', claimed_at = now(),"
            " expires_at = now() + interval '1 hour'"
        )

    thief = threading.Thread(target=take_over)
    thief.start()
    work = job(dsn, ttl=0.6, every=0.1, tax=asks(service, retry_at_most_seconds=1))
    tally = Tally()
    shift = taxing.shift(work, lambda told: add(tally, told))
    _stop_when(lambda: tally.lost > 0)(shift)
    shift.run()
    thief.join()
    time.sleep(1.2)

    assert tally.lost == 1
    assert len(service.questions) == 1


def test_a_rest_between_attempts_does_not_hold_up_a_stop(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 5)
    service.answer = always(503, Retry_After="3600")
    work = job(dsn, tax=asks(service, retry_at_most_seconds=3600))
    begun = time.monotonic()

    tally = run_shift(work, _stop_when(lambda: len(service.questions) == 5))

    assert time.monotonic() - begun < 5
    assert tally.given_back == 5


def test_what_rests_makes_room_for_others(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """Four accounts that are to wait for an hour do not hold four slots for an hour."""
    _accounts(admin, 20)

    def gate(asked: dict[str, Any]) -> Reply | None:
        number = int(asked["key"].split("/")[0].removeprefix("A-"))
        return Reply(503, {}, {"Retry-After": "3600"}) if number < 4 else None

    service.gate = gate
    work = job(dsn, tax=asks(service, in_flight=4, retry_at_most_seconds=3600))

    def others_are_done() -> bool:
        return value(admin, "SELECT count(*) FROM pgbill.invoice") == 16

    tally = run_shift(work, _stop_when(others_are_done))

    assert (tally.invoiced, tally.given_back) == (16, 4)


def test_the_last_answers_are_waited_for_without_asking_the_database(
    dsn: str,
    admin: Connection[Any],
    service: TaxServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a service that takes minutes would keep the server busy with looking."""
    _accounts(admin, 3)
    service.latency = takes(2.5)
    looks: list[float] = []
    due_buckets = lease.due_buckets

    def look(conn: Connection[Any], scope: Scope) -> list[DueBucket]:
        looks.append(time.monotonic())
        return due_buckets(conn, scope)

    monkeypatch.setattr(lease, "due_buckets", look)

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.invoiced == 3
    assert len(looks) < 10


def test_no_more_calls_are_in_flight_than_allowed(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    _accounts(admin, 100)
    service.latency = takes(0.02)

    tally = run_shift(job(dsn, tax=asks(service, in_flight=8)))

    assert tally.invoiced == 100
    assert service.most_at_once == 8


def test_answers_that_take_twice_the_life_of_a_lease_lose_none(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """As 120 s do with leases of 60 s."""
    _accounts(admin, 40)
    service.latency = takes(5)

    tally = run_shift(job(dsn, ttl=2.5, tax=asks(service, in_flight=40)))

    assert (tally.invoiced, tally.lost) == (40, 0)
    assert len(service.questions) == 40
    assert findings(admin) == {}


def test_a_thousand_calls_in_flight_are_dropped_at_once(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    memory.fill(admin, 1_000)
    service.latency = takes(600)
    stopped_at: list[float] = []

    def all_are_asked() -> bool:
        is_so = len(service.questions) == 1_000
        if is_so:
            stopped_at.append(time.monotonic())
        return is_so

    through_on = date.fromisoformat(memory.THROUGH)
    how = asks(service, in_flight=1_000, timeout=900)
    work = job(dsn, through_on=through_on, tax=how)
    tally = run_shift(work, _stop_when(all_are_asked))

    assert time.monotonic() - stopped_at[0] < 5
    assert tally.given_back == 1_000
    assert value(admin, "SELECT count(*) FROM pgbill.lease WHERE holder <> ''") == 0


def test_an_account_key_may_have_any_letters(
    dsn: str, admin: Connection[Any], service: TaxServer
) -> None:
    """A header has ASCII only."""
    Shop.open(admin).account(admin, key="Müller & Söhne 1%")

    tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.invoiced == 1
    ((key, _),) = service.questions
    assert key == f"M%C3%BCller%20&%20S%C3%B6hne%201%25/{FIRST_DAY}"


def test_the_token_is_told_and_the_certificate_is_looked_at(
    dsn: str, admin: Connection[Any], tmp_path: Path
) -> None:
    _accounts(admin, 1)
    tls, certificate = _certified(tmp_path)

    with TaxServer(token="s3cret", tls=tls) as service:
        how = replace(asks(service, attempts=2), token="s3cret")
        trusting = replace(how, ca_file=certificate)
        first = run_shift(job(dsn, tax=how))
        second = run_shift(job(dsn, run_id=2, tax=trusting))

    assert (first.failed, second.invoiced) == (1, 1)
    assert len(service.questions) == 1


def _certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for this machine that nobody trusts yet."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=tax"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    return tls, certificate


class Calm:
    """A provider as another package would bring it: not over HTTP at all."""

    name = "calm"

    def __init__(self) -> None:
        self.is_closed = False

    async def assess(self, question: Question) -> str:
        """Answer, or fall over as only somebody else's code can."""
        if question.idempotency_key.startswith("A-2/"):
            raise KeyError("jurisdiction")
        if question.idempotency_key.startswith("A-1/"):
            raise TaxError("no\0way")
        return '{"lines": [{"line_no": 1, "category": "S", "rate": 5}]}'

    async def close(self) -> None:
        """Do it."""
        self.is_closed = True


def test_somebody_elses_provider_is_asked_in_the_same_way(
    dsn: str, admin: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what goes wrong in it fails an account, not a worker."""
    _accounts(admin, 3)
    calm = Calm()

    def of(_service: TaxService) -> Calm:
        return calm

    monkeypatch.setattr("pgbill.taxprovider.of", of)

    tally = run_shift(job(dsn, tax=TaxService(None, None, 5, 4, provider="calm")))

    assert (tally.invoiced, tally.failed) == (1, 2)
    assert _reasons(admin) == [
        "no way",
        "the tax service cannot be asked: KeyError('jurisdiction')",
    ]
    assert values(admin, "SELECT DISTINCT provider FROM pgbill.tax_answer") == ["calm"]
    assert calm.is_closed
