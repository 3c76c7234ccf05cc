"""The README's first run works as it is written."""

import re
import shlex
from pathlib import Path

from tests.acceptance.commands import ROOT, Done, Pgbill

_FILE = re.compile(
    r"^`(?P<name>[\w.]+)`\n\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_COMMANDS = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_first_run_of_the_readme_works(dsn: str, tmp_path: Path) -> None:
    """Its files and commands, in their order, end with an audit without findings."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for file in _FILE.finditer(readme):
        (tmp_path / file["name"]).write_text(file["text"], encoding="utf-8")
    pgbill = Pgbill(dsn, tmp_path)

    done = {command: _run(pgbill, command) for command in _commands(readme)}

    assert [each.exit_code for each in done.values()] == [0] * len(done), done
    billed = done["run --through 2026-10-31"].stdout
    # 49.00 in advance twice, 151,250.5 requests of 0.00125; A-2: two of 49.00.
    assert "385.06" in billed
    assert "458.22" in billed
    assert "AC-000001" in done["invoice list"].stdout


def test_every_link_of_the_documents_leads_somewhere() -> None:
    """Links to files of the repository, in the README and in docs."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

    dead = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]

    assert dead == []


def _commands(readme: str) -> list[str]:
    found = _COMMANDS.search(readme)
    assert found is not None
    return [
        line.removeprefix("$ pgbill ")
        for line in found["text"].splitlines()
        if line.startswith("$ pgbill ")
    ]


def _run(pgbill: Pgbill, command: str) -> Done:
    return pgbill(*shlex.split(command))
