"""Make the files of the example company, and hold some of its accounts back.

The company is made by the script of the examples, always the same. The replay of the
incident needs accounts of its own: the first ones, the largest among them, which then
have their subscriptions and usage in files of their own.
"""

import csv
import importlib.util
from collections.abc import Iterable
from pathlib import Path

from pgbill import resources
from pgbill.errors import ConfigError

_FILES = {"accounts.csv": "key", "subscriptions.csv": "account", "usage.csv": "account"}


def make(folder: Path) -> None:
    """Run the script of the examples, and put the catalog beside its files.

    Raises:
        ConfigError: The examples are not installed.
    """
    script = resources.path("examples", "make_company.py")
    spec = importlib.util.spec_from_file_location("pgbill_make_company", script)
    if spec is None or spec.loader is None:
        raise ConfigError("the examples are not installed.", hint="Reinstall pgbill.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(folder)
    catalog = resources.path("examples", "catalog.toml")
    (folder / "catalog.toml").write_bytes(catalog.read_bytes())


def hold_back(folder: Path, name: str, *, count: int) -> None:
    """Move what belongs to the first `count` accounts to a folder in the folder."""
    apart = folder / name
    apart.mkdir(exist_ok=True)
    accounts = (folder / "accounts.csv").read_text(encoding="utf-8")
    held = {row["key"] for row in list(csv.DictReader(accounts.splitlines()))[:count]}
    for file, column in _FILES.items():
        _divide(folder / file, apart / file, column, held)


def _divide(file: Path, apart: Path, column: str, held: set[str]) -> None:
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        columns = list(reader.fieldnames or ())
        rows = list(reader)
    _write(apart, columns, [row for row in rows if row[column] in held])
    _write(file, columns, [row for row in rows if row[column] not in held])


def _write(file: Path, columns: list[str], rows: Iterable[dict[str, str]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
