"""Find the tax provider that the settings name.

`table` is the table of rates, which the database itself looks into: nobody is asked.
`http` is a service with our contract. Any other name is that of an entry point in the
group `pgbill.tax_providers`, which another package brings along: it is called with the
`TaxService` of the settings and returns a `TaxProvider`.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import cast

from pgbill import taxhttp
from pgbill.errors import ConfigError
from pgbill.tax import ENTRY_POINTS, HTTP, TABLE, TaxProvider, TaxService


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
