"""What is known of a mail is exactly what the server has said, at each stage."""

import asyncio
import email
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pgbill import folder, message, sink
from pgbill.errors import ConfigError
from pgbill.mail import Connection, MailServer, UncertainError, UnreachableError
from pgbill.message import Mail
from pgbill.outbox import Outcome
from pgbill.sink import Answer, Sink
from tests import documents

MAIL = message.compose(
    documents.document(), documents.message(), mail_from=None, redirect=None
)


@pytest.fixture
def mails(tmp_path: Path) -> Iterator[Sink]:
    with Sink(tmp_path) as running:
        yield running


def send(server: MailServer, *mails: Mail) -> list[Outcome]:
    async def send_all() -> list[Outcome]:
        connection = Connection(server)
        try:
            outcomes: list[Outcome] = []
            for mail in mails:
                await connection.open()
                outcomes.append(await connection.send(mail))
            return outcomes
        finally:
            await connection.close()

    return asyncio.run(send_all())


def at(running: Sink, *, seconds: float = 5) -> MailServer:
    return MailServer(running.host, running.port, seconds)


def test_a_mail_that_is_taken_arrives_as_it_was(mails: Sink) -> None:
    (outcome,) = send(at(mails), MAIL)

    assert outcome == Outcome("accepted", "OK", 250)
    (received,) = mails.received
    assert (received.sender, received.recipient) == (MAIL.sender, MAIL.sent_to)
    assert received.file.read_bytes() == MAIL.content


def test_lines_that_begin_with_a_dot_arrive(mails: Sink) -> None:
    dots = replace(MAIL, content=b"Subject: dots\r\n\r\n.\r\n..\n.a\r\nend")

    send(at(mails), dots, MAIL)

    assert mails.received[0].file.read_bytes() == (
        b"Subject: dots\r\n\r\n.\r\n..\r\n.a\r\nend\r\n"
    )
    assert len(mails.received) == 2


def test_many_mails_go_over_one_connection(mails: Sink) -> None:
    outcomes = send(at(mails), *[MAIL] * 120)

    assert [each.kind for each in outcomes] == ["accepted"] * 120


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (sink.DEFER, "deferred", 451),
        (sink.FAIL, "failed", 554),
        (sink.DEFER_RECIPIENT, "deferred", 450),
        (sink.FAIL_RECIPIENT, "failed", 550),
        (Answer("data", "252 maybe later"), "accepted", 252),
        (Answer("data", "421 closing"), "deferred", 421),
        (Answer("mail", "451 busy"), "deferred", 451),
        (Answer("rcpt", "354 what"), "deferred", 354),
    ],
)
def test_a_reply_says_what_it_says(
    mails: Sink, answer: Answer, kind: str, code: int
) -> None:
    mails.answer = lambda address: answer  # noqa: ARG005

    (outcome,) = send(at(mails), MAIL)

    assert (outcome.kind, outcome.reply_code) == (kind, code)
    assert len(mails.received) == (kind == "accepted")


def test_a_refused_sender_is_no_reason_to_give_up_the_recipient(mails: Sink) -> None:
    mails.answer = lambda address: sink.REFUSE_SENDER  # noqa: ARG005

    (outcome,) = send(at(mails), MAIL)

    assert (outcome.kind, outcome.reply_code) == ("deferred", 553)
    assert outcome.reply_text == "the sender was refused: 5.7.1 not your address"


@pytest.mark.parametrize("answer", [sink.FAIL, sink.DEFER_RECIPIENT])
def test_after_a_refusal_the_connection_serves_the_next(
    mails: Sink, answer: Answer
) -> None:
    mails.answer = lambda address: answer if "ap@" in address else sink.TAKE
    other = replace(MAIL, sent_to="cfo@buyer.example.com")

    outcomes = send(at(mails), MAIL, other, MAIL, other)

    assert [each.kind for each in outcomes][1::2] == ["accepted", "accepted"]
    assert "accepted" not in [each.kind for each in outcomes][::2]


def test_a_connection_that_breaks_before_the_mail_has_taken_nothing(
    mails: Sink,
) -> None:
    mails.answer = lambda address: sink.HANG_UP_BEFORE_MAIL  # noqa: ARG005

    (outcome,) = send(at(mails), MAIL)

    assert (outcome.kind, outcome.reply_code) == ("deferred", None)
    assert outcome.reply_text.startswith("the connection broke before DATA")


def test_a_connection_that_breaks_before_the_reply_leaves_it_open(
    mails: Sink,
) -> None:
    """The sink has the mail. Nobody but it knows."""
    mails.answer = lambda address: sink.HANG_UP_BEFORE_REPLY  # noqa: ARG005

    with pytest.raises(UncertainError, match="no reply to the mail came"):
        send(at(mails), MAIL)

    assert len(mails.received) == 1


def test_a_connection_that_breaks_after_the_reply_was_good(mails: Sink) -> None:
    mails.answer = lambda address: sink.HANG_UP_AFTER_REPLY  # noqa: ARG005

    outcomes = send(at(mails), MAIL, MAIL)

    assert outcomes[0].kind == "accepted"


