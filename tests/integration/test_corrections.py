"""Credit notes take back what was issued, never more, and together exactly all."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from psycopg import Connection
from psycopg.types.range import DateRange

from pgbill import bulk, document, invoice, rendering, story
from pgbill.correction import Correction
from pgbill.errors import CorrectionError, LeaseHeldError
from pgbill.invoice import Header
from tests import builders, world
from tests.clerk import DRY_RUN, ORDER, Clerk
from tests.documents import plain
from tests.ledger import Ledger
from tests.shop import FEBRUARY, FIRST_DAY, MARCH, findings, lease_row, value, values

pytestmark = pytest.mark.one_server

_JANUARY_31 = date(2026, 1, 31)
_NOTHING = (Decimal(0), Decimal(0), Decimal(0))


@pytest.fixture
def ledger(audited: Connection[Any]) -> Ledger:
    """Return an account that pays 100, 50 and, at another tax rate, 10 in advance."""
    builders.tax_rate(audited)
    builders.tax_rate(audited, rate="7", tax_class="reduced")
    ledger = Ledger(audited)
    ledger.subscribe(ledger.price("100"), ledger.price("50"))
    ledger.subscribe(ledger.price("10", tax_class="reduced"))
    ledger.bill()
    return ledger


@pytest.fixture
def clerk(ledger: Ledger) -> Clerk:
    return Clerk(ledger.conn, ledger.account)


def test_a_whole_credit_note_mirrors_its_invoice(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)

    done = clerk.credit(number)

    assert done.credit_note is not None
    assert (done.credit_note.number, done.credit_note.gross_amount) == (
        "NLC-000001",
        Decimal("-189.20"),
    )
    assert clerk.left(number) == _NOTHING
    assert clerk.documents() == ["NL-000001 189.20", "NLC-000001 -189.20"]


def test_a_line_is_credited_with_tax_of_its_rate(clerk: Clerk) -> None:
    done = clerk.credit(clerk.number(FIRST_DAY), (3, "4"), (1, "30"))

    assert done.credit_note is not None
    assert [each.credited_line_no for each in done.credit_note.lines] == [1, 3]
    assert done.credit_note.net_amount == Decimal(-34)
    assert done.credit_note.tax_amount == Decimal("-5.98")


def test_an_amount_is_spread_over_rates_and_lines(clerk: Clerk) -> None:
    """178.50 and 10.70 with tax: of 18.92, a tenth, 17.85 and 1.07."""
    done = clerk.credit(clerk.number(FIRST_DAY), amount="18.92")

    assert done.credit_note is not None
    assert [str(each.net_amount) for each in done.credit_note.lines] == [
        "-10.00",
        "-5.00",
        "-1.00",
    ]
    assert done.credit_note.gross_amount == Decimal("-18.92")


@pytest.mark.parametrize("amount", ["0.01", "0.02", "12.34", "99.99", "189.19"])
def test_an_amount_is_credited_to_the_cent(clerk: Clerk, amount: str) -> None:
    number = clerk.number(FIRST_DAY)

    first = clerk.credit(number, amount=amount)
    last = clerk.credit(number)

    assert first.credit_note is not None
    assert last.credit_note is not None
    assert first.credit_note.gross_amount == -Decimal(amount)
    assert clerk.left(number) == _NOTHING


@pytest.mark.parametrize(
    ("lines", "amount", "told"),
    [
        ([(1, "100.01")], None, "only 100.00 EUR is left of line 1 of NL-000001"),
        ([(4, None)], None, "NL-000001 has no line 4"),
        ([(1, "1"), (1, "2")], None, "line 1 is named twice"),
        ([(1, "0")], None, "an amount to credit is above zero"),
        ([(1, "-5")], None, "an amount to credit is above zero"),
        ([(1, "0.001")], None, "an amount in EUR has at most 2 decimals"),
        ([], "189.21", "only 189.20 EUR with tax is left of NL-000001"),
        ([], "0", "an amount to credit is above zero"),
        ([], "1.005", "an amount in EUR has at most 2 decimals"),
    ],
)
def test_what_cannot_be_credited_is_refused_in_a_sentence(
    clerk: Clerk, lines: list[tuple[int, str | None]], amount: str | None, told: str
) -> None:
    before = clerk.documents(), lease_row(clerk.conn, clerk.account)

    with (
        pytest.raises(CorrectionError) as raised,
        clerk.conn.transaction(),
    ):
        clerk.credit(clerk.number(FIRST_DAY), *lines, amount=amount)

    assert raised.value.message == told
    assert (clerk.documents(), lease_row(clerk.conn, clerk.account)) == before


def test_nothing_is_credited_twice(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    clerk.credit(number)

    with (
        pytest.raises(CorrectionError, match="all of it is credited"),
        clerk.conn.transaction(),
    ):
        clerk.credit(number)


def test_a_credit_note_is_not_corrected(clerk: Clerk) -> None:
    clerk.credit(clerk.number(FIRST_DAY))

    for act in (clerk.credit, clerk.cancel, clerk.reissue):
        with (
            pytest.raises(CorrectionError) as raised,
            clerk.conn.transaction(),
        ):
            act("NLC-000001")
        assert raised.value.message == (
            "NLC-000001 is a credit note, which is not corrected"
        )


def test_what_is_cancelled_is_not_credited(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    clerk.credit(number, (1, "40"))
    clerk.cancel(number)

    for act in (clerk.credit, clerk.cancel):
        with (
            pytest.raises(CorrectionError, match="NL-000001 is cancelled"),
            clerk.conn.transaction(),
        ):
            act(number)
    assert clerk.left(number) == _NOTHING
    assert clerk.documents() == [
        "NL-000001 189.20 cancelled",
        "NLC-000001 -47.60",
        "NLC-000002 -141.60",
    ]


def test_what_is_credited_whole_is_cancelled_without_a_document(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    clerk.credit(number)

    done = clerk.cancel(number)

    assert done.credit_note is None
    assert clerk.documents() == ["NL-000001 189.20 cancelled", "NLC-000001 -189.20"]


def test_an_invoice_of_zero_is_cancelled(audited: Connection[Any]) -> None:
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    ledger.subscribe(ledger.price("0"))
    ledger.bill()
    clerk = Clerk(audited, ledger.account)

    clerk.cancel(clerk.number(FIRST_DAY))

    assert clerk.documents() == ["NL-000001 0.00 cancelled", "NLC-000001 0.00"]


@pytest.mark.parametrize("what", ["cancel", "reissue"])
def test_what_another_command_does_meanwhile_is_done_before(
    clerk: Clerk, what: str
) -> None:
    """Two are given the same file: whoever comes second passes it by."""
    number = clerk.number(FIRST_DAY)
    act = clerk.reissue if what == "reissue" else clerk.cancel
    is_done = invoice.is_issued_again if what == "reissue" else invoice.is_cancelled

    def overtaken(head: Header) -> Correction:
        act(head.number)
        with clerk.conn.transaction():
            return act(head.number)

    (told,) = bulk.correct(
        [clerk.head(number)], overtaken, is_done=lambda head: is_done(clerk.conn, head)
    )

    assert (told.state, told.reason) == ("done before", None)


def test_a_reissue_bills_the_period_again(ledger: Ledger, clerk: Clerk) -> None:
    """With what is known today: a line that came late, and the new address."""
    ledger.subscribe(ledger.price("5"))
    ledger.conn.execute("UPDATE pgbill.account SET city = 'Kiel'")

    done = clerk.reissue(clerk.number(FIRST_DAY))

    assert done.invoice is not None
    assert (done.invoice.number, done.difference_amount) == (
        "NL-000002",
        Decimal("5.95"),
    )
    assert clerk.documents() == [
        "NL-000001 189.20 cancelled",
        "NLC-000001 -189.20",
        "NL-000002 195.15",
    ]
    assert values(
        ledger.conn,
        "SELECT buyer ->> 'city' FROM pgbill.invoice ORDER BY invoice_id",
    ) == ["Bremen", "Bremen", "Kiel"]


def test_a_reissue_is_issued_again_in_its_turn(clerk: Clerk) -> None:
    first = clerk.number(FIRST_DAY)
    clerk.cancel(first)
    clerk.reissue(first)
    second = clerk.number(FIRST_DAY)

    with (
        pytest.raises(CorrectionError) as raised,
        clerk.conn.transaction(),
    ):
        clerk.reissue(first)
    clerk.reissue(second)

    assert raised.value.message == (
        "NL-000001 was issued again as NL-000002: correct that one"
    )
    assert clerk.documents()[-1] == "NL-000003 189.20"


def test_a_period_with_nothing_left_to_bill_is_not_issued_again(
    ledger: Ledger, clerk: Clerk
) -> None:
    ledger.conn.execute("DELETE FROM pgbill.subscription_price")

    with (
        pytest.raises(CorrectionError, match="cancel it instead"),
        clerk.conn.transaction(),
    ):
        clerk.reissue(clerk.number(FIRST_DAY))

    assert clerk.documents() == ["NL-000001 189.20"]


def test_a_reissue_keeps_the_watermark(audited: Connection[Any]) -> None:
    """What came after the closing is for the next invoice, as late usage."""
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    meter = ledger.metered("1")
    ledger.use(meter, "3")
    ledger.bill(_JANUARY_31)
    ledger.use(meter, "4")
    clerk = Clerk(audited, ledger.account)

    clerk.reissue(clerk.number(FEBRUARY))
    ledger.bill(date(2026, 2, 28))

    assert [line.split(",")[0] for line in ledger.lines(FEBRUARY)] == [
        "usage 2026-01-01..2026-01-31: 3 * 1 = 3.00"
    ] * 2
    assert ledger.lines(MARCH)[0].startswith("late_usage 2026-01-01..2026-01-31: 4")
    assert ledger.states() == ["3: billed", "4: billed"]


def test_charges_and_prepaid_credit_are_billed_again(audited: Connection[Any]) -> None:
    """A charge that came later waits for the next closing."""
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    builders.charge(audited, ledger.account, unit_amount=Decimal(100))
    builders.prepaid_credit(audited, ledger.account, "50.00")
    ledger.bill(_JANUARY_31)
    builders.charge(audited, ledger.account, unit_amount=Decimal(7))
    clerk = Clerk(audited, ledger.account)

    clerk.reissue(clerk.number(FEBRUARY))
    ledger.bill(date(2026, 2, 28))

    assert clerk.documents() == [
        "NL-000001 119.00 50.00 cancelled",
        "NLC-000001 -119.00 -50.00",
        "NL-000002 119.00 50.00",
        "NL-000003 8.33",
    ]


def test_what_is_still_to_be_paid_is_lowered_first(audited: Connection[Any]) -> None:
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    builders.charge(audited, ledger.account, unit_amount=Decimal(100))
    builders.prepaid_credit(audited, ledger.account, "30.00", key="old")
    builders.prepaid_credit(
        audited,
        ledger.account,
        "30.00",
        key="new",
        available_on=FIRST_DAY.replace(day=2),
    )
    ledger.bill(_JANUARY_31)
    clerk = Clerk(audited, ledger.account)
    number = clerk.number(FEBRUARY)

    for amount in ("50", "20", "45"):
        clerk.credit(number, amount=amount)
    clerk.cancel(number)

    assert ledger.prepaid() == [
        "119.00: 30.00 old, 30.00 new",
        "-50.00: nothing",
        "-20.00: -11.00 new",
        "-45.00: -26.00 old, -19.00 new",
        "-4.00: -4.00 old",
    ]


def test_a_dry_run_shows_what_would_be_and_leaves_nothing(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    lease = lease_row(clerk.conn, clerk.account)

    credited = clerk.credit(number, amount="10", order=DRY_RUN)
    again = clerk.reissue(number, DRY_RUN)

    assert credited.credit_note is not None
    assert again.invoice is not None
    assert credited.credit_note.number is None
    assert again.invoice.gross_amount == Decimal("189.20")
    assert clerk.documents() == ["NL-000001 189.20"]
    assert lease_row(clerk.conn, clerk.account) == lease


def test_a_worker_goes_first(ledger: Ledger, clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    world.claim(ledger.conn, ledger.account, holder="worker:1")

    for act in (clerk.credit, clerk.cancel, clerk.reissue):
        with (
            pytest.raises(LeaseHeldError, match="worker:1 is working on the account"),
            clerk.conn.transaction(),
        ):
            act(number)


def test_the_lease_is_as_it_was(ledger: Ledger, clerk: Clerk) -> None:
    """But for the token, also of an account that is parked."""
    ledger.conn.execute(
        "UPDATE pgbill.lease SET parked_at = now(), attempts = 3, outcome = 'parked',"
        " detail = 'no address', fencing_token = nextval('pgbill.fencing_token')"
        " WHERE account_id = %s",
        [ledger.account.account_id],
    )
    before = lease_row(ledger.conn, ledger.account)

    clerk.credit(clerk.number(FIRST_DAY))

    after = lease_row(ledger.conn, ledger.account)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"fencing_token", "renewed_at", "run_id"}
    assert values(
        ledger.conn,
        "SELECT concat_ws(' ', kind, outcome, holder) FROM pgbill.lease_event"
        " WHERE account_id = %s ORDER BY lease_event_id DESC LIMIT 2",
        ledger.account.account_id,
    ) == [f"released corrected {ORDER.issued_by}", f"claimed {ORDER.issued_by}"]


def test_who_and_why_is_kept_with_the_document(clerk: Clerk) -> None:
    clerk.reissue(clerk.number(FIRST_DAY))

    assert values(
        clerk.conn,
        "SELECT concat_ws(': ', issued_by, reason) FROM pgbill.invoice"
        " ORDER BY invoice_id",
    ) == ["", *[f"{ORDER.issued_by}: {ORDER.reason}"] * 2]


def test_a_fee_that_was_lowered_is_given_back_in_part(
    audited: Connection[Any],
) -> None:
    """Of 31 that were lowered by 10, the 15 days that are not used are worth 10.16."""
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    price = ledger.price("31")
    subscription = ledger.subscribe(price)
    ledger.bill()
    clerk = Clerk(audited, ledger.account)
    clerk.credit(clerk.number(FIRST_DAY), (1, "10"))
    ledger.cancel(subscription, price, date(2026, 1, 17))
    ledger.subscribe(ledger.price("100"), starts_on=date(2026, 1, 17))
    ledger.bill(_JANUARY_31)

    assert "unused_advance 2026-01-17..2026-01-31: -1 = -10.16" in ledger.entries(
        FEBRUARY
    )


def test_an_invoice_whose_fees_are_given_back_later_is_cancelled_after_that(
    audited: Connection[Any],
) -> None:
    builders.tax_rate(audited)
    ledger = Ledger(audited)
    price = ledger.price("31")
    subscription = ledger.subscribe(price)
    ledger.bill()
    ledger.cancel(subscription, price, date(2026, 1, 17))
    ledger.subscribe(ledger.price("100"), starts_on=date(2026, 1, 17))
    ledger.bill(_JANUARY_31)
    clerk = Clerk(audited, ledger.account)
    first, second = clerk.number(FIRST_DAY), clerk.number(FEBRUARY)

    with (
        pytest.raises(CorrectionError, match="a later invoice gives back"),
        audited.transaction(),
    ):
        clerk.cancel(first)
    with (
        pytest.raises(CorrectionError, match=r"only 16\.00 EUR is left of line 1"),
        audited.transaction(),
    ):
        clerk.credit(first, (1, "16.01"))
    clerk.cancel(second)
    clerk.reissue(first)
    clerk.reissue(second)

    assert ledger.entries(FIRST_DAY)[1:] == [
        "advance 2026-01-01..2026-01-16: 1 = 16.00"
    ]
    assert [line for line in ledger.entries(FEBRUARY) if "unused" in line] == [
        "unused_advance 2026-01-17..2026-01-31: -1 = -15.00"
    ]


def test_a_fee_that_a_reissue_has_left_out_is_billed_when_it_comes_back(
    ledger: Ledger, clerk: Clerk
) -> None:
    """It was taken away by mistake: the next closing catches up on it."""
    late = ledger.price("5")
    added = ledger.subscribe(late)
    clerk.reissue(clerk.number(FIRST_DAY))
    ledger.conn.execute(
        "UPDATE pgbill.subscription_price SET active_period = %s"
        " WHERE subscription_id = %s",
        [DateRange(MARCH, None), added],
    )
    clerk.reissue(clerk.number(FIRST_DAY))
    ledger.conn.execute(
        "UPDATE pgbill.subscription_price SET active_period = %s"
        " WHERE subscription_id = %s",
        [DateRange(FIRST_DAY, None), added],
    )

    ledger.bill(_JANUARY_31)

    fees = [line for line in ledger.entries(FEBRUARY) if line.endswith("= 5.00")]
    assert fees == [
        "advance 2026-02-01..2026-02-28: 1 = 5.00",
        "advance 2026-01-01..2026-01-31: 1 = 5.00",
    ]


def test_a_fee_that_the_next_closing_has_billed_is_not_billed_again(
    ledger: Ledger, clerk: Clerk
) -> None:
    ledger.subscribe(ledger.price("5"))
    ledger.bill(_JANUARY_31)

    clerk.reissue(clerk.number(FIRST_DAY))
    clerk.reissue(clerk.number(FEBRUARY))

    assert clerk.documents() == [
        "NL-000001 189.20 cancelled",
        "NL-000002 201.10 cancelled",
        "NLC-000001 -189.20",
        "NL-000003 189.20",
        "NLC-000002 -201.10",
        "NL-000004 201.10",
    ]


def test_audits_find_nothing_after_all_of_it(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    clerk.credit(number, (2, "1.11"))
    clerk.credit(number, amount="3.33")
    clerk.reissue(number)

    assert findings(clerk.conn) == {}
    assert value(clerk.conn, "SELECT count(*) FROM pgbill.outbox_message") == 5


def test_a_correction_is_told(clerk: Clerk) -> None:
    number = clerk.number(FIRST_DAY)
    clerk.credit(number, amount="3.33")
    clerk.reissue(number)

    told = story.tell(clerk.conn, clerk.account.key, str(FIRST_DAY))

    texts = [each.text for each in told.entries]
    day = value(clerk.conn, "SELECT max(issued_on) FROM pgbill.invoice")
    who = f"{ORDER.issued_by}: {ORDER.reason}."
    assert (
        "Credit note NLC-000001 of -3.33 EUR was issued for invoice NL-000001 with"
        f" 3 lines, dated {day}, by {who}"
    ) in texts
    assert (
        f"{ORDER.issued_by} cancelled invoice NL-000001 by credit note NLC-000002:"
        in (" ".join(texts))
    )
    assert any(
        text.startswith("Invoice NL-000002, revision 2, of 189.20 EUR was issued")
        and text.endswith(f"by {who}")
        for text in texts
    )
    whole = story.tell(clerk.conn, clerk.account.key)
    assert [each.text for each in whole.entries if "to correct" in each.text]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (
            "en",
            [
                "Credit note",
                "Corrects invoice: NL-000001",
                "2 unit * 10.00 = 20.00",
                "EUR 23.80",
            ],
        ),
        ("de", ["Rechnungskorrektur", "NL-000001", "20,00"]),
    ],
)
def test_a_credit_note_prints_well(
    audited: Connection[Any], language: str, expected: list[str]
) -> None:
    """As on its invoice, where it takes all of a line; and without a minus sign."""
    builders.tax_rate(audited)
    ledger = Ledger(audited, language=language)
    ledger.subscribe((ledger.price("10"), "2"))
    ledger.bill()
    clerk = Clerk(audited, ledger.account)

    clerk.credit(clerk.number(FIRST_DAY))

    note = document.load(
        audited,
        bucket=ledger.account.bucket,
        account_id=ledger.account.account_id,
        invoice_id=value(audited, "SELECT max(invoice_id) FROM pgbill.invoice"),
    )
    assert note is not None
    text = plain(rendering.render(note)[0])
    assert [each for each in expected if each not in text] == []
    assert " -" not in text
