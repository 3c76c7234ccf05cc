"""Alerts reach a person, each once: as a line of the run, and a storm as one mail."""

import contextlib
import email
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import roles, sink
from pgbill.sink import Answer, Sink
from tests import actors, builders
from tests.acceptance.commands import Done, Pgbill, assert_clean
from tests.shop import Shop, value

ONCALL = "oncall@example.com"
PATIENCE_SECONDS = 60


@dataclass
class House:
    """A database, a mail server, and commands that know both."""

    conn: Connection[Any]
    sink: Sink
    pgbill: Pgbill

    def relay(self, *, exits: int = 0, **settings: object) -> Done:
        """Relay until nothing is to be done."""
        done = self.pgbill.with_settings(**settings)("relay", "--once", "--json")
        assert done.exit_code == exits, done.stderr
        return done

    def mails(self) -> list[EmailMessage]:
        """Return what the mail server has taken."""
        return [
            email.message_from_bytes(each.file.read_bytes(), policy=SMTP)
            for each in self.sink.received
        ]


@pytest.fixture
def house(dsn: str, tmp_path: Path) -> Iterator[House]:
    with (
        contextlib.closing(actors.connect(dsn, roles.OWNER)) as conn,
        Sink(tmp_path / "mails") as running,
    ):
        pgbill = Pgbill(dsn, tmp_path).with_settings(
            smtp_host=running.host,
            smtp_port=running.port,
            alert_mail=ONCALL,
            alert_mail_every_seconds=900,
        )
        yield House(conn, running, pgbill)


def storm(conn: Connection[Any], count: int) -> None:
    """Let so many leases expire and be taken over."""
    with conn.transaction():
        shop = Shop.open(conn)
        accounts = [builders.account(conn, shop.seller_id) for _ in range(count)]
        for name in ("dead", "successor"):
            worker = actors.Actor(conn, name)
            for account in accounts:
                worker.claim_one(account, ttl_seconds=actors.EXPIRED)


def always(answer: Answer) -> Callable[[str], Answer]:
    return lambda address: answer  # noqa: ARG005


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _digests(house: House) -> int:
    return int(value(house.conn, "SELECT count(*) FROM pgbill.alert_digest"))


def test_a_storm_of_500_alerts_is_one_mail(house: House) -> None:
    storm(house.conn, 500)

    first = house.relay()
    storm(house.conn, 3)
    again = house.relay()
    later = house.relay(alert_mail_every_seconds=0.1)

    assert first.json["alerts_mailed"] == 500
    assert again.json["alerts_mailed"] == 0
    assert later.json["alerts_mailed"] == 3
    big, small = house.mails()
    assert {each.recipient for each in house.sink.received} == {ONCALL}
    assert big["Subject"] == "pgbill: 500 alerts (500 lease_expired)"
    assert "and 480 more." in big.get_content()
    assert small["Subject"] == "pgbill: 3 alerts (3 lease_expired)"
    assert_clean(house.pgbill)


def test_a_relay_that_runs_on_mails_what_comes(house: House) -> None:
    with house.pgbill.start("relay") as relay:
        until(lambda: relay.process.poll() is None)
        storm(house.conn, 2)
        house.sink.wait_for(1)
        relay.send(signal.SIGTERM)
        done = relay.wait()

    assert done.exit_code == 0, done.stderr
    assert "alerts mailed: 2." in done.stderr


def test_a_mail_that_may_have_been_taken_is_not_sent_again(house: House) -> None:
    """Its reply is lost; or its relay is killed while it waits for the reply."""
    storm(house.conn, 1)
    house.sink.answer = always(sink.HANG_UP_BEFORE_REPLY)
    lost = house.relay()
    storm(house.conn, 2)
    house.sink.answer = always(Answer("data", seconds=PATIENCE_SECONDS))
    hasty = house.pgbill.with_settings(alert_mail_every_seconds=0.1)
    with hasty.start("relay") as relay:
        house.sink.wait_for(2)
        relay.send(signal.SIGKILL)
    house.sink.answer = always(sink.TAKE)

    again = house.relay(alert_mail_every_seconds=0.1)

    assert "the mail about 1 alert: it is not known whether" in lost.stderr
    assert again.json["alerts_mailed"] == 0
    assert len(house.sink.received) == _digests(house) == 2
    storm(house.conn, 1)
    house.relay(alert_mail_every_seconds=0.1)
    assert "Earlier mails, with 3 alerts" in house.mails()[-1].get_content()


def test_while_the_mail_server_is_away_no_mail_is_begun(house: House) -> None:
    storm(house.conn, 1)

    away = house.relay(exits=75, smtp_port=1)

    assert _digests(house) == 0
    assert away.json["alerts_wait"] is True
    assert "alerts wait to be mailed: the mail server" in away.stderr
    assert house.relay().json["alerts_mailed"] == 1


def test_a_refused_mail_is_told_and_its_alerts_wait(house: House) -> None:
    storm(house.conn, 1)
    house.sink.answer = always(sink.FAIL_RECIPIENT)
    failed = house.relay()
    house.sink.answer = always(sink.TAKE)
    soon = house.relay()
    later = house.relay(alert_mail_every_seconds=0.1)

    assert "the mail about 1 alert: failed: " in failed.stderr
    assert soon.json["alerts_mailed"] == 0
    assert later.json["alerts_mailed"] == 1


def test_a_copy_of_production_mails_no_alerts_of_production(house: House) -> None:
    storm(house.conn, 1)

    assert house.relay(mode="test").json["alerts_mailed"] == 0
    redirected = house.relay(mode="test", mail_redirect="dev@example.com")

    assert redirected.json["alerts_mailed"] == 1
    assert [each.recipient for each in house.sink.received] == ["dev@example.com"]
    assert house.mails()[0]["Subject"].startswith("[TEST] ")


def test_a_wrong_address_is_told_at_the_start(house: House) -> None:
    done = house.relay(exits=78, alert_mail="nobody")

    assert "PGBILL_ALERT_MAIL is wrong: an address has exactly one @." in done.stderr


def test_a_run_tells_its_alerts(house: House) -> None:
    """An account with too many due periods is parked; another's worker was dead."""
    shop = Shop.open(house.conn)
    parked = shop.account(house.conn)
    taken = shop.account(house.conn, first_period_on=builders.date(2026, 4, 1))
    dead = actors.Actor(house.conn, "dead", actors.Scope(1, builders.date(2026, 4, 1)))
    dead.claim_one(taken, ttl_seconds=actors.EXPIRED)

    done = house.pgbill("run", "--through", "2026-04-30", "--workers", "2")

    alerts = [line for line in done.stderr.splitlines() if "pgbill: alert " in line]
    assert sorted(line.split(": ")[1].split(", ")[1] for line in alerts) == [
        "account_parked",
        "lease_expired",
    ]
    assert any(f"Account {parked.key} is parked" in line for line in alerts)
    assert any("dead (token" in line for line in alerts)
