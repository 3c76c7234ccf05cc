"""A VAT id that is accepted has the form that its country gives to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgbill import vatid


@pytest.mark.parametrize(
    "text",
    [
        "ATU12345678",
        "BE0123456789",
        "CHE-123.456.789 MWST",
        "DE123456789",
        "EL123456789",
        "ESX1234567X",
        "FR12345678901",
        "GB123456789",
        "IT12345678901",
        "NL123456789B01",
        "NO123456789MVA",
        "XI123456789",
        # Of countries whose form nobody has told us.
        "US12",
        "KW123456",
    ],
)
def test_an_id_of_the_right_form_is_accepted_though_it_is_invented(text: str) -> None:
    vatid.check(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DE12345678", "'DE12345678' has not the length of a VAT id of DE"),
        ("DE1234567890", "has not the length of a VAT id of DE"),
        ("DE12345678X", "has not the form of a VAT id of DE"),
        ("AT12345678", "has not the form of a VAT id of AT"),
        ("FR1234567890", "has not the length of a VAT id of FR"),
        ("NL123456789X01", "has not the form of a VAT id of NL"),
        ("GB12345678", "has not the length of a VAT id of GB"),
        ("CHE-123.456.789", "has not the length of a VAT id of CH"),
        ("NO123456789", "has not the form of a VAT id of NO"),
        ("EU12345", "has not the length of a VAT id of EU"),
        ("123456789", "is not a VAT id with its country prefix"),
        ("de123456789", "is not a VAT id with its country prefix"),
        ("", "is not a VAT id with its country prefix"),
    ],
)
def test_an_id_of_another_form_is_refused_with_the_reason(
    text: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        vatid.check(text)


@given(
    st.sampled_from(["AT", "BE", "CHE", "CZ", "DE", "ES", "EU", "FR", "GB", "NO"]),
    st.text("0123456789ABUXMWST.+* -", min_size=2, max_size=15),
)
def test_any_text_is_accepted_or_refused_in_words(prefix: str, rest: str) -> None:
    try:
        vatid.check(prefix + rest)
    except ValueError as error:
        assert "VAT id" in str(error)  # noqa: PT017 - a sentence, or no error
