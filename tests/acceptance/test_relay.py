"""Relays deliver each message once: real processes, a real mail server, real kills."""

import contextlib
import email
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import outbox, roles, sink
from pgbill.outbox import MessageState
from pgbill.sink import Answer, Sink
from tests import actors, post
from tests.shop import findings, run_sql, value

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60
SLOW = Answer("data", seconds=PATIENCE_SECONDS)


@dataclass
class House:
    """A database, a mail server, and commands that know both."""

    conn: Connection[Any]
    sink: Sink
    dsn: str
    folder: Path

    def start(self, *command: str, **settings: str) -> subprocess.Popen[str]:
        """Start a command."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PGBILL_DSN": self.dsn,
            "PGBILL_SMTP_HOST": self.sink.host,
            "PGBILL_SMTP_PORT": str(self.sink.port),
            "PGBILL_RELAY_TTL_SECONDS": "1",
            **{f"PGBILL_{name.upper()}": text for name, text in settings.items()},
        }
        return subprocess.Popen(
            [sys.executable, "-m", "pgbill", *command],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, exits: int = 0, **settings: str) -> tuple[str, str]:
        """Run a command to its end, and return what it printed."""
        with self.start(*command, **settings) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_SECONDS)
            finally:
                process.kill()
        assert process.returncode == exits, err
        return out, err

    def relay(self, *, exits: int = 0, **settings: str) -> dict[str, Any]:
        """Relay until nothing is due, and return the summary."""
        out, _ = self.run("relay", "--once", "--json", exits=exits, **settings)
        summary: dict[str, Any] = json.loads(out)
        return summary

    def states(self) -> list[MessageState]:
        """Return all messages, the oldest first."""
        return outbox.states(self.conn, limit=1000)[::-1]

    def only(self) -> MessageState:
        """Return the only message."""
        (state,) = self.states()
        return state

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
        yield House(conn, running, dsn, tmp_path)


def always(answer: Answer) -> Callable[[str], Answer]:
    return lambda address: answer  # noqa: ARG005


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def relaying(house: House, *options: str) -> Generator[subprocess.Popen[str]]:
    """Run a relay beside the test; it is gone afterwards, whatever happens."""
    process = house.start("relay", *options)
    try:
        yield process
    finally:
        process.kill()
        if process.stdout and not process.stdout.closed:
            process.communicate()


def test_each_message_is_delivered_once(house: House) -> None:
    accounts = post.issue(house.conn, 12)

    first, second = house.relay(), house.relay()

    assert (first["accepted"], second["accepted"]) == (12, 0)
    assert {each.recipient for each in house.sink.received} == {
        f"{account.key}@example.com" for account in accounts
    }
    assert len(house.sink.received) == 12
    assert {mail["Subject"].split()[1] for mail in house.mails()} == {
        each.number_text for each in house.states()
    }
    assert findings(house.conn) == {}


def test_relays_side_by_side_deliver_each_message_once(house: House) -> None:
    post.issue(house.conn, 60)

    with contextlib.ExitStack() as stack:
        relays = [
            stack.enter_context(relaying(house, "--once", "--json")) for _ in range(3)
        ]
        told = [each.communicate(timeout=PATIENCE_SECONDS)[0] for each in relays]
    summaries = [json.loads(each) for each in told]

    assert sum(each["accepted"] for each in summaries) == 60
    recipients = [each.recipient for each in house.sink.received]
    assert len(recipients) == len(set(recipients)) == 60
    assert findings(house.conn) == {}


def test_what_a_killed_relay_may_have_sent_is_not_sent_again(house: House) -> None:
    """It dies with two mails handed over and not answered, and others in hand."""
    post.issue(house.conn, 12)
    house.sink.answer = always(SLOW)
    with relaying(house, "--connections", "2") as relay:
        house.sink.wait_for(2)
        relay.send_signal(signal.SIGKILL)
    house.sink.answer = always(sink.TAKE)
    until(lambda: not _claimed(house))

    summary = house.relay()

    assert summary["accepted"] == 10
    assert len(house.sink.received) == 12
    recipients = [each.recipient for each in house.sink.received]
    assert len(set(recipients)) == 12
    uncertain = [each for each in house.states() if each.state == "uncertain"]
    assert {each.address for each in uncertain} == set(recipients[:2])
    assert post.alerts(house.conn) == 2
    assert findings(house.conn) == {}


def _claimed(house: House) -> list[MessageState]:
    return [each for each in house.states() if each.state == "claimed"]


def test_what_a_relay_had_not_handed_over_when_it_died_is_uncertain_as_well(
    house: House,
) -> None:
    """Nobody but it could know. A person finds out, and it is sent after all."""
    post.issue(house.conn)
    house.sink.answer = always(Answer("mail", seconds=PATIENCE_SECONDS))
    with relaying(house) as relay:
        until(lambda: house.only().attempt_count)
        relay.send_signal(signal.SIGKILL)
    house.sink.answer = always(sink.TAKE)
    until(lambda: house.only().state == "uncertain")
    assert house.relay()["accepted"] == 0

    message_id = str(house.only().message_id)
    house.run("outbox", "resolve", message_id, "--not-taken", "--reason", "not in log")
    run_sql(house.conn, "UPDATE pgbill.outbox_message SET due_at = clock_timestamp()")
    summary = house.relay()

    assert summary["accepted"] == len(house.sink.received) == 1
    assert (house.only().state, house.only().attempt_count) == ("accepted", 2)
    assert findings(house.conn) == {}


def test_a_relay_that_was_thought_dead_still_records_its_reply(house: House) -> None:
    post.issue(house.conn)
    house.sink.answer = always(Answer("data", seconds=2))
    with relaying(house) as sleeper:
        house.sink.wait_for(1)
        sleeper.send_signal(signal.SIGSTOP)
        until(lambda: house.only().state == "uncertain")
        assert house.relay()["accepted"] == 0
        assert post.alerts(house.conn) == 1
        sleeper.send_signal(signal.SIGCONT)

        until(lambda: house.only().state == "accepted")

    assert len(house.sink.received) == 1
    assert findings(house.conn) == {}


def test_a_relay_that_waits_long_for_a_reply_keeps_its_claim(house: House) -> None:
    """Three times as long as its claim would last."""
    post.issue(house.conn)
    house.sink.answer = always(Answer("data", seconds=3))

    with relaying(house, "--once") as relay:
        house.sink.wait_for(1)
        while relay.poll() is None:
            assert house.only().state in {"claimed", "accepted"}
            time.sleep(0.05)

    assert house.only().state == "accepted"
    assert post.alerts(house.conn) == 0


def test_a_lost_reply_makes_a_message_uncertain(house: House) -> None:
    post.issue(house.conn)
    house.sink.answer = always(sink.HANG_UP_BEFORE_REPLY)

    summary = house.relay(exits=1)
    again = house.relay()

    assert (summary["uncertain"], again["uncertain"]) == (1, 0)
    assert house.only().state == "uncertain"
    assert len(house.sink.received) == 1
    assert post.alerts(house.conn) == 1


def test_refused_and_deferred_messages_are_told_apart(house: House) -> None:
    failing, deferring, _ = post.issue(house.conn, 3)
    answers = {
        f"{failing.key}@example.com": sink.FAIL_RECIPIENT,
        f"{deferring.key}@example.com": sink.DEFER,
    }
    house.sink.answer = lambda address: answers.get(address, sink.TAKE)

    summary = house.relay(exits=1)

    assert [summary[kind] for kind in ("accepted", "deferred", "failed")] == [1, 1, 1]
    assert post.state(house.conn, failing).reply_code == 550
    assert post.state(house.conn, deferring).reply_code == 451
    assert findings(house.conn) == {}


def test_a_stopped_relay_finishes_what_it_sends_and_lets_go_of_the_rest(
    house: House,
) -> None:
    post.issue(house.conn, 12)
    house.sink.answer = always(Answer("data", seconds=1))
    with relaying(house, "--connections", "2") as relay:
        house.sink.wait_for(2)
        relay.send_signal(signal.SIGTERM)
        _, err = relay.communicate(timeout=PATIENCE_SECONDS)

    assert relay.returncode == 0, err
    assert "stopping, " in err
    states = [each.state for each in house.states()]
    assert states.count("accepted") == len(house.sink.received)
    assert set(states) == {"accepted", "pending"}


def test_a_relay_that_runs_on_delivers_what_comes(house: House) -> None:
    with relaying(house):
        post.issue(house.conn, 2)
        house.sink.wait_for(2)
        post.issue(house.conn)
        house.sink.wait_for(3)

    assert len(house.sink.received) == 3


def test_while_the_mail_server_is_away_no_attempt_is_begun(house: House) -> None:
    """Files are written all the same."""
    post.issue(house.conn, 3)
    (filed,) = post.issue(house.conn, delivery_channel="folder")
    folder = house.folder / "out"

    summary = house.relay(exits=75, smtp_port="1", mail_dir=str(folder))

    assert (summary["accepted"], summary["waiting"]) == (1, 3)
    assert value(house.conn, "SELECT count(*) FROM pgbill.delivery_attempt") == 1
    assert post.state(house.conn, filed).state == "accepted"
    assert [file.suffix for file in folder.iterdir()] == [".eml"]
    assert house.relay()["accepted"] == 3


def test_a_relay_that_runs_on_waits_for_the_mail_server(house: House) -> None:
    post.issue(house.conn)
    port = house.sink.port
    house.sink.stop()
    with relaying(house) as relay:
        time.sleep(2)
        assert relay.poll() is None
        house.sink = Sink(house.folder / "later", port=port)
        with house.sink:
            house.sink.wait_for(1)
            until(lambda: house.only().state == "accepted")

    assert house.only().attempt_count == 1


def test_a_copy_of_production_writes_to_nobody(house: House) -> None:
    post.issue(house.conn)

    out, err = house.run("relay", "--once", "--json", mode="test")

    assert json.loads(out)["left_of_other_mode"] == 1
    assert "1 messages of live invoices are left" in err
    assert house.sink.received == []


def test_redirected_mail_goes_to_one_address(house: House) -> None:
    post.issue(house.conn, recipients={"invoice": ["ap@example.com"]})
    post.issue(house.conn, recipients={"invoice": ["ap@example.com"]}, mode="test")

    house.relay(mail_redirect="dev@example.com")

    assert [each.recipient for each in house.sink.received] == ["dev@example.com"] * 2
    assert {mail["X-Pgbill-Original-To"] for mail in house.mails()} == {
        "ap@example.com"
    }
    sent_to = "SELECT string_agg(DISTINCT sent_to, ' ') FROM pgbill.delivery_attempt"
    assert value(house.conn, sent_to) == "dev@example.com"
    assert sorted("[TEST]" in mail["Subject"] for mail in house.mails()) == [
        False,
        True,
    ]


def test_an_address_that_cannot_be_one_fails_with_the_reason(house: House) -> None:
    post.issue(house.conn, recipients={"invoice": ["nobody"]})

    house.relay(exits=1)

    state = house.only()
    assert state.state == "failed"
    assert state.reply_text == "not sent: an address has exactly one @"
    assert house.sink.received == []


def test_a_folder_needs_no_address(house: House) -> None:
    """The import gives such an account its key; here a shop does."""
    filed, failed = post.issue(
        house.conn,
        2,
        delivery_channel="folder",
        recipients={"invoice": ["C-1042"]},
    )
    # As relays did that wanted an address for a file.
    post.Relay(house.conn).deliver(failed, "failed")
    message_id = str(post.state(house.conn, failed).message_id)
    house.run("outbox", "retry", message_id, "--reason", "no address is needed")
    folder = house.folder / "out"

    summary = house.relay(mail_dir=str(folder))

    assert summary["accepted"] == 2
    for account in (filed, failed):
        state = post.state(house.conn, account)
        (file,) = folder.glob(f"{state.number_text}-{state.message_id}.eml")
        mail = email.message_from_bytes(file.read_bytes(), policy=SMTP)
        assert (state.state, mail["To"]) == ("accepted", None)
        assert mail["X-Pgbill-Account"] == "C-1042"
    assert house.sink.received == []
    assert findings(house.conn) == {}


def test_a_folder_that_is_not_set_defers(house: House) -> None:
    post.issue(house.conn, delivery_channel="folder")

    house.relay()

    assert house.only().state == "deferred"
    assert "set PGBILL_MAIL_DIR" in str(house.only().reply_text)


def test_a_schema_that_was_changed_by_hand_is_refused(house: House) -> None:
    run_sql(house.conn, "DROP TRIGGER _20_freeze ON pgbill.delivery_attempt")

    _, err = house.run("relay", "--once", exits=78)

    assert "Run pgbill migrate." in err


@pytest.mark.parametrize("name", ["mail_redirect", "mail_from"])
def test_a_wrong_address_in_a_setting_is_told(house: House, name: str) -> None:
    _, err = house.run("relay", "--once", exits=78, **{name: "nowhere"})

    assert f"PGBILL_{name.upper()} is wrong: an address has exactly one @." in err


def test_a_person_resolves_what_is_uncertain(house: House) -> None:
    post.issue(house.conn)
    house.sink.answer = always(sink.HANG_UP_BEFORE_REPLY)
    house.relay(exits=1)
    out, _ = house.run("outbox", "list", "--state", "uncertain", "--json")
    (listed,) = json.loads(out)
    resolve = ["outbox", "resolve", str(listed["message_id"]), "--taken"]

    house.run(*resolve, "--reason", "in the log", "--dry-run")
    assert house.only().state == "uncertain"
    house.run(*resolve, "--reason", "in the log")
    _, err = house.run(*resolve, "--reason", "again", exits=2)

    assert "is accepted, not uncertain" in err
    out, _ = house.run("outbox", "show", str(listed["message_id"]), "--json")
    (attempt,) = json.loads(out)["attempts"]
    assert (attempt["outcome"], attempt["reply_text"]) == ("accepted", "in the log")
    assert "@" in attempt["recorded_by"]
    assert findings(house.conn) == {}


def test_a_person_retries_what_has_failed(house: House) -> None:
    post.issue(house.conn, recipients={"invoice": ["wrong@example.com"]})
    house.sink.answer = always(sink.FAIL_RECIPIENT)
    house.relay(exits=1)
    house.sink.answer = always(sink.TAKE)
    retry = ["outbox", "retry", str(house.only().message_id), "--reason", "mistyped"]
    _, wrong = house.run(*retry, "--to", "right", exits=2)

    house.run(*retry, "--to", "right@example.com", "--dry-run")
    assert len(house.states()) == 1
    house.run(*retry, "--to", "right@example.com")
    _, twice = house.run(*retry, exits=2)
    house.relay()

    assert "--to is wrong: an address has exactly one @." in wrong
    assert "was retried as" in twice
    assert [each.recipient for each in house.sink.received] == ["right@example.com"]
    assert [each.state for each in house.states()] == ["failed", "accepted"]
    assert findings(house.conn) == {}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["list", "--state", "lost"], "--state is one of held, pending, claimed"),
        (["show", "4711"], "there is no message 4711."),
        (["retry", "4711", "--reason", "x"], "there is no message 4711."),
    ],
)
def test_a_wrong_question_is_answered_in_a_sentence(
    house: House, command: list[str], sentence: str
) -> None:
    _, err = house.run("outbox", *command, exits=2)

    assert sentence in err
    assert "Traceback" not in err
