"""Compare a price that a file declares with the one that is there.

A price is never edited: somebody has agreed to it, and invoices of the past are
computed again from it. Another amount is another version, and what begins with it must
not have been billed yet, or two invoices for the same service would differ. How a line
is worded and where it is booked may change at any time.
"""

from collections.abc import Iterator
from datetime import date

from pgbill import terms
from pgbill.field import Places
from pgbill.pricing import Price
from pgbill.terms import Version, plain

_FIXED = (
    *("seller", "currency", "model", "timing", "meter", "group_by", "tax_included"),
    "billing_interval",
)
_LOOSE = ("unit_code", "tax_class", "revenue_account", "line_texts")


def added(price: Price) -> Iterator[tuple[str, str]]:
    """Go through what adding a price adds: what happens, and how it looks."""
    changes = ["added", *["new version"] * (len(price.versions) - 1)]
    for change, (_, version) in zip(
        changes, sorted(price.versions.items()), strict=False
    ):
        yield change, terms.shown(price.model, version, price.currency)


def loose(price: Price, known: Price) -> Iterator[tuple[str, object, object]]:
    """Go through what may change and does: its name, old, and new."""
    for name in _LOOSE:
        old, new = getattr(known, name), getattr(price, name)
        if old != new:
            yield name, old, new


def grown(
    places: Places, place: str, price: Price, known: Price, billed_until: date | None
) -> Iterator[str]:
    """Go through the versions to be added, and note what must stay as it is."""
    for name in _FIXED:
        old = getattr(known, name)
        if old != getattr(price, name):
            places.add(
                f"{place}.{name}",
                f"it is {plain(old)}, and a price is never edited: make another price",
            )
    if price.model != known.model:
        return
    for begins_on, version in sorted(price.versions.items()):
        if begins_on in known.versions:
            _check_same(places, price.model, version, known.versions[begins_on])
        else:
            _check_not_billed(places, version, known, billed_until)
            yield terms.shown(price.model, version, price.currency)


def _check_same(places: Places, model: str, version: Version, known: Version) -> None:
    for place, old in terms.differences(model, known, version):
        places.add(
            place,
            f"it is {old} in the version from {known.begins_on}, and a price is never"
            " edited: add a version with another begins_on",
        )


def _check_not_billed(
    places: Places, version: Version, known: Price, billed_until: date | None
) -> None:
    # Before the first version nothing had an amount, so nothing was billed.
    if billed_until is None or version.begins_on < min(known.versions):
        return
    if version.begins_on < billed_until:
        places.add(
            f"{version.place}.begins_on",
            f"service that begins before {billed_until} is billed already: begin then,"
            " or later",
        )
