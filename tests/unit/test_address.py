"""An address that is accepted can stand in a header and in an SMTP command."""

import pytest

from pgbill import address


@pytest.mark.parametrize(
    "text",
    [
        "a@example.com",
        "first.last+tag@sub.example.com",
        "o'brien!#$%&*/=?^_`{|}~-@example.test",
        "jürgen@example.com",
        "送信@例え.test",
        "a@b-c.example.com",
        "a@xn--bcher-kva.example.com",
        f"{'a' * 64}@example.com",
    ],
)
def test_an_address_in_use_is_accepted(text: str) -> None:
    address.check(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "exactly one @"),
        ("a.example.com", "exactly one @"),
        ("a@b@example.com", "exactly one @"),
        ("@example.com", "before the @"),
        ("a..b@example.com", "before the @"),
        (".a@example.com", "before the @"),
        ('"a b"@example.com', "no spaces"),
        ('"a"@example.com', "before the @"),
        ("a,b@example.com", "before the @"),
        (f"{'a' * 65}@example.com", "64 octets"),
        ("a@localhost", "with a dot"),
        ("a@", "with a dot"),
        ("a@example..com", "valid domain"),
        ("a@.example.com", "valid domain"),
        ("a@-example.com", "valid domain"),
        ("a@example-.com", "valid domain"),
        ("a@exa_mple.com", "valid domain"),
        ("a@[127.0.0.1]", "valid domain"),
        (f"a@{'b' * 64}.com", "valid domain"),
        (f"a@{'b.' * 130}com", "254 octets"),
        ("Name <a@example.com>", "no spaces"),
        ("a@example.com\r\nBcc: b@example.com", "no control characters"),
        ("a@example.com\n", "no control characters"),
        ("a\0@example.com", "no control characters"),
        ("a@example.com\u2028", "no control characters"),
        ("a\u202e@example.com", "no control characters"),
        ("a\ud800@example.com", "no control characters"),
    ],
)
def test_what_is_no_address_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        address.check(text)
