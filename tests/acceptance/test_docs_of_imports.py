"""The files that the documentation of imports shows can be taken over as they are."""

import re
from pathlib import Path

from tests.acceptance.commands import ROOT, Pgbill, assert_clean, do

NEW = {
    "accounts": 2,
    "subscriptions": 2,
    "usage": 3,
    "charges": 2,
    "discounts": 2,
    "prepaid": 1,
    "invoices": 1,
    "payments": 3,
}
"""What each file brings; of subscriptions, not of their rows."""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_examples_work(dsn: str, tmp_path: Path) -> None:
    (catalog,) = blocks("catalog.md", "toml")
    files = dict(zip(NEW, blocks("import.md", "csv"), strict=True))
    pgbill = Pgbill(dsn, tmp_path)
    (tmp_path / "catalog.toml").write_text(catalog, encoding="utf-8")

    do(pgbill, "catalog", "apply", "catalog.toml")
    for kind, text in files.items():
        (tmp_path / f"{kind}.csv").write_text(text, encoding="utf-8")
        report = do(pgbill, "import", kind, f"{kind}.csv", "--json").json
        assert report["new"] == NEW[kind]
    billed = do(pgbill, "run", "--through", "2026-10-31", "--workers", "1", "--json")

    assert billed.json["invoiced"] == 4
    assert_clean(pgbill)
