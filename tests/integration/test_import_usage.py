"""A file of usage is taken over as a whole, any number of times, or refused (P6)."""

import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection, sql

from pgbill import importing, roles
from pgbill import usage as usage_file
from pgbill.importing import Report
from tests import builders
from tests.actors import Threads, connect, wait_for, wait_until_blocked
from tests.inputs import Row, refusals, rows, write_csv, write_jsonl
from tests.shop import Shop, findings, run_sql, value, values

pytestmark = pytest.mark.one_server

RECORD: Row = {
    "key": "u-1",
    "account": "a-1",
    "meter": "gb",
    "quantity": "1.5",
    "occurred_at": "2026-01-15T12:00:00Z",
}


@pytest.fixture
def _shop(conn: Connection[Any]) -> None:
    open_shop(conn)


def open_shop(conn: Connection[Any]) -> None:
    seller_id = builders.seller(conn)
    builders.meter(conn, "gb")
    builders.meter(conn, "hours")
    for key in ("a-1", "a-2"):
        builders.account(conn, seller_id, key=key)


def load(conn: Connection[Any], folder: Path, *records: Row) -> Report:
    return importing.usage(conn, write_csv(folder / "usage.csv", records))


def refused(conn: Connection[Any], folder: Path, *records: Row) -> list[str]:
    before = rows(conn, "usage_record"), rows(conn, "usage_watermark")
    told = refusals(load, conn, folder, *records)
    assert (rows(conn, "usage_record"), rows(conn, "usage_watermark")) == before
    return told


@pytest.mark.usefixtures("_shop")
def test_an_import_leaves_its_number_and_its_watermarks(
    conn: Connection[Any], tmp_path: Path
) -> None:
    late = RECORD | {"key": "u-2", "occurred_at": "2026-01-01T00:30:00+02:00"}
    other = RECORD | {"account": "a-2"}

    report = load(conn, tmp_path, RECORD, late, other)

    assert report == Report(read=3, new=3, changed=0, unchanged=0)
    assert values(conn, "SELECT DISTINCT import_seq FROM pgbill.usage_record") == [1]
    marks = [
        (mark["bucket"], mark["earliest_at"], mark["record_count"])
        for mark in rows(conn, "usage_watermark")
    ]
    assert sorted(marks) == sorted(
        [
            (builders.bucket_of(conn, "a-1"), "2025-12-31T22:30:00+00:00", 2),
            (builders.bucket_of(conn, "a-2"), "2026-01-15T12:00:00+00:00", 1),
        ]
    )


@pytest.mark.usefixtures("_shop")
def test_a_month_gets_a_closed_partition(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, RECORD)

    month = "usage_record_2026_01"
    assert value(conn, f"SELECT count(*) FROM pgbill.{month}") == 1  # noqa: S608
    assert value(
        conn,
        "SELECT has_table_privilege('pgbill_reader', %s, 'SELECT')",
        f"pgbill.{month}",
    )
    assert not value(
        conn,
        "SELECT has_table_privilege('pgbill_worker', %s, 'INSERT')",
        f"pgbill.{month}",
    )
    assert value(
        conn,
        "SELECT count(*) FROM pg_catalog.pg_trigger WHERE NOT tgisinternal"
        " AND tgrelid = %s::regclass AND tgfoid = 'pgbill.freeze'::regproc",
        f"pgbill.{month}",
    )


@pytest.mark.usefixtures("_shop")
def test_a_file_imported_again_changes_nothing(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, RECORD)
    before = rows(conn, "usage_record"), rows(conn, "usage_watermark")

    report = load(conn, tmp_path, RECORD, RECORD | {"quantity": "1.50"})

    assert report == Report(read=2, new=0, changed=0, unchanged=2)
    assert (rows(conn, "usage_record"), rows(conn, "usage_watermark")) == before


@pytest.mark.usefixtures("_shop")
def test_only_what_is_new_gets_the_new_number(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, RECORD)

    report = load(conn, tmp_path, RECORD, RECORD | {"key": "u-2"})

    assert (report.new, report.unchanged) == (1, 1)
    assert values(conn, "SELECT import_seq FROM pgbill.usage_record ORDER BY key") == [
        1,
        2,
    ]
    assert values(
        conn, "SELECT record_count FROM pgbill.usage_watermark ORDER BY import_seq"
    ) == [1, 1]


@pytest.mark.usefixtures("_shop")
def test_a_key_is_unique_within_its_account_alone(
    conn: Connection[Any], tmp_path: Path
) -> None:
    assert load(conn, tmp_path, RECORD, RECORD | {"account": "a-2"}).new == 2


