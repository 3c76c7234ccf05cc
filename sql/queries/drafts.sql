-- Drafts that runs have held back for review.

-- name: drafts
-- The largest first: who looks at the first few has seen most of the money.
SELECT
    held_draft.bucket,
    held_draft.account_id,
    held_draft.held_draft_id AS draft_id,
    account.key AS account_key,
    account.legal_name,
    held_draft.run_id,
    held_draft.period_start,
    held_draft.period_end,
    held_draft.held_at,
    held_draft.reasons,
    held_draft.currency,
    held_draft.net_amount,
    held_draft.tax_amount,
    held_draft.gross_amount,
    held_draft.previous_gross_amount,
    draft_decision.decision,
    draft_decision.decided_at,
    draft_decision.decided_by,
    draft_decision.reason
FROM pgbill.held_draft
INNER JOIN pgbill.account
    ON
        held_draft.bucket = account.bucket
        AND held_draft.account_id = account.account_id
LEFT JOIN pgbill.draft_decision
    ON
        held_draft.bucket = draft_decision.bucket
        AND held_draft.account_id = draft_decision.account_id
        AND held_draft.held_draft_id = draft_decision.held_draft_id
WHERE (:draft_id::bigint IS NULL OR held_draft.held_draft_id = :draft_id::bigint)
    AND (:run_id::bigint IS NULL OR held_draft.run_id = :run_id::bigint)
    AND (:with_decided::boolean OR draft_decision.decision IS NULL)
ORDER BY abs(held_draft.gross_amount) DESC, held_draft.held_draft_id
LIMIT :limit;

-- name: lines
SELECT
    line.description,
    lower(line.service_period) AS service_from,
    upper(line.service_period) - 1 AS service_through,
    line.quantity,
    line.unit_amount,
    line.net_amount,
    line.tax_category,
    line.tax_rate
FROM pgbill.held_draft
CROSS JOIN LATERAL jsonb_populate_recordset(
    NULL::pgbill.invoice_line, held_draft.draft -> 'lines'
) WITH ORDINALITY AS line
WHERE held_draft.bucket = :bucket
    AND held_draft.account_id = :account_id
    AND held_draft.held_draft_id = :draft_id
ORDER BY line.ordinality;

-- name: decide
SELECT pgbill.decide_draft(
    :bucket, :account_id, :draft_id, :decision, :reason, :by
) AS answer;

-- name: unknown_currency
SELECT given.currency
FROM unnest(:currencies::text[]) AS given (currency)
LEFT JOIN pgbill.currency USING (currency)
WHERE currency.digits IS NULL
ORDER BY given.currency
LIMIT 1;
