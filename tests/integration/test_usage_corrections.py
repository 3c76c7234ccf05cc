"""What a usage record is about, and how another takes something off it."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import importing, roles
from pgbill.importing import Report
from tests import builders
from tests.actors import Threads, connect, wait_for, wait_until_blocked
from tests.inputs import Row, refusals, rows, write_csv, write_jsonl
from tests.shop import findings, value, values

pytestmark = pytest.mark.one_server

RECORD: Row = {
    "key": "u-1",
    "account": "a-1",
    "meter": "gb",
    "quantity": "5",
    "occurred_at": "2026-01-15T12:00:00Z",
    "dimensions": "region=eu",
    "corrects": "",
}
OFF: Row = RECORD | {"key": "c-1", "quantity": "-2", "corrects": "u-1"}


@pytest.fixture(autouse=True)
def _shop(conn: Connection[Any]) -> None:
    open_shop(conn)


def open_shop(conn: Connection[Any]) -> None:
    seller_id = builders.seller(conn)
    builders.meter(conn, "gb")
    builders.meter(conn, "hours")
    builders.meter(conn, "seats", aggregation="time_weighted")
    for key in ("a-1", "a-2"):
        builders.account(conn, seller_id, key=key)


def load(conn: Connection[Any], folder: Path, *records: Row) -> Report:
    return importing.usage(conn, write_csv(folder / "u.csv", records))


def refused(conn: Connection[Any], folder: Path, *records: Row) -> list[str]:
    before = rows(conn, "usage_record")
    told = refusals(load, conn, folder, *records)
    assert rows(conn, "usage_record") == before
    return [line.removeprefix("u.csv:") for line in told]


def test_dimensions_are_kept_as_text(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, RECORD, RECORD | {"key": "u-2", "dimensions": ""})

    assert values(conn, "SELECT dimensions FROM pgbill.usage_record ORDER BY key") == [
        {"region": "eu"},
        None,
    ]


def test_json_lines_give_an_object(conn: Connection[Any], tmp_path: Path) -> None:
    load(conn, tmp_path, RECORD)
    same = RECORD | {"dimensions": {"region": "eu"}, "corrects": None}
    other = same | {"key": "u-2", "dimensions": {"size": 1.5, "spot": False}}
    none = same | {"key": "u-3", "dimensions": {}}

    report = importing.usage(
        conn, write_jsonl(tmp_path / "u.jsonl", [same, other, none])
    )

    assert (report.new, report.unchanged) == (2, 1)
    assert values(conn, "SELECT dimensions FROM pgbill.usage_record ORDER BY key") == [
        {"region": "eu"},
        {"size": "1.5", "spot": "false"},
        None,
    ]


def test_the_same_key_with_other_dimensions_is_refused(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, RECORD)

    assert refused(conn, tmp_path, RECORD | {"dimensions": "region=us"}) == [
        '2: key: u-1 was imported before with another dimensions: {"region": "eu"}'
    ]


@pytest.mark.parametrize("apart", [False, True])
def test_a_record_is_corrected_in_its_file_or_later(
    conn: Connection[Any], tmp_path: Path, *, apart: bool
) -> None:
    if apart:
        load(conn, tmp_path, RECORD)

    report = load(conn, tmp_path, OFF, RECORD, OFF | {"key": "c-2", "quantity": "-3"})

    assert report.unchanged == (1 if apart else 0)
    assert value(conn, "SELECT sum(quantity) FROM pgbill.usage_record") == 0
    assert values(
        conn,
        "SELECT key FROM pgbill.usage_record WHERE corrects_key = 'u-1' ORDER BY 1",
    ) == ["c-1", "c-2"]
    assert findings(conn) == {}


def test_a_correction_imported_again_changes_nothing(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, RECORD, OFF | {"quantity": "-5"})

    report = load(conn, tmp_path, OFF | {"quantity": "-5.0"}, OFF | {"quantity": "-5"})

    assert report == Report(read=2, new=0, changed=0, unchanged=2)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"corrects": "u-9"}, "account a-1 has no record u-9"),
        ({"account": "a-2"}, "account a-2 has no record u-1"),
        ({"meter": "hours"}, "u-1 has another meter"),
        ({"occurred_at": "2026-01-15T12:00:01Z"}, "u-1 has another time"),
        ({"occurred_at": "2026-02-15T12:00:00Z"}, "u-1 has another time"),
        ({"dimensions": ""}, "u-1 has another dimensions"),
        ({"meter": "hours", "dimensions": ""}, "u-1 has another meter, dimensions"),
        ({"quantity": "-5.01"}, "with it, corrections take 5.01 off u-1, which has 5"),
    ],
)
def test_what_corrects_nothing_is_refused(
    conn: Connection[Any], tmp_path: Path, changes: Row, told: str, *, apart: bool
) -> None:
    if apart:
        load(conn, tmp_path, RECORD)

    assert refused(conn, tmp_path, RECORD, OFF | changes) == [f"3: corrects: {told}"]


@pytest.mark.parametrize("corrects", ["c-1", "c-2"])
def test_a_correction_is_not_corrected(
    conn: Connection[Any], tmp_path: Path, corrects: str
) -> None:
    again = OFF | {"key": "c-2", "quantity": "-1", "corrects": corrects}
    told = (
        f"corrects: {corrects} is a correction itself: correct the record that it"
        " corrects"
    )

    assert refused(conn, tmp_path, RECORD, OFF, again) == [f"4: {told}"]
    load(conn, tmp_path, RECORD, OFF)
    assert refused(conn, tmp_path, again) == [f"2: {told}"]


def test_all_corrections_together_take_no_more_than_there_is(
    conn: Connection[Any], tmp_path: Path
) -> None:
    load(conn, tmp_path, RECORD, OFF)
    more = [OFF | {"key": f"c-{number}"} for number in (2, 3)]

    assert refused(conn, tmp_path, *more) == [
        "3: corrects: with it, corrections take 6 off u-1, which has 5"
    ]
    assert load(conn, tmp_path, more[0]).new == 1


def test_a_level_goes_down_without_naming_a_record(
    conn: Connection[Any], tmp_path: Path
) -> None:
    seats = RECORD | {"meter": "seats"}

    report = load(conn, tmp_path, seats, seats | {"key": "u-2", "quantity": "-3"})

    assert report.new == 2


def test_two_imports_do_not_correct_the_same_twice(dsn: str, tmp_path: Path) -> None:
    """The second was checked before the first had committed, and is checked again."""
    one = write_csv(tmp_path / "one.csv", [OFF | {"quantity": "-3"}])
    two = write_csv(tmp_path / "two.csv", [OFF | {"key": "c-2", "quantity": "-3"}])
    with (
        contextlib.closing(connect(dsn, roles.OWNER)) as first,
        contextlib.closing(connect(dsn, roles.OWNER)) as second,
        contextlib.closing(connect(dsn, roles.OWNER)) as observer,
        Threads() as threads,
    ):
        open_shop(observer)
        load(observer, tmp_path, RECORD)
        with first.transaction():
            importing.usage(first, one)
            waiting = threads.start(refusals, importing.usage, second, two)
            wait_until_blocked(observer, second)

        assert wait_for(waiting) == [
            "two.csv:2: corrects: with it, corrections take 6 off u-1, which has 5"
        ]
