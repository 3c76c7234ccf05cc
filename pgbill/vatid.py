"""Check that a VAT id has the form that its country gives to VAT ids.

A digit too few makes a reverse charge that the authorities do not accept, and nobody
sees it on the invoice. python-stdnum knows the forms: of the member states of the EU,
Northern Ireland and the one-stop shop, and of Great Britain, Switzerland and Norway.
Only form and length count: check digits tell a slip of the pen, but not whether the
number was ever given to anybody, and ids that were invented for an example are to pass.
An id of any other country needs nothing but its prefix.
"""

import functools
import re
from collections.abc import Callable

from stdnum.eu.vat import MEMBER_STATES
from stdnum.exceptions import InvalidFormat, InvalidLength, ValidationError
from stdnum.util import get_cc_module

from pgbill.problem import shown

_ANY = re.compile("[A-Z]{2}[0-9A-Z.+* -]{2,18}")

# Where the form is known of prefixes that are not a member state's own code.
_MODULES = {
    "CHE": ("ch", "vat"),
    "EL": ("gr", "vat"),
    "EU": ("eu", "oss"),
    "GB": ("gb", "vat"),
    "IM": ("eu", "oss"),
    "NO": ("no", "mva"),
    "XI": ("gb", "vat"),
}


def check(text: str) -> None:
    """Accept a VAT id with its country prefix, such as DE123456789.

    Spaces, points and hyphens may stand in it where its country writes them.

    Raises:
        ValueError: It has not the form; the message is a sentence that names it.
    """
    if not _ANY.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a VAT id with its country prefix")
    validate = _validator(text[:3])
    if validate is None:
        return
    try:
        validate(text)
    except (InvalidFormat, InvalidLength) as error:
        reason = "length" if isinstance(error, InvalidLength) else "form"
        raise ValueError(
            f"{shown(text)} has not the {reason} of a VAT id of {text[:2]}"
        ) from None
    except ValidationError:
        # A check digit, or a part that means nothing there: no matter of form.
        return


def is_of_eu(text: str) -> bool:
    """Whether a member state of the EU, or Northern Ireland, has given it."""
    prefix = text[:2]
    return prefix in {"EL", "XI"} or prefix.lower() in MEMBER_STATES


@functools.cache
def _validator(text: str) -> Callable[[str], str] | None:
    prefix = text if text in _MODULES else text[:2]
    if prefix.lower() not in MEMBER_STATES and prefix not in _MODULES:
        return None
    module = get_cc_module(*_MODULES.get(prefix, (prefix.lower(), "vat")))
    assert module is not None
    return module.validate
