-- Rate accounts whose tax a service is asked for: a draft without tax, the question, and the
-- answer if the same question was answered before. The caller asks outside any transaction.
--
-- What is billed again is asked again, even if the question reads the same: its answer may be
-- what is to be put right. So the revision goes into the hash, but not into what is asked.

CREATE OR REPLACE FUNCTION pgbill.rate_and_question(
    p_buckets integer[],
    p_account_ids bigint[],
    p_through_on date,
    p_max_due_periods integer,
    -- Closed periods, one for each account; null: the earliest open ones.
    p_period_ends date[] DEFAULT NULL
)
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    outcome text,
    problem text,
    draft jsonb,
    period_end date,
    account_key text,
    question jsonb,
    question_hash text,
    answer jsonb
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    RETURN QUERY
    SELECT
        rated.bucket,
        rated.account_id,
        rated.outcome,
        rated.problem,
        to_jsonb(rated.draft),
        (rated.draft).period_end,
        account.key,
        asked.question,
        hashed.question_hash,
        tax_answer.answer
    FROM pgbill.rate(
        p_buckets, p_account_ids, p_through_on, p_max_due_periods, FALSE, p_period_ends
    ) AS rated
    INNER JOIN pgbill.account
        ON rated.bucket = account.bucket AND rated.account_id = account.account_id
    INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
    -- Left joins: what has no line needs no tax, and is closed all the same.
    LEFT JOIN LATERAL (
        SELECT
            jsonb_build_object(
                'currency', account.currency,
                'seller', jsonb_build_object(
                    'country', seller.country, 'region', seller.region, 'vat_id', seller.vat_id
                ),
                'buyer', jsonb_build_object(
                    'country', account.country,
                    'region', account.region,
                    'postal_code', account.postal_code,
                    'city', account.city,
                    'tax_status', account.tax_status,
                    'vat_id', account.vat_id
                ),
                'lines', jsonb_agg(
                    jsonb_build_object(
                        'line_no', line.ordinality,
                        'tax_class', coalesce(price.tax_class, charge.tax_class),
                        'net_amount', line.net_amount::text,
                        'service_on', upper(line.service_period) - 1
                    ) || CASE
                        WHEN line.tax_included_amount IS NULL THEN '{}'::jsonb
                        ELSE '{"tax_included": true}'
                    END
                    ORDER BY line.ordinality
                )
            ) AS question
        FROM unnest((rated.draft).lines) WITH ORDINALITY AS line
        LEFT JOIN pgbill.price ON line.price_id = price.price_id
        LEFT JOIN pgbill.charge
            ON
                rated.bucket = charge.bucket
                AND rated.account_id = charge.account_id
                AND line.charge_id = charge.charge_id
        HAVING count(*) > 0
    ) AS asked ON TRUE
    CROSS JOIN LATERAL (
        SELECT
            encode(
                sha256(convert_to(asked.question::text || again.revision_text, 'UTF8')), 'hex'
            ) AS question_hash
        FROM (
            SELECT
                coalesce(
                    (
                        SELECT format(' revision %s', max(invoice.revision) + 1)
                        FROM pgbill.invoice
                        WHERE p_period_ends IS NOT NULL
                            AND rated.bucket = invoice.bucket
                            AND rated.account_id = invoice.account_id
                            AND (rated.draft).period_end = invoice.period_end
                        HAVING max(invoice.revision) IS NOT NULL
                    ),
                    ''
                ) AS revision_text
        ) AS again
    ) AS hashed
    LEFT JOIN pgbill.tax_answer
        ON
            rated.bucket = tax_answer.bucket
            AND rated.account_id = tax_answer.account_id
            AND (rated.draft).period_end = tax_answer.period_end
            AND hashed.question_hash = tax_answer.question_hash;
END;
$$;

COMMENT ON FUNCTION pgbill.rate_and_question IS
'Drafts without tax, what a tax service is to be asked of each, and the answer that is known.';