def test_a_reply_that_never_comes_leaves_it_open(mails: Sink) -> None:
    mails.answer = lambda address: Answer("data", seconds=30)  # noqa: ARG005

    with pytest.raises(UncertainError, match="Timed out"):
        send(at(mails, seconds=0.1), MAIL)


def test_a_slow_reply_is_waited_for(mails: Sink) -> None:
    """Ten times as long as for any other, since after it nothing can be undone."""
    mails.answer = lambda address: Answer("data", seconds=0.6)  # noqa: ARG005

    (outcome,) = send(at(mails, seconds=0.2), MAIL)

    assert outcome.kind == "accepted"


def test_a_mailbox_beyond_ascii_reaches_a_server_that_can(mails: Sink) -> None:
    claimed = documents.message(address="büro@buyer.example.com")
    mail = message.compose(documents.document(), claimed, mail_from=None, redirect=None)

    (outcome,) = send(at(mails), mail)

    assert outcome.kind == "accepted"
    assert mails.received[0].recipient == "büro@buyer.example.com"


@contextmanager
def scripted(*replies: bytes) -> Generator[MailServer]:
    """Run a server that says these things, one for each line, and then hangs up."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client, client.makefile("rb") as lines:
                for reply in replies:
                    client.sendall(reply)
                    if reply == GO_ON:
                        while lines.readline() != b".\r\n":
                            pass
                    elif not lines.readline():
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        yield MailServer("127.0.0.1", listening.getsockname()[1], 5)
        thread.join(10)


GREETING = (b"220 here\r\n", b"250 here\r\n")
OK = b"250 ok\r\n"
GO_ON = b"354 go on\r\n"


@pytest.mark.parametrize("reply", [b"hello?\r\n", b"354 again\r\n", b"150 wait\r\n"])
def test_a_reply_that_makes_no_sense_leaves_it_open(reply: bytes) -> None:
    with (
        scripted(*GREETING, OK, OK, GO_ON, reply) as server,
        pytest.raises(UncertainError),
    ):
        send(server, MAIL)


@pytest.mark.parametrize("reply", [b"hello?\r\n", b"250 strange\r\n", b"150 wait\r\n"])
def test_without_leave_to_go_on_nothing_was_taken(reply: bytes) -> None:
    with scripted(*GREETING, OK, OK, reply) as server:
        (outcome,) = send(server, MAIL)

    assert outcome.kind == "deferred"


def test_a_reply_of_any_bytes_can_be_told() -> None:
    with scripted(*GREETING, OK, b"550 no\xff\xfe\r\n", OK) as server:
        (outcome,) = send(server, MAIL)

    assert outcome.kind == "failed"
    assert outcome.reply_text.startswith("no")


def test_a_mailbox_beyond_ascii_fails_where_the_server_cannot() -> None:
    with scripted(*GREETING, b"221 bye\r\n") as server:
        (outcome,) = send(server, replace(MAIL, needs_utf8=True))

    assert outcome == Outcome("failed", "the server takes only addresses in ASCII")


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port} cannot be reached"):
        send(MailServer("127.0.0.1", port, 5), MAIL)


@pytest.mark.parametrize("greeting", [b"421 too busy\r\n", b"554 not you\r\n"])
def test_a_server_that_turns_everybody_away_is_unreachable(greeting: bytes) -> None:
    with scripted(greeting) as server, pytest.raises(UnreachableError):
        send(server, MAIL)


def test_a_server_without_encryption_is_a_matter_of_settings() -> None:
    with (
        scripted(*GREETING, b"502 no\r\n") as server,
        pytest.raises(ConfigError, match="cannot do what is asked"),
    ):
        send(replace(server, tls="starttls"), MAIL)


def test_a_refused_login_is_a_matter_of_settings() -> None:
    greeting = (b"220 here\r\n", b"250-here\r\n250 AUTH PLAIN\r\n")
    with (
        scripted(*greeting, b"535 who?\r\n", b"535 who?\r\n") as server,
        pytest.raises(ConfigError, match=r"refuses the login: who\?"),
    ):
        send(replace(server, username="a", password="secret"), MAIL)


def test_a_file_appears_whole_and_under_the_same_name(tmp_path: Path) -> None:
    outcomes = [
        folder.deliver(tmp_path / "out", documents.message(), MAIL) for _ in range(2)
    ]

    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "NL-000042-3.eml"
    assert file.read_bytes() == MAIL.content
    assert [each.kind for each in outcomes] == ["accepted", "accepted"]
    assert email.message_from_bytes(file.read_bytes())["To"] == MAIL.sent_to


def test_a_number_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    mail = replace(MAIL, number_text="../../2026/0001")

    folder.deliver(tmp_path / "out", documents.message(), mail)

    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "_2026_0001-3.eml"


def test_a_folder_that_is_not_set_or_not_there_can_be_mended(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    unset = folder.deliver(None, documents.message(), MAIL)
    wrong = folder.deliver(tmp_path / "file", documents.message(), MAIL)

    assert unset.kind == wrong.kind == "deferred"
    assert "set PGBILL_MAIL_DIR" in unset.reply_text
    assert "cannot be written" in wrong.reply_text
