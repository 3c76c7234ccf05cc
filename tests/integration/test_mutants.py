"""Each mechanism is needed: take it away, and exactly its promise breaks.

A row of the table is a mutant, a database without one guard, and what it lets through:
these forbidden things become possible, and no other. Where two rows let the same thing
through, both guards are needed for it. The forbidden things are those that the tests of
the promises try; P3 and P7 have their mutants beside their tests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from psycopg import Connection

from pgbill import roles
from tests.actors import connect
from tests.guards import (
    FENCED,
    Mutation,
    all_of,
    edited,
    without_index,
    without_key,
    without_trigger,
)
from tests.integration.test_credit_limit import (
    can_correct_what_a_worker_holds,
    can_credit_a_line_twice,
    can_credit_at_the_same_moment,
    can_credit_too_much,
    can_overtake_a_worker_before_its_commit,
)
from tests.integration.test_p1_once import (
    can_begin_twice,
    can_close_days_twice,
    can_invoice_a_period_twice,
    can_invoice_what_is_not_closed,
    can_invoice_without_a_period,
    can_leave_days_out,
    can_reissue_what_is_not_cancelled,
)
from tests.integration.test_p2_fence import (
    can_be_overtaken_before_the_commit,
    can_hold_an_account_twice,
    can_issue_with_the_token_of_another,
    can_reuse_a_token,
    can_take_what_another_holds,
    can_write_with_a_lost_lease,
)
from tests.integration.test_p4_frozen import (
    FROZEN,
    can_change_an_invoice,
    can_remove_a_line,
)
from tests.integration.test_p5_numbers import (
    can_date_back,
    can_give_a_number_twice,
    can_lose_a_number,
)
from tests.integration.test_p6_usage import (
    can_bill_usage_again,
    can_lose_the_usage_of_a_slow_import,
    can_lose_usage_between_rating_and_issue,
)
from tests.integration.test_p8_progress import (
    can_be_tried_again_by_the_same_run,
    can_kill_workers_for_ever,
    can_take_others_along,
)
from tests.integration.test_p10_story import can_be_claimed_in_silence
from tests.integration.test_prepaid_limit import (
    can_spend_a_credit_at_the_same_moment,
    can_spend_a_credit_twice,
)
from tests.shop import run_sql

pytestmark = pytest.mark.one_server

ALONE: dict[str, Callable[[Connection[Any]], bool]] = {
    "invoice a period twice": can_invoice_a_period_twice,
    "reissue what is not cancelled": can_reissue_what_is_not_cancelled,
    "invoice what is not closed": can_invoice_what_is_not_closed,
    "invoice without a period": can_invoice_without_a_period,
    "close days twice": can_close_days_twice,
    "begin twice": can_begin_twice,
    "leave days out": can_leave_days_out,
    "take what another holds": can_take_what_another_holds,
    "reuse a token": can_reuse_a_token,
    "issue with another's token": can_issue_with_the_token_of_another,
    "change an invoice": can_change_an_invoice,
    "remove a line": can_remove_a_line,
    "lose a number": can_lose_a_number,
    "give a number twice": can_give_a_number_twice,
    "lose usage after rating": can_lose_usage_between_rating_and_issue,
    "bill usage again": can_bill_usage_again,
    "take others along": can_take_others_along,
    "kill workers for ever": can_kill_workers_for_ever,
    "try again in the same run": can_be_tried_again_by_the_same_run,
    "claim in silence": can_be_claimed_in_silence,
    "spend a credit twice": can_spend_a_credit_twice,
    "credit too much": can_credit_too_much,
    "credit a line twice": can_credit_a_line_twice,
    "correct what a worker holds": can_correct_what_a_worker_holds,
    **{
        f"sleeper writes {table}": partial(can_write_with_a_lost_lease, table=table)
        for table in FENCED
    },
}
"""What one connection can try, in a transaction that is rolled back."""

TOGETHER: dict[str, Callable[[str], bool]] = {
    "overtake before the commit": can_be_overtaken_before_the_commit,
    "hold an account twice": can_hold_an_account_twice,
    "date back": can_date_back,
    "lose a slow import": can_lose_the_usage_of_a_slow_import,
    "spend a credit at the same moment": can_spend_a_credit_at_the_same_moment,
    "credit at the same moment": can_credit_at_the_same_moment,
    "overtake a worker by a clerk": can_overtake_a_worker_before_its_commit,
}
"""What needs several connections."""

NEWEST_WATERMARK = """
    (
        SELECT coalesce(max(import_seq), 0) FROM pgbill.usage_watermark AS newest
        WHERE newest.bucket = own.bucket
    ), p_run_id
