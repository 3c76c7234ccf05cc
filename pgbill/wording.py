"""Say amounts, dates and labels in the language of an account.

Each language is one file, `templates/mail/<tag>.toml`; adding one adds the language. A
regional file, such as `de-CH.toml`, holds only what differs from `de.toml`; a language
without a file gets English. The rules are written there and not taken from a locale
library, so that a document reads the same in ten years. Amounts are never rounded here:
what was issued is shown in full.
"""

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pgbill import resources

FALLBACK = "en"

_TAG = re.compile(r"[a-z]{2}(-[A-Z]{2})?")
# The usual one would wrap, between a number and what it counts.
_NARROW = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a language, and how it writes numbers and dates."""

    language: str
    """The tag of the texts, which is not the account's if there are none for it."""

    texts: dict[str, str]
    units: dict[str, str]
    months: list[str]
    months_short: list[str]
    forms: dict[str, str]

    def number(self, value: Decimal, *, min_digits: int = 0) -> str:
        """Write a number with at least `min_digits` decimals, and no zeros beyond."""
        plain = f"{value.copy_abs():f}"
        whole, _, fraction = plain.partition(".")
        fraction = fraction.rstrip("0").ljust(min_digits, "0")
        grouped = f"{int(whole):,}".replace(",", self.forms["group"])
        sign = "\N{MINUS SIGN}" if value < 0 else ""
        return sign + grouped + (self.forms["decimal"] + fraction if fraction else "")

    def money(self, value: Decimal, *, currency: str, digits: int) -> str:
        """Write an amount with the code of its currency."""
        amount = self.number(value, min_digits=digits)
        return self.whole(self.forms["money"].format(amount=amount, currency=currency))

    def percent(self, value: Decimal) -> str:
        """Write a rate in percent."""
        return self.whole(self.forms["percent"].format(number=self.number(value)))

    def day(self, value: date) -> str:
        """Write a date in full."""
        return self._date("date", value)

    def short_day(self, value: date) -> str:
        """Write a date so that it fits into a table."""
        return self._date("short_date", value)

    def period(self, first: date, last: date) -> str:
        """Write a range of days, both included."""
        if first >= last:
            return self.short_day(first)
        return f"{self.short_day(first)} \N{EN DASH} {self.short_day(last)}"

    def part(self, text: str, part: Decimal, whole: Decimal) -> str:
        """Write the part of a period that is billed, in days or in seconds."""
        number = self.number
        return self.whole(self.say(text, part=number(part), whole=number(whole)))

    def whole(self, text: str) -> str:
        """Return a text that does not wrap."""
        return text.replace(" ", _NARROW)

    def unit(self, code: str) -> str:
        """Write a unit by its UN/ECE code; an unknown one is its code."""
        return self.units.get(code, code)

    def say(self, key: str, /, **values: str) -> str:
        """Return a text with its gaps filled."""
        return self.texts[key].format(**values)

    def _date(self, form: str, value: date) -> str:
        return self.forms[form].format(
            day=self.forms.get("first", "1") if value.day == 1 else value.day,
            dd=f"{value.day:02}",
            mm=f"{value.month:02}",
            month=self.months[value.month - 1],
            mon=self.months_short[value.month - 1],
            year=value.year,
        )


@cache
def find(tag: str) -> Wording:
    """Return the wording for a language tag, such as `de` or `de-CH`."""
    base = tag.partition("-")[0]
    if not _TAG.fullmatch(tag) or not _file(base).exists():
        return find(FALLBACK)
    tables = [_read(_file(base))]
    if base != tag and _file(tag).exists():
        tables.append(_read(_file(tag)))
    merged = {name: dict[str, Any]() for name in ("texts", "units", "forms", "months")}
    for table in tables:
        for name, values in table.items():
            merged[name].update(values)
    return Wording(
        language=base,
        texts=merged["texts"],
        units=merged["units"],
        months=merged["months"]["long"],
        months_short=merged["months"]["short"],
        forms=merged["forms"],
    )


def _file(tag: str) -> Path:
    return resources.path("templates", "mail", f"{tag}.toml")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
