"""The wheel is all that a user needs.

Installed in a bare environment outside the repository, it migrates, imports the
examples that it brings, runs and audits.
"""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from pgbill import __version__
from tests.acceptance.commands import ROOT, Pgbill, do

_RESOURCES = "from pgbill import resources; print(resources.path('examples'))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as `pip` does, without an environment for the build."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment in which the wheel is, and what it needs.

    What it needs is that of this environment. A `.pth` adds its folder alone, and not
    what other `.pth` files there add, such as the repository.
    """
    home = tmp_path_factory.mktemp("bare")
    _run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    site_packages = _run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
    )
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    pth = Path(site_packages.strip()) / "dependencies.pth"
    pth.write_text("\n".join(sorted(folders)), encoding="utf-8")
    _run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--no-deps", "--no-index", "--disable-pip-version-check", wheel),
    )
    return python


def test_the_wheel_holds_what_is_shipped_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    tops = {name.split("/")[0] for name in names}
    resources = {
        name.split("/")[2] for name in names if name.startswith("pgbill/_resources/")
    }

    assert tops == {"pgbill", f"pgbill-{__version__}.dist-info"}
    assert resources == {"alembic", "examples", "sql", "templates"}
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_bills_the_examples(
    python: Path, empty_dsn: str, tmp_path: Path
) -> None:
    pgbill = Pgbill(
        empty_dsn,
        tmp_path,
        settings={"PYTHONPATH": ""},
        program=(str(python.parent / "pgbill"),),
    )
    examples = Path(_run(python, "-c", _RESOURCES, cwd=tmp_path).strip())
    assert not examples.is_relative_to(ROOT)
    _run(python, examples / "make_company.py", tmp_path, cwd=tmp_path)

    assert do(pgbill, "--version").stdout == f"pgbill {__version__}\n"
    do(pgbill, "migrate")
    do(pgbill, "catalog", "apply", str(examples / "catalog.toml"))
    read = [
        do(pgbill, "import", what, f"{what}.csv", "--json").json["read"]
        for what in ("accounts", "subscriptions", "usage")
    ]
    told = do(pgbill, "run", "--through", "2026-10-31", "--json").json
    do(pgbill, "audit")

    assert (read[0], read[2]) == (2_000, 100_000)
    assert told["is_finished"]
    assert told["invoiced"] >= 2_000
    assert [told["failed"], told["parked"], told["leases_lost"]] == [0, 0, 0]


def _run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        check=False,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
