"""What is shipped is found, in a checkout and in an installed package."""

import re
from pathlib import Path

import pytest

from pgbill import installation, resources


@pytest.mark.parametrize("folder", ["alembic", "examples", "sql", "templates"])
def test_each_folder_is_found(folder: str) -> None:
    assert resources.path(folder).is_dir()


def test_an_installed_package_looks_into_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_resources").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)

    assert resources.path("sql") == tmp_path / "_resources" / "sql"


@pytest.mark.parametrize("folder", ["functions", "triggers", "views", "audits"])
def test_each_replaceable_file_is_installed(folder: str) -> None:
    """A file that `sql/install.sql` forgets would never reach a database."""
    files = set(resources.path("sql", folder).rglob("*.sql"))

    assert files <= set(installation.replaceable_files())


def test_no_file_is_installed_twice_or_missing() -> None:
    files = installation.replaceable_files()

    assert len(files) == len(set(files))
    assert [file for file in files if not file.is_file()] == []


def test_rights_are_given_last() -> None:
    assert installation.replaceable_files()[-1] == resources.path("sql", "grants.sql")


def test_each_migration_is_a_pair() -> None:
    folder = resources.path("alembic", "versions")
    python = {file.stem for file in folder.glob("*.py")}

    assert python == {file.stem for file in installation.migrations()}
    assert all(re.fullmatch(r"\d{4}_[a-z_]+", name) for name in python)


def test_alembic_is_not_shadowed() -> None:
    assert not resources.path("alembic", "__init__.py").exists()


def test_only_what_is_shipped_is_missing(tmp_path: Path) -> None:
    """A file of somebody's own that is not there is told where it is read."""
    ours = FileNotFoundError(2, "No such file", str(resources.path("sql", "x.sql")))
    theirs = FileNotFoundError(2, "No such file", str(tmp_path / "x.sql"))

    assert str(resources.missing(ours)).startswith("sql/x.sql, which belongs to")
    assert resources.missing(theirs) is None
