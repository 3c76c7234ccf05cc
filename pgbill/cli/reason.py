"""Take the reason that a person gives, which is kept for good, or refuse it.

It stands in lists, in `explain` and in documents' histories, so it is one line of a
length that people read, and holds nothing that could make a terminal or a list show
something else than what was written.
"""

import unicodedata

from pgbill.errors import UsageError

LIMIT = 1_000
"""In characters."""
# Controls, ends of lines and paragraphs.
_REFUSED = {"Cc", "Zl", "Zp"}
_TURNS = {chr(each) for each in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""What makes letters stand in another order than they are written."""


def checked(reason: str) -> str:
    """Return the reason without spaces around it.

    Raises:
        UsageError: It is empty, too long, or more than a line of text.
    """
    text = reason.strip()
    if not text:
        raise UsageError("--reason is empty.", hint="Say why: it is kept.")
    if len(text) > LIMIT:
        raise UsageError(
            f"--reason has {len(text):,} characters; at most {LIMIT:,} are kept."
        )
    for each in text:
        if unicodedata.category(each) in _REFUSED or each in _TURNS:
            raise UsageError(
                f"--reason holds a control character (U+{ord(each):04X}).",
                hint="Write it as one line of text.",
            )
    return text
