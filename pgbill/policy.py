"""Read the policies of a seller: the points on which billing systems differ.

How tax is rounded has names, after the rules that say so; each name stands for where
tax is rounded and how, and either may be said besides. What is left out is what pgbill
does by default. A set of policies is a row that never changes: a seller names one, and
each invoice the one that it was made by.
"""

from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from pgbill import terms
from pgbill.field import Field, Places, by_key, decimal, one_of

TAX_PRESETS = {
    "en16931": ("rate", "half_up"),
    "au_gst_9_90": ("total", "half_up"),
    "nz_gst_19o": ("total", "half_down"),
    "uk_vat_17_5": ("total", "down"),
    "jp_qualified_invoice": ("rate", "floor"),
    "by_line": ("line", "half_up"),
}
"""By name: where tax is rounded, and how."""

_ROUNDINGS = ("half_up", "half_down", "half_even", "down", "floor")


@dataclass(frozen=True, slots=True)
class Policy:
    """A set of policies, by column."""

    line_rounding: str = "half_up"
    tax_rounding_scope: str = "rate"
    tax_rounding: str = "half_up"
    proration: str = "actual"
    unused_advance: str = "credit"
    zero_invoice: str = "issue"
    negative_total: str = "carry_forward"
    minimum_invoice: dict[str, Decimal] = field(default_factory=dict[str, Decimal])

    def differences(self, other: "Policy") -> list[tuple[str, str, str]]:
        """Return what differs: the name, and both as a person reads them."""
        mine, theirs = _shown(self), _shown(other)
        return [
            (name, mine[name], theirs[name])
            for name in mine
            if getattr(self, name) != getattr(other, name)
        ]


DEFAULT = Policy()

_POLICY = (
    Field("tax_preset", one_of(*TAX_PRESETS)),
    Field("tax_rounding_scope", one_of("line", "rate", "total")),
    Field("tax_rounding", one_of(*_ROUNDINGS)),
    Field("line_rounding", one_of(*_ROUNDINGS)),
    Field("proration", one_of("actual", "second", "actual_30", "30_360")),
    Field("unused_advance", one_of("credit", "keep")),
    Field("zero_invoice", one_of("issue", "skip")),
    Field("negative_total", one_of("carry_forward", "credit_note")),
    Field("minimum_invoice", by_key("[A-Z]{3}", "a currency such as EUR", decimal)),
)


def read(places: Places, place: str, given: object) -> Policy:
    """Read a table of policies, with defaults for what is left out or wrong."""
    values = places.table(place, {} if given is None else given, _POLICY)
    if values is None:
        return DEFAULT
    scope, rounding = TAX_PRESETS[values.pop("tax_preset") or "en16931"]
    said: dict[str, Any] = {"tax_rounding_scope": scope, "tax_rounding": rounding}
    said |= {name: value for name, value in values.items() if value is not None}
    return Policy(**said)


def _shown(policy: Policy) -> dict[str, str]:
    shown = {name: str(value) for name, value in asdict(policy).items()}
    amounts = policy.minimum_invoice.items()
    listed = [f"{terms.plain(amount)} {currency}" for currency, amount in amounts]
    return shown | {"minimum_invoice": ", ".join(listed) or "none"}