@pytest.mark.usefixtures("_shop")
def test_json_lines_are_taken_as_csv_is(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, RECORD)
    in_json = RECORD | {"quantity": 1.5, "occurred_at": "2026-01-15T14:00:00+02:00"}

    report = importing.usage(conn, write_jsonl(tmp_path / "u.jsonl", [in_json]))

    assert report.unchanged == 1


@pytest.mark.usefixtures("_shop")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": ""}, "key: the value is missing"),
        ({"account": "a-9"}, "account: there is no account a-9"),
        ({"meter": "tb"}, "meter: there is no meter tb"),
        (
            {"quantity": "-1"},
            "quantity: -1 is below zero, and names no record that it corrects",
        ),
        (
            {"quantity": "0", "corrects": "u-1"},
            "quantity: 0 is not below zero, though it corrects u-1",
        ),
        (
            {"dimensions": "region"},
            "dimensions: 'region' is not a dimension such as region=eu",
        ),
        ({"quantity": "abc"}, "quantity: 'abc' is not a number such as 12.5"),
        ({"quantity": "NaN"}, "quantity: 'NaN' is not a number such as 12.5"),
        ({"quantity": "Infinity"}, "quantity: 'Infinity' is not a number such as 12.5"),
        ({"quantity": "1e400"}, "quantity: '1e400' is not a number such as 12.5"),
        (
            {"occurred_at": "2026-01-15T12:00:00"},
            "occurred_at: '2026-01-15T12:00:00' has no offset: end it with Z or +02:00",
        ),
        (
            {"occurred_at": "2026-13-01T00:00:00Z"},
            (
                "occurred_at: '2026-13-01T00:00:00Z' is not a time such as"
                " 2026-10-01T12:30:00+02:00"
            ),
        ),
        (
            {"occurred_at": "1999-12-31T00:00:00Z"},
            "occurred_at: '1999-12-31T00:00:00Z' is not between 2000 and 2199",
        ),
        (
            {"occurred_at": "2150-01-01T00:00:00Z"},
            "occurred_at: 2150-01-01T00:00:00Z lies more than two days in the future",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str
) -> None:
    bad = RECORD | {"key": "bad"} | changes

    assert refused(conn, tmp_path, RECORD, bad) == [f"usage.csv:3: {told}"]


@pytest.mark.usefixtures("_shop")
def test_a_file_that_is_wrong_makes_no_partition(
    conn: Connection[Any], tmp_path: Path
) -> None:
    refused(conn, tmp_path, RECORD | {"meter": "tb"})

    assert value(conn, "SELECT to_regclass('pgbill.usage_record_2026_01')") is None


@pytest.mark.usefixtures("_shop")
def test_tomorrow_in_another_zone_is_no_future(
    conn: Connection[Any], tmp_path: Path
) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    report = load(conn, tmp_path, RECORD | {"occurred_at": tomorrow.isoformat()})

    assert report.new == 1


@pytest.mark.usefixtures("_shop")
@pytest.mark.parametrize(
    ("changes", "in_file", "imported"),
    [
        (
            {"occurred_at": "2026-02-15T12:00:00Z"},
            "time",
            "time: 2026-01-15T12:00:00.000000Z",
        ),
        ({"meter": "hours"}, "meter", "meter: gb"),
        ({"quantity": "2"}, "quantity", "quantity: 1.5"),
        ({"dimensions": "region=eu"}, "dimensions", "dimensions: {}"),
        (
            {"quantity": "2", "meter": "hours"},
            "meter, quantity",
            "meter: gb, quantity: 1.5",
        ),
    ],
)
def test_a_key_with_other_data_is_refused(
    conn: Connection[Any], tmp_path: Path, changes: Row, in_file: str, imported: str
) -> None:
    other = RECORD | changes

    assert refused(conn, tmp_path, RECORD, other) == [
        f"usage.csv:3: key: u-1 stands in line 2 already, with another {in_file}"
    ]
    load(conn, tmp_path, RECORD)
    assert refused(conn, tmp_path, other) == [
        f"usage.csv:2: key: u-1 was imported before with another {imported}"
    ]


def test_imports_queue_and_lose_nothing(dsn: str, tmp_path: Path) -> None:
    """The second waits for the first, so its number becomes visible after it."""
    one = write_csv(tmp_path / "one.csv", [RECORD])
    two = write_csv(tmp_path / "two.csv", [RECORD, RECORD | {"key": "u-2"}])
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as first,
        contextlib.closing(connect(dsn, roles.OWNER)) as second,
        contextlib.closing(connect(dsn, roles.OWNER)) as observer,
        Threads() as threads,
    ):
        open_shop(observer)
        builders.usage(observer, builders.find(observer, "a-1"), 1)
        with first.transaction():
            assert importing.usage(first, one).new == 1

            waiting = threads.start(importing.usage, second, two)
            wait_until_blocked(observer, second)
        report = wait_for(waiting)

        assert (report.new, report.unchanged) == (1, 1)
        assert values(
            observer,
            "SELECT import_seq FROM pgbill.usage_record WHERE key LIKE 'u-_'"
            " ORDER BY key",
        ) == [2, 3]
        assert values(
            observer, "SELECT import_seq FROM pgbill.usage_watermark ORDER BY 1"
        ) == [1, 2, 3]


