"""What a tax service answers is believed if it can mean what was asked, not before."""

import json
from typing import Any

import pytest

from pgbill.tax import TaxError
from pgbill.taxanswer import check

LINE = {"line_no": 1, "category": "S", "rate": "19"}
OTHER = {"line_no": 2, "category": "S", "rate": "7"}


def question(*amounts: str, currency: str = "EUR", **line: Any) -> str:  # noqa: ANN401
    lines = [
        {"line_no": number, "tax_class": "standard", "net_amount": amount, **line}
        for number, amount in enumerate(amounts, 1)
    ]
    return json.dumps({"currency": currency, "lines": lines})


def answer(*lines: dict[str, Any], **whole: Any) -> str:  # noqa: ANN401
    return json.dumps({"lines": lines, **whole})


def test_what_is_kept_is_what_was_said() -> None:
    """Rates and amounts to the last digit, and also what we have no use for."""
    said = answer(
        {**LINE, "rate": 7.70, "legal_text": "§ 12", "jurisdiction": "DE-HH"},
        currency="EUR",
        transaction_id="T-1",
    )

    kept = json.loads(check(question("10.00"), said))

    assert kept == {
        "currency": "EUR",
        "transaction_id": "T-1",
        "lines": [
            {
                "line_no": 1,
                "category": "S",
                "rate": "7.7",
                "legal_text": "§ 12",
                "jurisdiction": "DE-HH",
            }
        ],
    }


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "is wrong: Invalid JSON"),
        ("[]", "is wrong: Input should be an object"),
        (answer(), r"each line once \(left out: lines 1, 2\)"),
        (
            answer(LINE, LINE, {**LINE, "line_no": 5}),
            "left out: line 2; answered more than once: line 1; not asked for: line 5",
        ),
        (answer(LINE, OTHER, OTHER), r"once \(answered more than once: line 2\)"),
        (
            answer(LINE, {**OTHER, "rate": "100.1"}),
            "the rate of line 2 is 100.1, which is above 100$",
        ),
        (answer(LINE, {**OTHER, "rate": -1}), "of line 2 is -1, which is below 0$"),
        (answer(LINE, {**OTHER, "rate": "NaN"}), "2 is NaN, which is not a number$"),
        (
            answer(LINE, {**OTHER, "category": "Q"}),
            "the category of line 2 is Q, which is none of S, Z, E, AE, ",
        ),
        (answer({"line_no": 1, "category": "S"}), "the rate of line 1 is missing$"),
        (answer({"rate": "1"}), "the line no of the answer's line at place 1 is miss"),
        (
            answer({**LINE, "rate": "1" + "0" * 99}),
            "the rate of line 1 is 10+…: .* no more than 20 digits",
        ),
        ('{"lines": 4}', "the lines is 4: input should be a valid array$"),
        ('{"lines": [4]}', "what is said of the answer's line at place 1 is 4: "),
        (answer(LINE, OTHER, currency="USD"), "answers in USD, asked was EUR"),
        (
            answer(LINE, {**OTHER, "category": "AE"}),
            "line 2 has category AE, which is not taxed, and a rate of 7 %",
        ),
        (answer({**LINE, "legal_text": "\0"}, OTHER), "text with a zero byte"),
        (
            answer({**LINE, "legal_text": "\ud800"}, OTHER),
            "is wrong|is none",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(said: str, reason: str) -> None:
    with pytest.raises(TaxError, match=reason):
        check(question("10.00", "20.00"), said)


@pytest.mark.parametrize(
    ("currency", "amount", "stated"),
    [
        ("EUR", "10.00", "1.90"),
        ("EUR", "10.0000000000000000", "1.91"),
        ("EUR", "10", "1.89"),
        ("EUR", "0.03", "0.00"),
        ("EUR", "-10.00", "-1.90"),
        ("JPY", "1000", "191"),
        ("KWD", "1.000", "0.191"),
    ],
)
def test_a_line_may_be_off_by_one_minor_unit(
    currency: str, amount: str, stated: str
) -> None:
    check(question(amount, currency=currency), answer({**LINE, "tax_amount": stated}))


@pytest.mark.parametrize(
    ("currency", "stated", "ours"),
    [("EUR", "1.92", "1.90"), ("JPY", "4", "2"), ("KWD", "1.902", "1.900")],
)
def test_it_may_not_be_off_by_two(currency: str, stated: str, ours: str) -> None:
    asked = question("10", currency=currency)

    with pytest.raises(TaxError, match=f"is {stated}, its rate gives {ours}$"):
        check(asked, answer({**LINE, "tax_amount": stated}))


@pytest.mark.parametrize(
    ("lines", "whole", "reason"),
    [
        (
            [{**LINE, "tax_amount": "1.92"}, OTHER],
            {},
            "tax of line 1 is 1.92, its rate gives 1.90",
        ),
        (
            [LINE, {**OTHER, "tax_amount": "-1.40"}],
            {},
            "tax of line 2 is -1.40, its rate gives 1.40",
        ),
        ([LINE, OTHER], {"tax_amount": "3.33"}, "lines is 3.33, its rates give 3.30"),
        (
            [{**LINE, "tax_amount": "1.89"}, {**OTHER, "tax_amount": "1.39"}],
            {"tax_amount": "3.32"},
            "lines is 3.32, its lines add up to 3.28",
        ),
    ],
)
def test_amounts_that_contradict_are_refused_with_both_figures(
    lines: list[dict[str, Any]], whole: dict[str, Any], reason: str
) -> None:
    with pytest.raises(TaxError, match=f"contradicts itself: .*{reason}"):
        check(question("10.00", "20.00"), answer(*lines, **whole))


def test_the_whole_may_be_off_by_one_minor_unit_for_each_line() -> None:
    check(question("10.00", "20.00"), answer(LINE, OTHER, tax_amount="3.32"))


def test_tax_that_a_price_includes_is_taken_out_of_it() -> None:
    asked = question("119.00", tax_included=True)

    check(asked, answer({**LINE, "tax_amount": "19.00"}))

    with pytest.raises(TaxError, match=r"is 22\.61, its rate gives 19\.00"):
        check(asked, answer({**LINE, "tax_amount": "22.61"}))