"""


@dataclass(frozen=True)
class Mutant:
    """A guard that is taken away, and what that lets through."""

    guard: str
    mutation: Mutation
    lets_through: set[str]


MUTANTS = [
    Mutant("none", all_of(), set()),
    # P1
    Mutant(
        "one invoice for a period",
        without_key("invoice", "UNIQUE (bucket, account_id, period_end, revision)"),
        {"invoice a period twice"},
    ),
    Mutant(
        "a reissue has a cancellation",
        without_key(
            "invoice", "FOREIGN KEY (bucket, account_id, period_end, previous_revision)"
        ),
        {"reissue what is not cancelled"},
    ),
    Mutant(
        "an invoice has a closed period",
        without_key("invoice", "FOREIGN KEY (bucket, account_id, period_end) REF"),
        {"invoice what is not closed"},
    ),
    Mutant(
        "an invoice is for a period",
        without_key("invoice", "CHECK (((kind = 'credit_note'::text) OR"),
        {"invoice without a period"},
    ),
    Mutant(
        "a period follows another",
        without_key("billing_period", "FOREIGN KEY (bucket, account_id, period_start)"),
        {"leave days out"},
    ),
    Mutant(
        "only one period follows",
        without_index("billing_period_has_one_successor"),
        {"close days twice", "begin twice"},
    ),
    # P2
    Mutant(
        "the fence",
        without_trigger("_10_fence", *FENCED),
        {
            "overtake before the commit",
            "overtake a worker by a clerk",
            *(f"sleeper writes {table}" for table in FENCED),
        },
    ),
    Mutant(
        "the fence locks the lease",
        edited("fence", ("FOR KEY SHARE", "")),
        {"overtake before the commit", "overtake a worker by a clerk"},
    ),
    Mutant(
        "the claim locks for update",
        edited("claim", ("FOR UPDATE SKIP", "FOR NO KEY UPDATE SKIP")),
        {"overtake before the commit"},
    ),
    Mutant(
        "the claim locks before it updates",
        edited("claim", ("FOR UPDATE SKIP LOCKED", "")),
        {"overtake before the commit", "hold an account twice"},
    ),
    Mutant(
        "the claim asks whether a lease is over",
        edited("claim", ("AND lease.expires_at <= v_now", "")),
        {"take what another holds"},
    ),
    Mutant(
        "a token grows",
        edited("record_lease", ("IF found THEN", "IF FALSE THEN")),
        {"reuse a token"},
    ),
    Mutant(
        "issue compares the worker",
        edited("issue", ("AND lease.worker_id = p_worker_id", "")),
        {"issue with another's token"},
    ),
    # P4
    Mutant(
        "the freeze",
        without_trigger("_20_freeze", *FROZEN),
        {"change an invoice", "remove a line"},
    ),
    # P5
    Mutant(
        "a number comes from the row of its series",
        all_of(
            lambda conn: run_sql(conn, "CREATE SEQUENCE pgbill.mutant"),
            edited(
                "draw_numbers",
                (
                    "last_number = number_series.last_number + wanted.invoice_count",
                    "last_number = nextval('pgbill.mutant')",
                ),
            ),
        ),
        {"lose a number"},
    ),
    Mutant(
        "a date is compared with the last",
        edited(
            "draw_numbers",
            ("own.issued_on < number_series.last_issued_on", "FALSE"),
        ),
        {"date back"},
    ),
    Mutant(
        "the series is locked before it is compared",
        edited("draw_numbers", ("FOR NO KEY UPDATE", "")),
        {"date back"},
    ),
    Mutant(
        "a number is a key",
        without_key("invoice_number", "PRIMARY KEY"),
        {"give a number twice"},
    ),
    # P6; that imports queue is proved beside its test.
    Mutant(
        "a closing stores the watermark of its rating",
        edited(
            "issue",
            (
                "own.usage_seq, p_run_id",
                NEWEST_WATERMARK,
            ),
        ),
        {"lose usage after rating"},
    ),
    Mutant(
        "late usage begins after the last watermark",
        edited(
            "measured_parts",
            (
                "p_from_at, p_until_at, p_previous_seq, p_usage_seq ) AS late",
                "p_from_at, p_until_at, 0, p_usage_seq ) AS late",
            ),
        ),
        {"bill usage again"},
    ),
    # P8
    Mutant(
        "a suspect is claimed alone",
        edited("claim", ("v_account_ids := v_suspect_ids[1:1];", "NULL;")),
        {"take others along"},
    ),
    Mutant(
        "attempts have a cap",
        edited(
            "claim",
            ("claimable.attempts < p_max_attempts", "TRUE"),
            ("claimable.attempts >= p_max_attempts", "FALSE"),
        ),
        {"kill workers for ever"},
    ),
    Mutant(
        "a run leaves alone what has failed in it",
        edited(
            "claim", ("lease.failed_run_id IS DISTINCT FROM p_run_id OR", "true OR")
        ),
        {"try again in the same run"},
    ),
    # P10
    Mutant(
        "the trigger on the lease",
        without_trigger("_30_record_lease", "lease"),
        {"claim in silence", "reuse a token"},
    ),
    # Prepaid credit
    Mutant(
        "a credit has a limit",
        without_trigger("_20_limit_prepaid", "credit_application"),
        {"spend a credit twice", "spend a credit at the same moment"},
    ),
    Mutant(
        "whoever applies a credit locks it",
        edited("limit_prepaid", ("FOR NO KEY UPDATE OF prepaid_credit", "")),
        {"spend a credit at the same moment"},
    ),
    # Corrections
    Mutant(
        "an invoice has a limit",
        without_trigger("_20_limit_credit", "invoice"),
        {"credit too much", "credit at the same moment"},
    ),
    Mutant(
        "a line has a limit",
        without_trigger("_20_limit_line_credit", "invoice_line"),
        {"credit a line twice"},
    ),
    Mutant(
        "whoever credits an invoice locks it",
        edited("limit_credit", ("FOR NO KEY UPDATE OF invoice", "")),
        {"credit at the same moment"},
    ),
    Mutant(
        "a clerk asks whether a worker holds the account",
        edited(
            "claim_account", ("IF v_lease.worker_id IS NOT NULL AND", "IF FALSE AND")
        ),
        {"correct what a worker holds"},
    ),
    Mutant(
        "a clerk locks for update",
        edited("claim_account", ("FOR UPDATE;", "FOR NO KEY UPDATE;")),
        {"overtake a worker by a clerk"},
    ),
]


def _named(mutants: list[Mutant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "mutant", mutants, ids=[each.guard for each in mutants]
    )


@_named(MUTANTS)
def test_exactly_its_promise_breaks(conn: Connection[Any], mutant: Mutant) -> None:
    mutant.mutation(conn)

    possible = {name for name, can in ALONE.items() if _tried(conn, can)}

    assert possible == mutant.lets_through & ALONE.keys()


@_named([each for each in MUTANTS if each.lets_through & TOGETHER.keys()])
def test_exactly_its_promise_breaks_between_connections(
    dsn: str, mutant: Mutant
) -> None:
    with connect(dsn, roles.OWNER) as owner:
        mutant.mutation(owner)

    possible = {name for name, can in TOGETHER.items() if can(dsn)}

    assert possible == mutant.lets_through & TOGETHER.keys()


def _tried(conn: Connection[Any], can: Callable[[Connection[Any]], bool]) -> bool:
    with conn.transaction(force_rollback=True):
        return can(conn)
