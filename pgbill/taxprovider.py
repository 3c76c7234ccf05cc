"""Find the tax provider that the settings name.

`table` is the table of rates, which the database itself looks into: nobody is asked.
`http` is a service with our contract. Any other name is that of an entry point in the
group `pgbill.tax_providers`, which another package brings along: it is called with the
`TaxService` of the settings and returns a `TaxProvider`.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import cast

from pgbill import taxhttp
from pgbill.config import Settings
from pgbill.errors import ConfigError
from pgbill.tax import ENTRY_POINTS, HTTP, TABLE, TaxProvider, TaxService


def is_table(settings: Settings) -> bool:
    """Tell whether tax comes of the table of rates, and not from a service."""
    return _name(settings) == TABLE


def _name(settings: Settings) -> str:
    return settings.tax_provider or (HTTP if settings.tax_url else TABLE)


def chosen(settings: Settings) -> TaxService | None:
    """Return the tax service of the settings; none: the table of rates.

    Raises:
        ConfigError: It cannot be asked: there is no such provider, or no such file.
    """
    name = _name(settings)
    if name == TABLE:
        return None
    service = TaxService(
        settings.tax_url,
        settings.bearer_token(),
        settings.tax_timeout_seconds,
        settings.tax_in_flight,
        provider=name,
        connect_seconds=settings.tax_connect_seconds,
        read_seconds=settings.tax_read_seconds,
        attempts=settings.tax_attempts,
        retry_seconds=settings.tax_retry_seconds,
        retry_at_most_seconds=settings.tax_retry_at_most_seconds,
        patience_seconds=settings.tax_patience_seconds,
        ca_file=settings.tax_ca_file,
    )
    require(service)
    return service


def require(service: TaxService) -> None:
    """Refuse what could not be asked, before a run begins. Nothing is loaded.

    Raises:
        ConfigError: No package brings such a provider, or its settings are wrong.
    """
    if service.provider == HTTP:
        taxhttp.require(service)
    else:
        _find(service.provider)


def of(service: TaxService) -> TaxProvider:
    """Return the provider.

    Raises:
        ConfigError: There is no such provider, or it cannot be made.
    """
    if service.provider == HTTP:
        return taxhttp.HttpTax(service)
    found = _find(service.provider)
    try:
        return cast("TaxProvider", found.load()(service))
    except Exception as error:
        raise ConfigError(
            f"the tax provider {found.name} of {found.value} cannot be used: {error!r}."
        ) from error


def _find(name: str) -> EntryPoint:
    found = entry_points(group=ENTRY_POINTS)
    for each in found:
        if each.name == name:
            return each
    known = ", ".join(sorted({TABLE, HTTP, *(each.name for each in found)}))
    raise ConfigError(
        f"PGBILL_TAX_PROVIDER is wrong: there is no tax provider {name}.",
        hint=f"There are: {known}.",
    )
