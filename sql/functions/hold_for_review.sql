-- Between rating and issuing: hold back what the policy of the run wants a person to see. The
-- draft is kept, the lease released, and no run takes the account before somebody has decided.
-- A draft that bills the same as one that was approved goes on. What is not to be invoiced is
-- not held: there is nothing to review.

CREATE OR REPLACE FUNCTION pgbill.hold_for_review(
    p_buckets integer[],
    p_account_ids bigint[],
    p_tokens bigint[],
    p_drafts pgbill.draft[],
    p_run_id bigint
)
RETURNS TABLE (bucket integer, account_id bigint)
LANGUAGE plpgsql
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_review jsonb;
    v_held record;
    v_now timestamptz := clock_timestamp();
BEGIN
    SELECT billing_run.settings -> 'review' INTO v_review
    FROM pgbill.billing_run
    WHERE billing_run.run_id = p_run_id;

    -- Most runs hold nothing back.
    IF coalesce(v_review, 'null') = 'null' THEN
        RETURN;
    END IF;

    WITH wanted AS MATERIALIZED (
        SELECT
            asked.bucket,
            asked.account_id,
            asked.fencing_token,
            p_drafts[asked.position] AS draft,
            account.currency,
            total.net_amount,
            total.tax_amount,
            total.net_amount + total.tax_amount AS gross_amount,
            previous.gross_amount AS previous_gross_amount,
            pgbill.review_reasons(
                v_review, account.currency, total.net_amount + total.tax_amount,
                previous.gross_amount
            ) AS reasons,
            pgbill.draft_digest(p_drafts[asked.position]) AS digest
        FROM unnest(p_buckets, p_account_ids, p_tokens)
            WITH ORDINALITY AS asked (bucket, account_id, fencing_token, position)
        INNER JOIN pgbill.account
            ON asked.bucket = account.bucket AND asked.account_id = account.account_id
        INNER JOIN pgbill.currency ON account.currency = currency.currency
        INNER JOIN pgbill.policy ON (p_drafts[asked.position]).policy_id = policy.policy_id
        CROSS JOIN LATERAL (
            SELECT
                sum(tax.taxable_amount) AS net_amount,
                sum(tax.tax_amount) AS tax_amount
            FROM pgbill.taxes_of(
                (p_drafts[asked.position]).lines, currency.digits,
                policy.tax_rounding_scope, policy.tax_rounding
            ) AS tax
        ) AS total
        CROSS JOIN LATERAL (
            SELECT pgbill.previous_gross_amount(
                asked.bucket, asked.account_id, (p_drafts[asked.position]).period_end
            )
        ) AS previous (gross_amount)
        WHERE pgbill.closing_outcome(
            p_drafts[asked.position], account.currency, currency.digits
        ) = 'invoiced'
    ),

    known AS (
        SELECT
            wanted.bucket,
            wanted.account_id,
            bool_or(held_draft.digest = wanted.digest) AS is_approved
        FROM wanted
        INNER JOIN pgbill.held_draft
            ON
                wanted.bucket = held_draft.bucket
                AND wanted.account_id = held_draft.account_id
                AND (wanted.draft).period_end = held_draft.period_end
        INNER JOIN pgbill.draft_decision
            ON
                held_draft.bucket = draft_decision.bucket
                AND held_draft.account_id = draft_decision.account_id
                AND held_draft.held_draft_id = draft_decision.held_draft_id
        WHERE draft_decision.decision = 'approved'
        GROUP BY wanted.bucket, wanted.account_id
    ),

    ours AS MATERIALIZED (
        SELECT lease.bucket, lease.account_id
        FROM wanted
        LEFT JOIN known
            ON wanted.bucket = known.bucket AND wanted.account_id = known.account_id
        INNER JOIN pgbill.lease
            ON
                wanted.bucket = lease.bucket
                AND wanted.account_id = lease.account_id
                AND wanted.fencing_token = lease.fencing_token
        WHERE cardinality(wanted.reasons) > 0 AND known.is_approved IS NOT TRUE
        ORDER BY lease.bucket, lease.account_id
        FOR NO KEY UPDATE OF lease
    ),

    kept AS (
        INSERT INTO pgbill.held_draft (
            bucket, account_id, period_start, period_end, run_id, reasons, currency,
            net_amount, tax_amount, gross_amount, previous_gross_amount, draft, digest,
            fencing_token
        )
        SELECT
            wanted.bucket,
            wanted.account_id,
            (wanted.draft).period_start,
            (wanted.draft).period_end,
            p_run_id,
            CASE
                WHEN known.is_approved IS FALSE
                    THEN array_append(
                        wanted.reasons, 'it has changed since a draft of it was approved'
                    )
                ELSE wanted.reasons
            END,
            wanted.currency,
            wanted.net_amount,
            wanted.tax_amount,
            wanted.gross_amount,
            wanted.previous_gross_amount,
            to_jsonb(wanted.draft),
            wanted.digest,
            wanted.fencing_token
        FROM ours
        INNER JOIN wanted
            ON ours.bucket = wanted.bucket AND ours.account_id = wanted.account_id
        LEFT JOIN known
            ON wanted.bucket = known.bucket AND wanted.account_id = known.account_id
        RETURNING held_draft.bucket, held_draft.account_id, held_draft.reasons
    )

    SELECT
        array_agg(numbered.bucket) AS buckets,
        array_agg(numbered.account_id) AS account_ids,
        array_agg(numbered.detail) AS details,
        array_agg(numbered.fencing_token) AS tokens
    INTO v_held
    FROM (
        SELECT
            kept.bucket,
            kept.account_id,
            array_to_string(kept.reasons, '; ') AS detail,
            nextval('pgbill.fencing_token') AS fencing_token
        FROM kept
    ) AS numbered;

    UPDATE pgbill.lease
    SET
        fencing_token = released.fencing_token,
        holder = NULL,
        worker_id = NULL,
        claimed_at = NULL,
        expires_at = '-infinity',
        attempts = lease.attempts - 1,
        outcome = 'held',
        detail = released.detail,
        draft_at = v_now
    FROM unnest(v_held.buckets, v_held.account_ids, v_held.tokens, v_held.details)
        AS released (bucket, account_id, fencing_token, detail)
    WHERE lease.bucket = released.bucket AND lease.account_id = released.account_id;

    RETURN QUERY
    SELECT held.bucket, held.account_id
    FROM unnest(v_held.buckets, v_held.account_ids) AS held (bucket, account_id);
END;
$$;

COMMENT ON FUNCTION pgbill.hold_for_review IS
'Keep the drafts that the policy of the run wants reviewed, and release their leases as held; '
'returns whose. Part of issue.';
