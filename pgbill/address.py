"""Check that an e-mail address can stand in a header and in an SMTP command.

Imports refuse what the relay could not send, with the same words, so both ask here. It
is about form alone: whether somebody reads the mail, only sending can tell. Quoted
local parts and domain literals are allowed by the standard and used by nobody, except
by those who try to smuggle something in; they are refused.
"""

import re
import unicodedata

_LIMIT_OCTETS = 254
_LOCAL_LIMIT_OCTETS = 64
_LABEL_LIMIT = 63

# RFC 5321's dot-string and RFC 6531's extension of it by everything beyond ASCII.
_LOCAL = re.compile(r"[^\x00-\x20\"(),:;<>@\[\\\]\x7f]+")
_LABEL = re.compile(r"[A-Za-z0-9-]+|[A-Za-z0-9-]*[^\x00-\x7f][^\x00-\x2c\x2e\x2f]*")


def check(text: str) -> None:
    """Accept one address, without name or angle brackets.

    Raises:
        ValueError: It cannot be one; the message is the reason, without the address.
    """
    if any(unicodedata.category(character)[0] in "CZ" for character in text):
        raise ValueError("an address holds no spaces and no control characters")
    if len(text.encode()) > _LIMIT_OCTETS:
        raise ValueError(f"an address has at most {_LIMIT_OCTETS} octets")
    local, at, domain = text.partition("@")
    if not at or "@" in domain:
        raise ValueError("an address has exactly one @")
    _check_local(local)
    _check_domain(domain)


def _check_local(local: str) -> None:
    if not all(_LOCAL.fullmatch(atom) for atom in local.split(".")):
        raise ValueError("the part before the @ is not valid")
    if len(local.encode()) > _LOCAL_LIMIT_OCTETS:
        raise ValueError(
            f"the part before the @ has at most {_LOCAL_LIMIT_OCTETS} octets"
        )


def _check_domain(domain: str) -> None:
    labels = domain.split(".")
    if len(labels) == 1:
        raise ValueError("the part after the @ is not a domain with a dot")
    for label in labels:
        if (
            not _LABEL.fullmatch(label)
            or label.startswith("-")
            or label.endswith("-")
            or len(label) > _LABEL_LIMIT
        ):
            raise ValueError("the part after the @ is not a valid domain")
