"""A country is one of ISO 3166: a slip of the pen is no place to send an invoice to."""

from pathlib import Path

import pytest

from pgbill import country

_TAB = Path("/usr/share/zoneinfo/iso3166.tab")


@pytest.mark.parametrize("code", ["DE", "GR", "XI", "XK"])
def test_a_country_is_taken(code: str) -> None:
    assert country.check(code) == code


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("XX", "XX is not a country of ISO 3166"),
        ("EL", "EL is not a country of ISO 3166"),
        ("UK", "UK is not a country of ISO 3166"),
        ("de", "'de' is not a country code such as DE"),
        ("DEU", "'DEU' is not a country code such as DE"),
        ("ÄÖ", "'ÄÖ' is not a country code such as DE"),
    ],
)
def test_what_is_no_country_is_refused(code: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        country.check(code)


def test_the_codes_are_those_that_are_assigned() -> None:
    assert len(country.ASSIGNED) == 249
    assert not country.ASSIGNED & country.IN_USE


@pytest.mark.skipif(not _TAB.exists(), reason="this machine has no iso3166.tab")
def test_the_codes_are_those_of_the_tz_database() -> None:
    rows = _TAB.read_text(encoding="utf-8").splitlines()

    codes = {row.split("\t")[0] for row in rows if not row.startswith("#")}

    assert codes == country.ASSIGNED
