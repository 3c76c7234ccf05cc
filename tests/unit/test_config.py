"""A wrong setting is one sentence that names it, and never shows what was given."""

from pathlib import Path

import pytest

from pgbill import config
from pgbill.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder where no pgbill.toml lies."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everything_has_a_default() -> None:
    settings = config.load()

    assert settings.dsn is None
    assert settings.workers == 8
    assert settings.lease_ttl_seconds == 60


def test_the_environment_wins_over_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pgbill.toml").write_text("workers = 3\nbatch_size = 7\n")
    monkeypatch.setenv("PGBILL_WORKERS", "5")

    settings = config.load()

    assert (settings.workers, settings.batch_size) == (5, 7)


def test_another_file_can_be_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "other.toml").write_text('mode = "test"\n')
    monkeypatch.setenv("PGBILL_CONFIG", "other.toml")

    assert config.load().mode == "test"


def test_a_named_file_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBILL_CONFIG", "absent.toml")

    with pytest.raises(ConfigError, match=r"cannot read absent\.toml"):
        config.load()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workers = 0", r"workers in pgbill\.toml is wrong: .*greater than or equal"),
        ("workers = 'many'", r"workers in pgbill\.toml is wrong: .*valid integer"),
        ("mode = 'prod'", r"mode in pgbill\.toml is wrong: .*'live' or 'test'"),
        ("wrokers = 8", r"pgbill\.toml has an unknown setting: wrokers"),
        ("workers = ", r"pgbill\.toml is not valid TOML"),
        ("renew_every_seconds = 58", "renew_every_seconds must be less than"),
    ],
)
def test_a_wrong_file_is_one_sentence(folder: Path, text: str, sentence: str) -> None:
    (folder / "pgbill.toml").write_text(text)

    with pytest.raises(ConfigError, match=sentence) as raised:
        config.load()

    assert "\n" not in str(raised.value)


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBILL_SMTP_PORT", "mail")

    with pytest.raises(ConfigError, match="PGBILL_SMTP_PORT is wrong"):
        config.load()


def test_a_wrong_address_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBILL_TAX_URL", "notaurl")

    with pytest.raises(ConfigError, match="is not an http or https address"):
        config.load()


def test_a_secret_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBILL_DSN", "postgresql://u:hunter2@db.example.com/b")

    assert "hunter2" not in repr(config.load())


def test_a_wrong_value_is_not_repeated(folder: Path) -> None:
    """It may be a secret in the wrong place."""
    (folder / "pgbill.toml").write_text("smtp_password = ['hunter2']")

    with pytest.raises(ConfigError, match="smtp_password") as raised:
        config.load()

    assert "hunter2" not in str(raised.value)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        config.load().workers = 3


def test_the_margin_is_at_most_a_quarter_of_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGBILL_LEASE_TTL_SECONDS", "4")
    monkeypatch.setenv("PGBILL_RENEW_EVERY_SECONDS", "1")

    assert config.load().margin_seconds == 1


def test_folders_do_not_move_with_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGBILL_DATA_DIR", "data")

    assert config.load().data_dir == folder / "data"
