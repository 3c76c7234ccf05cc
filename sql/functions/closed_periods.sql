-- Closed periods of accounts, as pgbill.open_periods tells open ones: what their invoice is
-- rated from when it is issued again. Account, seller and policies are those of today; the zone,
-- and what the closing had seen of the usage, are those of then.
-- Rare: not inlined, so that those who rate open periods do not carry its plan along.

CREATE OR REPLACE FUNCTION pgbill.closed_periods(
    p_buckets integer[], p_account_ids bigint[], p_period_ends date[]
)
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    language text,
    zone text,
    buyer_country text,
    buyer_status text,
    buyer_vat_id text,
    anchor_on date,
    billing_interval text,
    first_period_on date,
    seller_country text,
    policy_id integer,
    line_rounding text,
    proration text,
    credits_unused boolean,
    digits integer,
    period_end date,
    until_at timestamptz,
    period_start date,
    from_at timestamptz,
    has_kept_lines boolean,
    has_carried boolean,
    approved_on date,
    next_number integer,
    ending daterange,
    beginning daterange,
    previous_seq bigint,
    usage_seq bigint,
    late_from_at timestamptz,
    has_discounts boolean
)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
BEGIN
    RETURN QUERY
    SELECT
        account.bucket,
        account.account_id,
        account.language,
        closed.zone,
        account.country AS buyer_country,
        account.tax_status AS buyer_status,
        account.vat_id AS buyer_vat_id,
        account.anchor_on,
        account.billing_interval,
        account.first_period_on,
        seller.country AS seller_country,
        policy.policy_id,
        policy.line_rounding,
        policy.proration,
        policy.unused_advance = 'credit' AS credits_unused,
        currency.digits,
        closed.period_end,
        closed.period_end_at AS until_at,
        closed.period_start,
        coalesce(previous.period_end_at, closed.period_end_at) AS from_at,
        -- A closing without invoice may have kept its lines, and may have handed them on.
        coalesce(previous.outcome <> 'invoiced', FALSE) AS has_kept_lines,
        coalesce(previous.outcome = 'carried_forward', FALSE) AS has_carried,
        -- It was closed: nobody asks whether too many periods are due.
        'infinity'::date AS approved_on,
        next_boundary.number AS next_number,
        daterange(
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number - 2
            ),
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number - 1
            )
        ) AS ending,
        daterange(
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number - 1
            ),
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number
            )
        ) AS beginning,
        coalesce(previous.usage_seq, 0) AS previous_seq,
        closed.usage_seq,
        late.from_at AS late_from_at,
        EXISTS (
            SELECT
            FROM pgbill.discount
            WHERE discount.bucket = asked.bucket AND discount.account_id = asked.account_id
        ) AS has_discounts
    FROM unnest(p_buckets, p_account_ids, p_period_ends)
        AS asked (bucket, account_id, period_end)
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.billing_period AS closed
        ON
            asked.bucket = closed.bucket
            AND asked.account_id = closed.account_id
            AND asked.period_end = closed.period_end
    INNER JOIN pgbill.seller USING (seller_id)
    INNER JOIN pgbill.policy USING (policy_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    CROSS JOIN LATERAL (
        SELECT pgbill.boundary_number(
            account.anchor_on, account.billing_interval, closed.period_end
        )
        -- Counted once, though five expressions want it.
        OFFSET 0
    ) AS next_boundary (number)
    -- The first one, which is empty, has none before it.
    LEFT JOIN pgbill.billing_period AS previous
        ON
            closed.bucket = previous.bucket
            AND closed.account_id = previous.account_id
            AND closed.period_start = previous.period_end
            AND closed.period_start < closed.period_end
    LEFT JOIN LATERAL (
        SELECT min(usage_watermark.earliest_at) AS from_at
        FROM pgbill.usage_watermark
        WHERE usage_watermark.bucket = asked.bucket
            AND usage_watermark.import_seq > previous.usage_seq
            AND usage_watermark.import_seq <= closed.usage_seq
        HAVING min(usage_watermark.earliest_at) < previous.period_end_at
    ) AS late ON TRUE;
END;
$$;

COMMENT ON FUNCTION pgbill.closed_periods IS
'What rating starts from when the invoice of a closed period is issued again: the period as '
'it was closed, account and policies as they are.';
