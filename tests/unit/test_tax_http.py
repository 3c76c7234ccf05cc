"""What a tax service says is told by the status alone, and its words are kept."""

from datetime import UTC, datetime

import pytest

from pgbill import taxhttp
from pgbill.tax import (
    TaxDeniedError,
    TaxError,
    TaxLimitedError,
    TaxUnavailableError,
)

NOON = datetime(2026, 10, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (201, TaxError),
        (302, TaxError),
        (400, TaxError),
        (401, TaxDeniedError),
        (403, TaxDeniedError),
        (404, TaxDeniedError),
        (408, TaxUnavailableError),
        (409, TaxError),
        (422, TaxError),
        (429, TaxLimitedError),
        (500, TaxUnavailableError),
        (501, TaxUnavailableError),
        (503, TaxUnavailableError),
    ],
)
@pytest.mark.parametrize("words", ["ok", "please try again later", "error 503"])
def test_the_status_alone_decides(
    status: int, kind: type[TaxError], words: str
) -> None:
    assert type(taxhttp.refused(status, words, None)) is kind


def test_its_own_words_are_kept_on_one_line_and_not_without_end() -> None:
    error = taxhttp.refused(422, '{"reason":\n  "unknown VAT id"}' + "x" * 1000, None)

    assert error.message.startswith(
        'the tax service says 422: {"reason": "unknown VAT id"}xxx'
    )
    assert len(error.message) < 300


def test_its_words_do_no_harm_where_they_are_shown_or_kept() -> None:
    error = taxhttp.refused(422, "un\0known\x1b[31m\r\nVAT\ud800 id", None)

    assert error.message == "the tax service says 422: un known [31m VAT id"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("0", 0),
        (" 120 ", 120),
        ("Sat, 31 Oct 2026 12:00:30 GMT", 30),
        ("Sat, 31 Oct 2026 12:00:30 -0000", 30),
        ("Sat, 31 Oct 2026 11:00:00 GMT", 0),
    ],
)
def test_how_long_to_wait_is_a_number_or_a_date(
    header: str | None, seconds: float | None
) -> None:
    assert taxhttp.wait_of(header, now=NOON) == seconds


def test_what_is_secret_in_an_address_is_not_kept() -> None:
    url = "https://login:secret@tax.example.com:8443/v1/tax?key=secret#x"

    assert taxhttp.public(url) == "https://tax.example.com:8443/v1/tax"
