"""Policies are set by name, meters say how they count, and VAT ids have their form."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests import builders
from tests.actors import bill_all
from tests.catalogs import DECLARED, Table, apply, declaration, refused, sentences
from tests.inputs import rows
from tests.shop import value

pytestmark = pytest.mark.one_server

DEFAULT: Table = {
    "line_rounding": "half_up",
    "tax_rounding_scope": "rate",
    "tax_rounding": "half_up",
    "proration": "actual",
    "unused_advance": "credit",
    "zero_invoice": "issue",
    "negative_total": "carry_forward",
    "minimum_invoice": {},
}


def with_policy(**policy: object) -> Table:
    return declaration("sellers", "northlight", "policy", becomes=policy)


def policy_of(conn: Connection[Any]) -> Table:
    policy: Table = value(
        conn,
        "SELECT to_jsonb(policy) - 'policy_id' FROM pgbill.seller"
        " INNER JOIN pgbill.policy USING (policy_id)",
    )
    return policy


def test_what_is_left_out_is_the_default(conn: Connection[Any], tmp_path: Path) -> None:
    apply(conn, tmp_path)

    assert policy_of(conn) == DEFAULT
    assert len(rows(conn, "policy")) == 1


@pytest.mark.parametrize(
    ("preset", "scope", "rounding"),
    [
        ("en16931", "rate", "half_up"),
        ("au_gst_9_90", "total", "half_up"),
        ("nz_gst_19o", "total", "half_down"),
        ("uk_vat_17_5", "total", "down"),
        ("jp_qualified_invoice", "rate", "floor"),
        ("by_line", "line", "half_up"),
    ],
)
def test_tax_is_rounded_by_the_rule_of_that_name(
    conn: Connection[Any], tmp_path: Path, preset: str, scope: str, rounding: str
) -> None:
    apply(conn, tmp_path, with_policy(tax_preset=preset))

    assert policy_of(conn) == {
        **DEFAULT,
        "tax_rounding_scope": scope,
        "tax_rounding": rounding,
    }


def test_what_is_said_besides_a_preset_counts_more(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path, with_policy(tax_preset="by_line", tax_rounding="half_even"))

    assert policy_of(conn)["tax_rounding_scope"] == "line"
    assert policy_of(conn)["tax_rounding"] == "half_even"


def test_a_change_names_the_policy_that_changes(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)
    policy = {
        "line_rounding": "half_even",
        "proration": "30_360",
        "unused_advance": "keep",
        "zero_invoice": "skip",
        "negative_total": "credit_note",
        "minimum_invoice": {"EUR": "5.00", "JPY": "500"},
    }

    changes = apply(conn, tmp_path, with_policy(**policy))

    assert sentences(changes) == [
        "policy northlight changed: line_rounding: half_up → half_even",
        "policy northlight changed: proration: actual → 30_360",
        "policy northlight changed: unused_advance: credit → keep",
        "policy northlight changed: zero_invoice: issue → skip",
        "policy northlight changed: negative_total: carry_forward → credit_note",
        "policy northlight changed: minimum_invoice: none → 5.00 EUR, 500 JPY",
    ]
    assert policy_of(conn) == {**DEFAULT, **policy}
    policy["minimum_invoice"] = {"JPY": "500.0", "EUR": "5"}
    assert apply(conn, tmp_path, with_policy(**policy)) == []


def test_a_new_seller_tells_what_is_not_the_default(
    conn: Connection[Any], tmp_path: Path
) -> None:
    changes = apply(conn, tmp_path, with_policy(tax_preset="uk_vat_17_5"))

    assert sentences(changes)[1:3] == [
        "policy northlight added: tax_rounding_scope: total",
        "policy northlight added: tax_rounding: down",
    ]


def test_policies_that_are_left_out_again_go_back_to_the_default(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path, with_policy(proration="second"))

    assert len(apply(conn, tmp_path)) == 1
    assert policy_of(conn) == DEFAULT


def test_a_set_of_policies_is_one_row_for_all_sellers(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = with_policy(proration="second")
    declared["sellers"]["other"] = declared["sellers"]["northlight"]

    apply(conn, tmp_path, declared)

    assert len(rows(conn, "policy")) == 2


def test_an_issued_invoice_keeps_its_policy(
    conn: Connection[Any], tmp_path: Path
) -> None:
    apply(conn, tmp_path)
    seller_id = value(conn, "SELECT seller_id FROM pgbill.seller")
    account = builders.account(conn, seller_id)
    builders.subscription(conn, account, builders.price(conn, seller_id))
    bill_all(conn, account)

    apply(conn, tmp_path, with_policy(proration="second"))

    assert value(conn, "SELECT policy_id FROM pgbill.invoice") == 1


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            {"rounding": "up"},
            "policy.rounding: there is no such key (the keys are",
        ),
        ({"tax_preset": "de"}, "policy.tax_preset: 'de' is none of en16931, au_gst_"),
        ({"tax_rounding": "up"}, "policy.tax_rounding: 'up' is none of half_up,"),
        ({"proration": "days"}, "policy.proration: 'days' is none of actual, second,"),
        (
            {"minimum_invoice": {"EUR": 5}},
            "policy.minimum_invoice: numbers are written in quotes",
        ),
        (
            {"minimum_invoice": {"EUR": "-5"}},
            "policy.minimum_invoice: '-5' is negative",
        ),
        ({"minimum_invoice": {"EUX": "5"}}, ": there is no currency EUX"),
        ("half_up", "policy: 'half_up' is not a table"),
    ],
)
def test_a_policy_that_there_is_not_is_refused(
    conn: Connection[Any], tmp_path: Path, policy: object, told: str
) -> None:
    declared = declaration("sellers", "northlight", "policy", becomes=policy)

    (line,) = refused(conn, tmp_path, declared)

    assert line.removeprefix("sellers.northlight").lstrip(".").startswith(told)


def meter(**columns: object) -> Table:
    return {"meters": {"gb": {**DECLARED["meters"]["gb"], **columns}}}


def test_a_meter_says_how_it_counts(conn: Connection[Any], tmp_path: Path) -> None:
    declared = meter(
        aggregation="unique_count",
        unique_dimension="user",
        quantity_digits=2,
        quantity_rounding="up",
    )

    apply(conn, tmp_path, declared)

    (stored,) = rows(conn, "meter")
    assert declared["meters"]["gb"].items() <= stored.items()
    assert apply(conn, tmp_path, declared) == []


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"aggregation": "maximum"},
            "aggregation: it is sum, and usage was counted so",
        ),
        ({"quantity_digits": 0}, "quantity_digits: it is 3, and usage was counted so"),
        (
            {"quantity_rounding": "down"},
            "quantity_rounding: it is half_up, and usage was counted so",
        ),
    ],
)
def test_a_meter_keeps_the_way_it_counts(
    conn: Connection[Any], tmp_path: Path, columns: Table, told: str
) -> None:
    apply(conn, tmp_path, meter(quantity_digits=3))

    (line,) = refused(conn, tmp_path, meter(**{"quantity_digits": 3, **columns}))

    assert line.startswith(f"meters.gb.{told}")
    assert line.endswith("usage was counted so: make another meter")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"aggregation": "average"}, "aggregation: 'average' is none of sum, count,"),
        (
            {"aggregation": "unique_count"},
            "gb: a unique_count needs the unique_dimension",
        ),
        ({"unique_dimension": "user"}, "unique_dimension: only a unique_count has one"),
        ({"quantity_digits": 13}, "quantity_digits: '13' is not a whole number from 0"),
        (
            {"quantity_rounding": "up"},
            "quantity_rounding: it rounds nothing unless quantity_digits says where",
        ),
    ],
)
def test_a_meter_that_cannot_count_so_is_refused(
    conn: Connection[Any], tmp_path: Path, columns: Table, told: str
) -> None:
    (line,) = refused(conn, tmp_path, meter(**columns))

    assert told in line


def test_a_vat_id_has_the_form_of_its_country(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = declaration("sellers", "northlight", "vat_id", becomes="DE12345678")

    assert refused(conn, tmp_path, declared) == [
        ("sellers.northlight.vat_id: 'DE12345678' has not the length of a VAT id of DE")
    ]


def taxed(rate: object, **columns: object) -> Table:
    entry = {
        "seller_country": "CA",
        "buyer_country": "CA",
        "buyer_status": "business",
        "tax_class": "standard",
        "category": "S",
        "rate": rate,
        "begins_on": date(2026, 1, 1),
    }
    return {"tax_rates": [{**entry, **columns}]}


def test_several_taxes_on_one_amount_are_a_rate_with_components(
    conn: Connection[Any], tmp_path: Path
) -> None:
    changes = apply(conn, tmp_path, taxed(["5", "9.975"]))

    assert sentences(changes)[0].endswith("added: S 14.975 % (5 + 9.975)")
    (rate,) = rows(conn, "tax_rate")
    assert (str(rate["rate"]), rate["components"]) == ("14.975", [5, 9.975])
    assert apply(conn, tmp_path, taxed(["5", "9.975"])) == []
    assert "has begun" in refused(conn, tmp_path, taxed(["9.975", "5"]))[0]
    assert "has begun" in refused(conn, tmp_path, taxed("14.975"))[0]


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        ([], "rate: an array holds the rates of two or three taxes"),
        (["5"], "rate: an array holds the rates of two or three taxes"),
        (["5"] * 4, "rate: an array holds the rates of two or three taxes"),
        (["60", "60"], "rate: 120 is more than 100 percent"),
        (["5", 9.975], "rate: numbers are written in quotes"),
        (["5", "-1"], "rate: '-1' is negative"),
    ],
)
def test_components_that_are_none_are_refused(
    conn: Connection[Any], tmp_path: Path, rate: object, told: str
) -> None:
    (line,) = refused(conn, tmp_path, taxed(rate))

    assert line.startswith(f"tax_rates[1].{told}")


def test_what_carries_no_tax_has_no_components(
    conn: Connection[Any], tmp_path: Path
) -> None:
    declared = taxed(["0", "0"], category="O", legal_text="Abroad.")

    assert refused(conn, tmp_path, declared) == [
        "tax_rates[1].rate: category O has the rate 0"
    ]