def test_a_new_month_holds_up_neither_reading_nor_writing_of_another(
    dsn: str, tmp_path: Path
) -> None:
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as busy,
        contextlib.closing(connect(dsn, roles.OWNER)) as conn,
    ):
        shop = Shop.open(busy)
        account = shop.account(busy, key="a-1")
        builders.meter(busy, "gb")
        with busy.transaction():
            # As a run and its fences do: reads usage, locks leases and accounts' keys.
            value(busy, "SELECT count(*) FROM pgbill.usage_record")
            value(busy, "SELECT account_id FROM pgbill.lease FOR UPDATE")
            value(busy, "SELECT account_id FROM pgbill.account FOR KEY SHARE")

            report = load(conn, tmp_path, RECORD | {"account": account.key})

        assert report.new == 1


def test_two_imports_may_want_the_same_new_month(dsn: str, tmp_path: Path) -> None:
    files = [
        write_csv(tmp_path / f"{key}.csv", [RECORD | {"key": key}])
        for key in ("u-1", "u-2", "u-3", "u-4")
    ]
    with (
        contextlib.ExitStack() as stack,
        Threads() as threads,
    ):
        conns = [
            stack.enter_context(contextlib.closing(connect(dsn, roles.OWNER)))
            for _ in files
        ]
        open_shop(conns[0])

        reports = [
            threads.start(importing.usage, conn, file)
            for conn, file in zip(conns, files, strict=True)
        ]

        assert [wait_for(report).new for report in reports] == [1, 1, 1, 1]
        assert value(conns[0], "SELECT count(*) FROM pgbill.usage_record") == 4


def test_all_of_a_file_or_nothing_whatever_happens(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that breaks before the commit leaves nothing behind."""
    write = usage_file.write

    def write_and_die(conn: Connection[Any], staged: Any, **options: Any) -> None:  # noqa: ANN401
        write(conn, staged, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(usage_file, "write", write_and_die)
    with contextlib.closing(connect(dsn, roles.OWNER)) as conn:
        open_shop(conn)

        with pytest.raises(KeyboardInterrupt):
            load(conn, tmp_path, RECORD)

        assert rows(conn, "usage_record") == []
        assert rows(conn, "usage_watermark") == []
        monkeypatch.undo()
        assert load(conn, tmp_path, RECORD).new == 1
        assert findings(conn) == {}


def test_a_key_that_another_import_brings_meanwhile_is_checked_again(
    dsn: str, tmp_path: Path
) -> None:
    one = write_csv(tmp_path / "one.csv", [RECORD])
    two = write_csv(tmp_path / "two.csv", [RECORD | {"quantity": "2"}])
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as first,
        contextlib.closing(connect(dsn, roles.OWNER)) as second,
        contextlib.closing(connect(dsn, roles.OWNER)) as observer,
        Threads() as threads,
    ):
        open_shop(observer)
        builders.usage(observer, builders.find(observer, "a-2"), 1)
        with first.transaction():
            importing.usage(first, one)
            waiting = threads.start(refusals, importing.usage, second, two)
            wait_until_blocked(observer, second)

        assert wait_for(waiting) == [
            "two.csv:2: key: u-1 was imported before with another quantity: 1.5"
        ]


def test_known_keys_are_looked_up_by_the_primary_key(
    conn: Connection[Any], tmp_path: Path
) -> None:
    """Another index reads all of an account for each record: 32 s instead of 4 ms."""
    open_shop(conn)
    load(conn, tmp_path, *(RECORD | {"key": f"u-{it:05}"} for it in range(5_000)))
    queries = usage_file.LAYOUT.queries
    conn.execute(queries["create"])
    run_sql(
        conn,
        "INSERT INTO pg_temp.staged_usage"
        " SELECT number, 'v-' || number, 'a-1', 'gb', 1, now()"
        " FROM generate_series(1, 100) AS number",
    )
    conn.execute(queries["resolve"])
    conn.execute("ANALYZE pg_temp.resolved_usage")

    plan = [row[0] for row in conn.execute(sql.SQL("EXPLAIN ") + queries["find_known"])]

    scans = [line for line in plan if "Scan" in line and "usage_record" in line]
    assert scans
    assert all("_pkey" in line for line in scans), plan
