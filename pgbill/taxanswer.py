"""Believe of a tax service's answer only what it can mean.

Each line is answered once, in the currency that was asked for, with a category that
exists and a rate that goes with it. pgbill computes the tax itself; if the service says
amounts as well, both are compared, since a service that means another amount than we
would write has understood another question. Each line may be off by one minor unit, for
rounding is a matter of taste; the whole by as many as it has lines. What contradicts is
refused with both figures.
"""

import json
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pgbill.tax import TaxError

Category = Literal["S", "Z", "E", "AE", "K", "G", "O", "L", "M", "B"]
_UNTAXED = {"Z", "E", "AE", "K", "G", "O"}

_USUAL_DIGITS = 2
_NONE = (
    *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX"),
    *("VND", "VUV", "XAF", "XOF", "XPF"),
)
_THREE = ("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND")
_DIGITS = dict.fromkeys(_NONE, 0) | dict.fromkeys(_THREE, 3)

_Amount = Annotated[Decimal, Field(max_digits=30, decimal_places=10)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow")

    line_no: int
    category: Category
    rate: Annotated[Decimal, Field(ge=0, le=100, max_digits=20, decimal_places=17)]
    legal_text: str | None = None
    tax_amount: _Amount | None = None


class _Answer(BaseModel):
    """What a service answers; further fields are its own affair, and kept."""

    model_config = ConfigDict(extra="allow")

    currency: str | None = None
    lines: list[_Line]
    tax_amount: _Amount | None = None


def check(question: str, answer: str) -> str:
    """Return the answer as it is kept.

    Raises:
        TaxError: It does not answer what was asked; the message says where.
    """
    told = _parse(answer)
    asked = json.loads(question)
    if told.currency not in (None, asked["currency"]):
        raise TaxError(
            f"the tax service answers in {told.currency}, asked was {asked['currency']}"
        )
    expected = [each["line_no"] for each in asked["lines"]]
    if sorted(each.line_no for each in told.lines) != sorted(expected):
        raise TaxError("the tax service did not answer each line once")
    lines = {each.line_no: each for each in told.lines}
    pairs = [(each, lines[each["line_no"]]) for each in asked["lines"]]
    _compare(pairs, told, unit_of(asked["currency"]))
    return _kept(told)


def _parse(answer: str) -> _Answer:
    try:
        return _Answer.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        told = f"{where}: {first['msg']}" if where else first["msg"]
        raise TaxError(f"the tax service's answer is wrong: {told}") from error


def _kept(told: _Answer) -> str:
    """Return it as JSON that PostgreSQL can keep: it has no text with a zero byte."""
    try:
        kept = told.model_dump_json(exclude_none=True)
    except ValueError as error:
        raise TaxError("the tax service's answer holds text that is none") from error
    if "\\u0000" in kept:
        raise TaxError("the tax service's answer holds text with a zero byte")
    return kept


def _compare(
    lines: list[tuple[dict[str, Any], _Line]], told: _Answer, unit: Decimal
) -> None:
    """Refuse what the answer says of amounts if it is not what its own rates give."""
    taxes = [_tax(asked, line) for asked, line in lines]
    for (_, line), tax in zip(lines, taxes, strict=True):
        if line.category in _UNTAXED and line.rate:
            raise TaxError(
                f"the tax service contradicts itself: line {line.line_no} has category"
                f" {line.category}, which is not taxed, and a rate of {line.rate:f} %"
            )
        what = f"tax of line {line.line_no}"
        _same(what, line.tax_amount, [tax], unit, "its rate gives")
    _same("tax of all lines", told.tax_amount, taxes, unit, "its rates give")
    stated = [line.tax_amount for _, line in lines if line.tax_amount is not None]
    if len(stated) == len(lines):
        _same("tax of all lines", told.tax_amount, stated, unit, "its lines add up to")


def _same(
    what: str,
    stated: Decimal | None,
    parts: list[Decimal],
    unit: Decimal,
    whence: str,
) -> None:
    """Compare an amount with its parts, each of which may be off by one minor unit."""
    whole = sum(parts, Decimal())
    if stated is not None and abs(stated - whole) > unit * len(parts):
        raise TaxError(
            f"the tax service contradicts itself: {what} is {stated:f}, {whence}"
            f" {whole.quantize(unit):f}"
        )


def _tax(asked: dict[str, Any], line: _Line) -> Decimal:
    """Return the tax of a line, not rounded."""
    amount = Decimal(asked["net_amount"])
    base = 100 + line.rate if asked.get("tax_included") else Decimal(100)
    return amount * line.rate / base


def unit_of(currency: str) -> Decimal:
    """Return the minor unit of a currency, as the database has it."""
    return Decimal(1).scaleb(-_DIGITS.get(currency, _USUAL_DIGITS))
