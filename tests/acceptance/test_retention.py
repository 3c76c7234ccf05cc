"""`pgbill retention drop` says what went, what stays and why."""

from datetime import UTC, date, datetime
from pathlib import Path

from pgbill import db, roles
from tests.acceptance.commands import Pgbill, assert_clean, do
from tests.actors import bill_all
from tests.shop import Shop

JANUARY = datetime(2026, 1, 15, tzinfo=UTC)
FEBRUARY = datetime(2026, 2, 15, tzinfo=UTC)


def test_what_is_billed_goes_and_the_rest_stays(dsn: str, tmp_path: Path) -> None:
    with db.connect(dsn, role=roles.OWNER, application="test") as conn:
        shop = Shop.open(conn)
        account = shop.account(conn, key="a-1")
        shop.use(conn, account, "1", "2", occurred_at=JANUARY)
        shop.use(conn, account, "3", occurred_at=FEBRUARY, key="open")
        bill_all(conn, account, through_on=date(2026, 1, 31))
    pgbill = Pgbill(dsn, tmp_path)
    drop = ("retention", "drop", "--before", "2026-03")

    planned = pgbill(*drop, "--dry-run")
    first = pgbill(*drop)
    again = pgbill(*drop, "--json")
    january = do(pgbill, "retention", "drop", "--before", "2026-02")

    stays = (
        "pgbill: 2026-02 stays: of its records, 1 are not done with. The first: record"
        " open of account a-1 is waiting (its period is not closed).\n"
    )
    assert planned.exit_code == first.exit_code == again.exit_code == 1
    assert planned.stdout == first.stdout
    assert [line.split() for line in first.stdout.splitlines()] == [
        ["month", "records", "not", "done", "with"],
        ["2026-01", "2", "0"],
        ["2026-02", "1", "1"],
    ]
    told, zones, end = planned.stderr.splitlines(keepends=True)
    assert told == stays
    assert zones.startswith(
        "pgbill: months are those of UTC: in other zones late usage"
    )
    assert end == "pgbill: nothing was dropped: --dry-run.\n"
    assert first.stderr == again.stderr == stays
    assert again.json == [{"month": "2026-02", "records": 1, "unfinished": 1}]
    assert len(january.stdout.splitlines()) == 1
    assert_clean(pgbill)


def test_a_month_is_one_of_utc(dsn: str, tmp_path: Path) -> None:
    help_ = " ".join(Pgbill(dsn, tmp_path)("retention", "drop", "-h").stdout.split())

    assert "A month is one of UTC" in help_
    assert "west of Greenwich for the local August" in help_
