"""A tax provider is found by its name, also one that another package brings along."""

import sys
from pathlib import Path

import pytest

from pgbill import config, taxprovider
from pgbill.errors import ConfigError
from pgbill.tax import TaxProvider, TaxService
from tests.taxes import install_providers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder where no pgbill.toml lies."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process see the distribution."""
    site = install_providers(tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])


def _named(name: str) -> TaxService:
    return TaxService(None, None, 10, 4, provider=name)


@pytest.mark.usefixtures("_installed")
def test_a_package_brings_one_along() -> None:
    service = _named("flat")

    taxprovider.require(service)
    found: TaxProvider = taxprovider.of(service)

    assert found.name == "flat"


@pytest.mark.usefixtures("_installed")
def test_a_name_that_nobody_brings_is_a_wrong_setting() -> None:
    with pytest.raises(
        ConfigError, match=r"no tax provider flt\. There are: .*flat, http, table"
    ):
        taxprovider.require(_named("flt"))


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("name", "reason"), [("broken", "no licence"), ("absent", "no_such_module")]
)
def test_one_that_cannot_be_made_says_why(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"provider {name} of .*{reason}"):
        taxprovider.of(_named(name))


@pytest.mark.parametrize(
    ("settings", "provider"),
    [
        ({}, None),
        ({"TAX_URL": "https://tax.example.com"}, "http"),
        ({"TAX_URL": "https://tax.example.com", "TAX_PROVIDER": "table"}, None),
        ({"TAX_PROVIDER": "table"}, None),
    ],
)
def test_without_a_name_the_address_decides(
    settings: dict[str, str], provider: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"PGBILL_{name}", value)

    service = taxprovider.chosen(config.load())

    assert (service and service.provider) == provider


def test_the_token_may_lie_in_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "token").write_text("s3cret\n")
    monkeypatch.setenv("PGBILL_TAX_URL", "https://tax.example.com")
    monkeypatch.setenv("PGBILL_TAX_TOKEN_FILE", "token")

    service = taxprovider.chosen(config.load())

    assert service is not None
    assert service.token == "s3cret"
    assert "s3cret" not in repr(service)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"TAX_TOKEN_FILE": "absent"}, "TAX_TOKEN_FILE is wrong: .*cannot be read"),
        ({"TAX_TOKEN_FILE": "empty"}, "TAX_TOKEN_FILE is wrong: it holds no token"),
        ({"TAX_TOKEN": "s3cret\nmore"}, "TAX_TOKEN is wrong: it holds no token"),
        ({"TAX_TOKEN": "schlüssel"}, "TAX_TOKEN is wrong: it holds no token"),
        ({"TAX_URL": "https://tax.example.com:http/"}, "TAX_URL is wrong: .*port"),
        ({"TAX_CA_FILE": "absent"}, "TAX_CA_FILE is wrong: .*holds no certificates"),
        ({"TAX_CA_FILE": "empty"}, "TAX_CA_FILE is wrong: .*holds no certificates"),
        ({"TAX_TOKEN": "a", "TAX_TOKEN_FILE": "empty"}, "are both set"),
        ({"TAX_URL": "", "TAX_PROVIDER": "http"}, "needs a tax_url"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_run(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    sentence: str,
) -> None:
    (folder / "empty").write_text("")
    for name, value in {"TAX_URL": "https://tax.example.com", **settings}.items():
        monkeypatch.setenv(f"PGBILL_{name}", value)

    with pytest.raises(ConfigError, match=sentence):
        taxprovider.chosen(config.load())
