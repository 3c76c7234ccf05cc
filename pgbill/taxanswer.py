"""Believe of a tax service's answer only what it can mean.

Each line is answered once, in the currency that was asked for, with a category that
exists and a rate that goes with it. pgbill computes the tax itself; if the service says
amounts as well, both are compared, since a service that means another amount than we
would write has understood another question. Each line may be off by one minor unit, for
rounding is a matter of taste; the whole by as many as it has lines. What contradicts is
refused with both figures.
"""

import contextlib
import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pgbill.tax import TaxError, printable

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Category = Literal["S", "Z", "E", "AE", "K", "G", "O", "L", "M", "B"]
_UNTAXED = {"Z", "E", "AE", "K", "G", "O"}

_USUAL_DIGITS = 2
_NONE = (
    *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX"),
    *("VND", "VUV", "XAF", "XOF", "XPF"),
)
_THREE = ("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND")
_DIGITS = dict.fromkeys(_NONE, 0) | dict.fromkeys(_THREE, 3)

_QUOTE = '"'
_SHOWN_CHARACTERS = 40
_LISTED = 10

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
    _require_each_once(expected, [each.line_no for each in told.lines])
    lines = {each.line_no: each for each in told.lines}
    pairs = [(each, lines[each["line_no"]]) for each in asked["lines"]]
    _compare(pairs, told, unit_of(asked["currency"]))
    return _kept(told)


def _parse(answer: str) -> _Answer:
    try:
        return _Answer.model_validate_json(answer)
    except ValidationError as error:
        told = _wrong(error.errors(include_url=False)[0], answer)
        raise TaxError(f"the tax service's answer is wrong: {told}") from error


def _wrong(first: "ErrorDetails", answer: str) -> str:
    """Say what is wrong with which line, and what was said: a person must find it."""
    place = first["loc"]
    if not place:
        return first["msg"]
    name = str(place[-1]).replace("_", " ")
    of = ""
    if place[0] == "lines" and len(place) > 1:
        whose = _line_at(answer, int(place[1]))
        name = name if len(place) > 2 else "what is said"  # noqa: PLR2004
        of = f" of {whose}"
    if first["type"] == "missing":
        return f"the {name}{of} is missing"
    said = json.dumps(first["input"], default=str, ensure_ascii=False)
    return f"the {name}{of} is {_shortened(said.strip(_QUOTE))}{_rule(first)}"


def _shortened(said: str) -> str:
    text = printable(said)
    cut = len(text) > _SHOWN_CHARACTERS
    return f"{text[:_SHOWN_CHARACTERS]}…" if cut else text


def _line_at(answer: str, position: int) -> str:
    """Name a line as the answer does, if it does."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        return f"line {int(json.loads(answer)['lines'][position]['line_no'])}"
    return f"the answer's line at place {position + 1}"


def _rule(first: "ErrorDetails") -> str:
    limits = first.get("ctx", {})
    match first["type"]:
        case "greater_than_equal":
            return f", which is below {limits['ge']}"
        case "less_than_equal":
            return f", which is above {limits['le']}"
        case "literal_error":
            return f", which is none of {', '.join(get_args(Category))}"
        case "finite_number":
            return ", which is not a number"
        case _:
            return f": {first['msg'][:1].lower()}{first['msg'][1:]}"


def _require_each_once(expected: list[int], told: list[int]) -> None:
    """Refuse an answer that leaves lines out, or has some twice or of its own."""
    counts = Counter(told)
    wrong = {
        "left out": [each for each in expected if not counts[each]],
        "answered more than once": [each for each in counts if counts[each] > 1],
        "not asked for": [each for each in counts if each not in expected],
    }
    found = [f"{what}: {_listed(which)}" for what, which in wrong.items() if which]
    if found:
        raise TaxError(
            f"the tax service did not answer each line once ({'; '.join(found)})"
        )


def _listed(numbers: list[int]) -> str:
    first = ", ".join(str(each) for each in sorted(numbers)[:_LISTED])
    more = ", …" if len(numbers) > _LISTED else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {first}{more}"


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
