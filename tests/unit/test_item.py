"""What stands in the column of amounts adds up, and a reader can check each line."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from pgbill import figures, item, wording
from pgbill.document import Line
from pgbill.item import Item
from tests import documents
from tests.documents import line, plain

TIERED = (
    '{"model": "graduated", "quantity": 12500, "tiers": ['
    '{"up_to": 1000, "unit_amount": 0.01, "flat_amount": 0},'
    '{"up_to": null, "unit_amount": 0.005, "flat_amount": 5}]}'
)


def items(
    *lines: Line,
    language: str = "en",
    **columns: Any,  # noqa: ANN401
) -> list[Item]:
    """Write out lines, with plain spaces."""
    invoice = documents.document(language=language, **columns).invoice
    figure = figures.of(invoice, wording.find(language))
    return [item.of(each, figure, says_tax=len(lines) > 1) for each in lines]


def written(line: Line, language: str = "en") -> Item:
    (only,) = items(line, language=language)
    return only


def test_discounts_stand_below_what_was_priced() -> None:
    """1,234.50 less 34.50 and 200 is the net amount of the line."""
    shown = written(
        line(
            net_amount=Decimal(1000),
            discount_amount=Decimal("234.50"),
            discount_texts=["Partner discount", "Maximum"],
            discount_amounts=[Decimal("34.50"), Decimal(200)],
        )
    )

    assert shown.amount == "1,234.50"
    assert [(text, plain(amount)) for text, amount in shown.discounts] == [
        ("Partner discount", "-34.50"),
        ("Maximum", "-200.00"),
    ]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("34.50", ("Discount", "-34.50")), ("-34.50", ("Surcharge", "34.50"))],
)
def test_an_allowance_of_a_charge_has_a_name(
    amount: str, expected: tuple[str, str]
) -> None:
    (discount,) = written(
        line(kind="charge", discount_amount=Decimal(amount))
    ).discounts

    assert (discount[0], plain(discount[1])) == expected


def test_an_allowance_stands_before_discounts() -> None:
    shown = written(
        line(
            kind="charge",
            net_amount=Decimal(187),
            discount_amount=Decimal(53),
            discount_texts=["Partner discount"],
            discount_amounts=[Decimal(33)],
        )
    )

    assert shown.amount == "240.00"
    assert [plain(amount) for _, amount in shown.discounts] == ["-20.00", "-33.00"]


def test_tiers_are_a_sum_in_place_of_a_price() -> None:
    shown = written(
        line(quantity=Decimal(12500), unit_amount=None, rating_input=TIERED)
    )

    assert shown.price == ""
    assert plain(shown.breakdown) == "1,000 * 0.01 + 5.00 + 11,500 * 0.005"


def test_a_prorated_sum_is_put_in_brackets() -> None:
    part = '"part": 10, "whole": 31, "model"'
    shown = written(
        line(unit_amount=None, rating_input=TIERED.replace('"model"', part))
    )

    assert plain(shown.breakdown).endswith("+ 11,500 * 0.005) * 10/31 days")


def test_late_usage_is_what_was_not_billed_before() -> None:
    before = '"before": {"quantity": 1500}, "model"'
    shown = written(
        line(
            kind="late_usage",
            unit_amount=None,
            rating_input=TIERED.replace('"model"', before),
        )
    )

    assert plain(shown.breakdown) == (
        "1,000 * 0.01 + 5.00 + 11,500 * 0.005 - (1,000 * 0.01 + 5.00 + 500 * 0.005)"
    )
    assert shown.notes == ["used earlier, reported late"]


def test_a_minimum_says_what_is_missing() -> None:
    rating_input = '{"quantity": 1, "unit_amount": 500, "reached": 420.5}'
    shown = written(
        line(
            kind="minimum",
            quantity=Decimal(1),
            unit_amount=Decimal(500),
            net_amount=Decimal("79.50"),
            rating_input=rating_input,
        )
    )

    assert (shown.price, plain(shown.breakdown)) == ("", "500.00 - 420.50")


def test_a_share_is_written_in_percent() -> None:
    rating_input = (
        '{"model": "percentage", "unit_amount": 0.014, "charged_amount": 48230.1,'
        ' "charged_count": 149, "fixed_amount": 0.25}'
    )
    shown = written(line(unit_amount=None, rating_input=rating_input), "de")

    assert plain(shown.breakdown) == "1,4 % * 48.230,10 + 149 * 0,25"


@pytest.mark.parametrize(
    ("charged", "expected"),
    [("0", "3 * 0.50"), ("100", "2.9% * 100.00 + 3 * 0.50")],
)
def test_a_share_of_nothing_is_left_out(charged: str, expected: str) -> None:
    rating_input = (
        f'{{"model": "percentage", "unit_amount": 0.029, "charged_amount": {charged},'
        ' "charged_count": 3, "fixed_amount": 0.5}'
    )
    shown = written(line(unit_amount=None, rating_input=rating_input))

    assert plain(shown.breakdown) == expected


def test_a_sum_of_one_amount_is_left_out() -> None:
    """7.77 = 7.77 says nothing; of a part, it says something."""
    package = (
        '{"model": "package", "quantity": 5, "package_size": 10, "unit_amount": 7.77}'
    )
    part = package.replace('"model"', '"part": 10, "whole": 31, "model"')
    columns: dict[str, Any] = {"unit_amount": None, "quantity": Decimal(5)}

    whole = written(line(net_amount=Decimal("7.77"), rating_input=package, **columns))
    cut = written(line(net_amount=Decimal("2.51"), rating_input=part, **columns))

    assert (whole.price, whole.breakdown) == ("", "")
    assert plain(cut.breakdown) == "7.77 * 10/31 days"


def test_what_comes_to_nothing_is_not_taken_off() -> None:
    before = '"before": {"quantity": 0}, "model"'
    shown = written(
        line(unit_amount=None, rating_input=TIERED.replace('"model"', before))
    )

    assert plain(shown.breakdown) == "1,000 * 0.01 + 5.00 + 11,500 * 0.005"


def test_a_long_term_may_wrap_at_its_sign() -> None:
    """No column is as wide as a quantity and an amount of twenty digits."""
    rating_input = (
        '{"model": "per_unit", "quantity": 9.93857526881720430108,'
        ' "free_quantity": 1, "unit_amount": 0.0123}'
    )
    shown = written(line(unit_amount=None, rating_input=rating_input))

    assert shown.breakdown == "8.93857526881720430108 \N{MULTIPLICATION SIGN} 0.0123"


def test_what_is_given_back_is_a_part_of_what_was_billed() -> None:
    shown = written(
        line(
            kind="unused_advance",
            quantity=Decimal(-1),
            unit_amount=Decimal("135.48"),
            net_amount=Decimal("-135.48"),
            credited_number="NL-000041",
            rating_input='{"model": "unused_advance", "quantity": -1,'
            ' "unit_amount": 200, "part": 651, "whole": 961}',
        )
    )

    assert (shown.price, plain(shown.amount)) == ("", "-135.48")
    assert plain(shown.breakdown) == "-200.00 * 21/31"
    assert shown.notes == ["paid in advance with NL-000041, not used"]


def test_a_credit_has_a_price_below_zero() -> None:
    """Quantity times price is the amount, sign and all."""
    shown = written(line(net_amount=Decimal("-1234.50")))

    assert (shown.quantity, plain(shown.price), plain(shown.amount)) == (
        "2",
        "-617.25",
        "-1,234.50",
    )


def test_a_sum_that_is_given_back_is_turned_whole() -> None:
    shown = written(
        line(net_amount=Decimal("-72.50"), unit_amount=None, rating_input=TIERED)
    )

    assert plain(shown.breakdown) == "-(1,000 * 0.01 + 5.00 + 11,500 * 0.005)"


def test_a_price_for_many_units_says_so() -> None:
    shown = written(line(rating_input='{"per_quantity": 1000}'), "de")

    assert [plain(each) for each in shown.price_notes] == ["je 1.000"]


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (10, 31, "* 10/31 days"),
        (864_000, 2_678_400, "* 10/31 days"),
        (860_400, 2_674_800, "* 239/743 hours"),
        (1, 2_678_400, "* 1/2,678,400 seconds"),
        (3, 1, "* 3"),
        (41, 31, "* 41/31"),
        (868, 1736, "* 1/2"),
        # Of a month, a whole week and 4 days: 604,800 is multiplied with itself.
        (574_801_920_000, 365_783_040_000, "* 11/7"),
        (217, 49, "* 31/7"),
        (21, 49, "* 3/7"),
        ("518400.000000", "604800.000000", "* 6/7 days"),
        ("514800.000000", "601200.000000", "* 143/167 hours"),
        (14_700, 86_400, "* 49/288"),
    ],
)
def test_a_part_is_in_a_unit_that_people_count_in(
    part: object, whole: object, expected: str
) -> None:
    """A month whose clock changes has 743 hours; months that add up have no unit."""
    shown = written(line(rating_input=f'{{"part": {part}, "whole": {whole}}}'))

    assert [plain(each) for each in shown.price_notes] == [expected]


@pytest.mark.parametrize(
    ("days", "part", "whole", "expected"),
    [
        (20, 2, 3, "* 20/30 days"),
        (8, 2, 7, "* 8/28 days"),
        (2, 2, 7, "* 2/7 days"),
        (20, 1_728_000, 2_592_000, "* 20/30 days"),
        # Of 16 days in August that count as 15, and of what a changed clock leaves.
        (16, 1, 2, "* 1/2"),
        (20, 479, 719, "* 479/719"),
    ],
)
def test_a_part_of_a_fee_is_told_by_the_days_that_are_given_back(
    days: int, part: int, whole: int, expected: str
) -> None:
    """Its fraction is kept reduced, and what was used stands before it."""
    shown = written(
        line(
            kind="unused_advance",
            quantity=Decimal(-1),
            net_amount=Decimal("-33.33"),
            service_from_on=date(2026, 10, 1),
            service_through_on=date(2026, 10, days),
            rating_input='{"model": "unused_advance", "quantity": -1, "after_part": 1,'
            f' "unit_amount": 50, "part": {part}, "whole": {whole}}}',
        )
    )

    assert plain(shown.breakdown) == f"-50.00 {expected}"


def test_a_whole_period_is_no_part() -> None:
    assert written(line(rating_input='{"part": 1, "whole": 1}')).price_notes == []


def test_lines_say_their_tax_if_it_is_not_the_same() -> None:
    shown = items(
        line(), line(tax_rate=Decimal(7)), line(tax_category="AE", tax_rate=Decimal(0))
    )

    assert [[plain(each) for each in one.notes] for one in shown] == [
        ["VAT 19%"],
        ["VAT 7%"],
        ["Reverse charge"],
    ]
    assert written(line()).notes == []


def test_a_price_with_tax_is_shown_with_tax() -> None:
    shown = written(
        line(
            unit_amount=Decimal(595),
            net_amount=Decimal(990),
            tax_included_amount=Decimal("1178.10"),
            discount_amount=Decimal("11.90"),
        )
    )

    assert (shown.price, shown.amount) == ("595.00", "1,190.00")


@pytest.mark.parametrize(
    ("currency", "digits", "amount", "expected"),
    [
        ("JPY", 0, "1000000000000", "1,000,000,000,000"),
        ("EUR", 2, "1000000000000", "1,000,000,000,000.00"),
        ("KWD", 3, "1000000000000.5", "1,000,000,000,000.500"),
    ],
)
def test_amounts_have_the_digits_of_their_currency(
    currency: str, digits: int, amount: str, expected: str
) -> None:
    (shown,) = items(
        line(net_amount=Decimal(amount)), currency=currency, currency_digits=digits
    )

    assert shown.amount == expected
