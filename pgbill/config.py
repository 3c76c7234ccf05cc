"""Read the settings: `PGBILL_*` in the environment, then `pgbill.toml`.

Everything that can be set stands here, typed and with its limits, so that a wrong value
is one sentence at the start and not a surprise at three in the morning. Secrets are
`SecretStr` and never printed, not even when they are wrong. The file is `pgbill.toml`
in the working directory, or the one that `PGBILL_CONFIG` names.
"""

import os
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from pgbill.errors import ConfigError

PREFIX = "PGBILL_"
_CURRENCY = re.compile("[A-Z]{3}")
_PAIR = 2

_Amounts = Annotated[dict[str, Decimal], NoDecode]
"""By currency: a table in the file, `EUR 1000, USD 1200` in the environment."""

_Seconds = Annotated[float, Field(gt=0, le=86_400)]
_Account = Annotated[
    str, Field(min_length=1, max_length=70, pattern=r"^[^\x00-\x1f]+$")
]


def _data_dir() -> Path:
    """Return the user's data directory; root's server cannot look into /root."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/pgbill")
    return platformdirs.user_data_path("pgbill", appauthor=False)


def _pairs(text: str) -> dict[str, str]:
    pairs = [each.split() for each in text.split(",") if each.strip()]
    if any(len(pair) != _PAIR for pair in pairs):
        raise ValueError("it is not like EUR 1000, USD 1200")
    return dict(pairs)


class Settings(BaseSettings):
    """All settings, frozen. The names are those of `pgbill.toml`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    dsn: SecretStr | None = None
    data_dir: Path = Field(default_factory=_data_dir)
    mode: Literal["live", "test"] = "live"

    lease_ttl_seconds: _Seconds = 60
    renew_every_seconds: _Seconds = 20
    lease_margin_seconds: _Seconds = 5
    hard_limit_seconds: _Seconds = 1_800
    max_attempts: int = Field(default=5, ge=1, le=1_000)
    review_above: _Amounts = Field(default_factory=dict)
    review_change_percent: Decimal | None = Field(default=None, ge=0, le=1_000_000)
    review_first_invoice: bool = False
    review_by_another: bool = False

    retry_after_seconds: _Seconds = 60
    retry_wait_seconds: float = Field(default=300, ge=0, le=86_400)
    max_due_periods: int = Field(default=3, ge=1, le=1_000)
    workers: int = Field(default=8, ge=1, le=64)
    batch_size: int = Field(default=100, ge=1, le=10_000)

    tax_provider: str | None = Field(default=None, min_length=1, max_length=100)
    tax_url: str | None = None
    tax_token: SecretStr | None = None
    tax_token_file: Path | None = None
    tax_ca_file: Path | None = None
    tax_connect_seconds: _Seconds = 10
    tax_read_seconds: _Seconds = 300
    tax_timeout_seconds: _Seconds = 300
    tax_in_flight: int = Field(default=64, ge=1, le=1_000)
    tax_attempts: int = Field(default=5, ge=1, le=1_000)
    tax_retry_seconds: _Seconds = 0.5
    tax_retry_at_most_seconds: _Seconds = 60
    tax_patience_seconds: _Seconds = 300

    smtp_host: str = "localhost"
    smtp_port: int = Field(default=25, ge=1, le=65_535)
    smtp_username: str | None = None
    smtp_password: SecretStr | None = None
    smtp_tls: Literal["none", "starttls", "tls"] = "none"
    mail_from: str | None = None
    mail_redirect: str | None = None
    mail_timeout_seconds: _Seconds = 60
    alert_mail: str | None = None
    alert_mail_every_seconds: _Seconds = 900
    mail_dir: Path | None = None
    relay_ttl_seconds: _Seconds = 300

    ledger_receivable_account: _Account = "receivable"
    ledger_revenue_account: _Account = "revenue"
    ledger_tax_account: _Account = "tax"
    ledger_prepaid_account: _Account = "prepaid"
    datev_consultant: int | None = Field(default=None, ge=1001, le=9_999_999)
    datev_client: int | None = Field(default=None, ge=1, le=99_999)
    datev_fiscal_month: int = Field(default=1, ge=1, le=12)
    datev_account_digits: int = Field(default=4, ge=4, le=8)
    datev_tax_keys: str = Field(
        default="", pattern=r"^([A-Z]+[0-9.]+=[0-9]{0,4}([ ,]+|$))*$", max_length=2_000
    )

    @field_validator("data_dir", "mail_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        """Pin folders down: the embedded server outlives the working directory."""
        return value and value.expanduser().absolute()

    @field_validator("tax_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://\S+", value):
            raise ValueError("it is not an http or https address")
        return value

    @field_validator("review_above", mode="before")
    @classmethod
    def _amounts(cls, value: object) -> object:
        """Read amounts by currency, as people write them."""
        given = _pairs(value) if isinstance(value, str) else value
        if isinstance(given, dict):
            for currency in cast("dict[str, object]", given):
                if not _CURRENCY.fullmatch(currency):
                    raise ValueError(f"{currency} is not a currency such as EUR")
        return cast("object", given)

    @property
    def review(self) -> dict[str, Any] | None:
        """What a run holds back for a person; none: nothing."""
        if not (
            self.review_above
            or self.review_first_invoice
            or self.review_change_percent is not None
        ):
            return None
        percent = self.review_change_percent
        return {
            "above": {name: str(limit) for name, limit in self.review_above.items()},
            "change_percent": None if percent is None else str(percent),
            "first_invoice": self.review_first_invoice,
            "by_another": self.review_by_another,
        }

    @model_validator(mode="after")
    def _renewed_in_time(self) -> "Settings":
        """Refuse leases that would expire between two renewals."""
        if self.renew_every_seconds >= self.lease_ttl_seconds - self.margin_seconds:
            raise ValueError(
                "renew_every_seconds must be less than"
                " lease_ttl_seconds - lease_margin_seconds"
            )
        return self

    @model_validator(mode="after")
    def _can_ask_for_tax(self) -> "Settings":
        """Refuse settings of a tax service that contradict each other."""
        if self.tax_provider == "http" and self.tax_url is None:
            raise ValueError("tax_provider is http, which needs a tax_url")
        if self.tax_token is not None and self.tax_token_file is not None:
            raise ValueError("tax_token and tax_token_file are both set")
        return self

    def bearer_token(self) -> str | None:
        """Return what to tell the tax service of who we are, from setting or file.

        Raises:
            ConfigError: The file cannot be read, or it is no token.
        """
        if self.tax_token_file is not None:
            name, token = "TOKEN_FILE", _content(self.tax_token_file)
        elif self.tax_token is not None:
            name, token = "TOKEN", self.tax_token.get_secret_value()
        else:
            return None
        # A header can carry nothing else.
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise ConfigError(f"{PREFIX}TAX_{name} is wrong: it holds no token.")
        return token

    @property
    def margin_seconds(self) -> float:
        """How long before its expiry a lease is given up, at most a quarter of it."""
        return min(self.lease_margin_seconds, self.lease_ttl_seconds / 4)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, which comes as keyword arguments."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load() -> Settings:
    """Read the settings of this process.

    Raises:
        ConfigError: A value is wrong or unknown, or the file cannot be read.
    """
    named = os.environ.get(f"{PREFIX}CONFIG")
    file = Path(named or "pgbill.toml")
    values = _read(file) if named or file.is_file() else {}
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigError(_sentence(error, file)) from None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{PREFIX}TAX_TOKEN_FILE is wrong: {file} cannot be read."
        ) from error


def _sentence(error: ValidationError, file: Path) -> str:
    """Name the first wrong setting and what is allowed, never what was given."""
    first = error.errors(include_url=False, include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return f"{message}."
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"{file} has an unknown setting: {name}."
    given_in = f"{PREFIX}{name.upper()}"
    where = given_in if given_in in os.environ else f"{name} in {file}"
    return f"{where} is wrong: {message[0].lower()}{message[1:]}."
