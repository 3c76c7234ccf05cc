"""`pgbill import` and `pgbill catalog apply` take files as users have them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgbill import db, resources
from tests import builders
from tests.acceptance.commands import ROOT, Pgbill, assert_clean, do
from tests.actors import bill_all
from tests.shop import findings, value

HEADER = "key,account,meter,quantity,occurred_at\n"
RECORD = "u-{},a-1,gb,1.5,2026-01-15T12:00:00Z\n"
LIMIT_MB = 80

# The most that a process ever had counts from before its program was loaded, so a child
# of ours would show our own memory. A small process in between has little to hand down.
_MEASURED = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "pgbill", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.fixture
def pgbill(dsn: str, tmp_path: Path) -> Pgbill:
    """Return a shell in a database with an account and a meter."""
    with db.connect(dsn, application="test") as conn:
        builders.meter(conn, "gb")
        builders.account(conn, builders.seller(conn), key="a-1")
    return Pgbill(dsn, tmp_path)


def test_a_file_and_standard_input_are_read(pgbill: Pgbill) -> None:
    (pgbill.folder / "u.csv").write_text(HEADER + RECORD.format(1), encoding="utf-8")
    in_json = (
        '{"key": "u-2", "account": "a-1", "meter": "gb", "quantity": 2,'
        ' "occurred_at": "2026-01-16T12:00:00Z"}\n'
    )

    from_file = do(pgbill, "import", "usage", "u.csv")
    from_csv = pgbill("import", "usage", "-", "--json", text=HEADER + RECORD.format(1))
    from_jsonl = pgbill(
        "import", "usage", "-", "--json", "--format", "jsonl", text=in_json
    )

    assert [line.split() for line in from_file.stdout.splitlines()] == [
        ["read", "new", "changed", "unchanged"],
        ["1", "1", "0", "0"],
    ]
    assert from_csv.json == {"read": 1, "new": 0, "changed": 0, "unchanged": 1}
    assert from_jsonl.json == {"read": 1, "new": 1, "changed": 0, "unchanged": 0}


def test_what_is_wrong_is_named_and_the_rest_counted(pgbill: Pgbill) -> None:
    text = HEADER + "".join(
        RECORD.format(number).replace("gb", "tb") for number in range(25)
    )

    done = pgbill("import", "usage", "-", text=text)

    lines = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (2, "")
    assert lines[0] == "pgbill: - holds something wrong, so nothing was changed:"
    assert lines[1] == "-:2: meter: there is no meter tb"
    assert len(lines) == 22
    assert lines[-1] == "… and 5 more"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("import", "usage", "absent.csv"), "cannot read absent.csv: No such file"),
        (("import", "usage", "-"), "- is empty."),
        (("import", "accounts", "data"), "does not tell its format."),
        (("catalog", "apply", "absent.toml"), "cannot read absent.toml: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    pgbill: Pgbill, arguments: tuple[str, ...], sentence: str
) -> None:
    done = pgbill(*arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_database_that_is_not_migrated_is_refused(
    empty_dsn: str, tmp_path: Path
) -> None:
    done = Pgbill(empty_dsn, tmp_path)("import", "usage", "-", text=HEADER)

    assert done.exit_code == 78
    assert "pgbill migrate" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("import", "accounts"),
        ("import", "subscriptions"),
        ("import", "usage"),
        ("import", "charges"),
        ("import", "discounts"),
        ("import", "prepaid"),
        ("catalog", "apply"),
    ],
)
def test_each_help_has_an_example(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = Pgbill(None, tmp_path)(*command, "-h")

    assert f"Example: pgbill {' '.join(command)}" in done.stdout


def test_the_examples_can_be_imported_and_billed(dsn: str, tmp_path: Path) -> None:
    """The whole company, with the first thousand records of its usage."""
    script = resources.path("examples", "make_company.py")
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    usage = (tmp_path / "usage.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "some.csv").write_text("\n".join(usage[:1001]), encoding="utf-8")
    pgbill = Pgbill(dsn, tmp_path)

    first = do(
        pgbill, "catalog", "apply", str(resources.path("examples", "catalog.toml"))
    )
    again = do(
        pgbill, "catalog", "apply", str(resources.path("examples", "catalog.toml"))
    )
    accounts = do(pgbill, "import", "accounts", "accounts.csv", "--json").json
    subscriptions = do(pgbill, "import", "subscriptions", "subscriptions.csv", "--json")
    records = do(pgbill, "import", "usage", "some.csv", "--json").json

    assert "northlight-jp" in first.stdout
    assert again.stdout == "no change\n"
    assert accounts["new"] == 2000
    assert subscriptions.json["new"] > 2000
    assert (records["new"], len(usage)) == (1000, 100_001)
    with db.connect(dsn, application="test") as conn:
        waiting = "SELECT DISTINCT state FROM pgbill.usage_state"
        assert value(conn, waiting) == "waiting"
        for key in ("C00001", "C01000", "C02000"):
            billed = bill_all(conn, builders.find(conn, key), through_on=None)
            assert set(billed) <= {"invoiced", "nothing_to_bill"}
    assert_clean(pgbill)


def test_memory_does_not_grow_with_the_file(pgbill: Pgbill) -> None:
    """A million lines need what a thousand need; a few show it."""
    file = pgbill.folder / "u.csv"

    def megabytes(count: int) -> float:
        with file.open("w", encoding="utf-8") as stream:
            stream.write(HEADER)
            stream.writelines(RECORD.format(number) for number in range(count))
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, "import", "usage", str(file)],
            env={
                **os.environ,
                "PGBILL_DSN": pgbill.dsn or "",
                "PYTHONPATH": str(ROOT),
            },
            stdout=subprocess.PIPE,
            check=True,
        )
        return int(done.stdout.split()[-1]) / 1024

    small, large = megabytes(1_000), megabytes(100_000)

    assert large < LIMIT_MB
    assert large < small + 10
    with db.connect(pgbill.dsn or "", application="test") as conn:
        assert value(conn, "SELECT count(*) FROM pgbill.usage_record") == 100_000
        assert findings(conn) == {}
