"""Commands fail with one sentence on stderr, and print data on stdout alone."""

import json
from decimal import Decimal

import pytest
import typer
from typer.testing import CliRunner

from pgbill import cli
from pgbill.cli import output
from pgbill.errors import TemporaryError


def _invoke(app: typer.Typer, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_comes_in_both_ways(option: str) -> None:
    exit_code, stdout, _ = _invoke(cli.app, option)

    assert exit_code == 0
    assert "migrate" in stdout


@pytest.mark.parametrize(
    "command", [("migrate",), ("check",), ("server", "status"), ("server", "stop")]
)
def test_each_help_has_an_example(command: tuple[str, ...]) -> None:
    _, stdout, _ = _invoke(cli.app, *command, "-h")

    assert f"Example: pgbill {' '.join(command)}" in stdout


def test_an_error_of_ours_is_a_sentence_and_an_exit_code() -> None:
    app = typer.Typer(cls=output.Commands)

    @app.command()
    def fail() -> None:
        raise TemporaryError("the database is away.")

    @app.command()
    def other() -> None:
        pass

    assert _invoke(app, "fail") == (75, "", "pgbill: the database is away.\n")
    assert _invoke(app, "other") == (0, "", "")


def test_a_wrong_option_is_a_usage_error() -> None:
    exit_code, stdout, stderr = _invoke(cli.app, "check", "--absent")

    assert (exit_code, stdout) == (2, "")
    assert "--absent" in stderr


def test_a_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(
        [{"name": "[b]A[/b]", "total": Decimal("1.50")}, {"name": "B", "total": None}],
        {"name": "Name", "total": "Total"},
    )

    assert capsys.readouterr().out.splitlines() == [
        "Name      Total",
        "[b]A[/b]   1.50",
        "B              ",
    ]


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """Money stays a string: a float would lose a cent somewhere."""
    rows = [{"name": "Ä", "total": Decimal("1.50"), "more": 1}]

    output.table(rows, {"name": "Name", "total": "Total"}, json=True)

    assert json.loads(capsys.readouterr().out) == [{"name": "Ä", "total": "1.50"}]


def test_help_is_quick() -> None:
    """No command imports its driver before it runs."""
    import subprocess
    import sys

    code = "import sys, pgbill.cli; print({'psycopg', 'alembic'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )

    assert done.stdout == "set()\n"
