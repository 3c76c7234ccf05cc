-- The earliest open period of accounts, with all that rating wants to know of the account,
-- its seller and the closing before. The watermark is read here: in the one statement that
-- also reads the usage.
--
-- A single SELECT without settings: it is inlined into pgbill.rate.

CREATE OR REPLACE FUNCTION pgbill.open_periods(p_buckets integer[], p_account_ids bigint[])
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
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 50
AS $$
    SELECT
        account.bucket,
        account.account_id,
        account.language,
        account.zone,
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
        lease.due_on AS period_end,
        lease.due_at AS until_at,
        coalesce(previous.period_end, account.first_period_on) AS period_start,
        coalesce(previous.period_end_at, lease.due_at) AS from_at,
        -- A closing without invoice may have kept its lines, and may have handed them on.
        coalesce(previous.outcome <> 'invoiced', FALSE) AS has_kept_lines,
        coalesce(previous.outcome = 'carried_forward', FALSE) AS has_carried,
        lease.approved_on,
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
        coalesce(watermark.import_seq, 0) AS usage_seq,
        late.from_at AS late_from_at,
        EXISTS (
            SELECT
            FROM pgbill.discount
            WHERE discount.bucket = asked.bucket AND discount.account_id = asked.account_id
        ) AS has_discounts
    FROM unnest(p_buckets, p_account_ids) AS asked (bucket, account_id)
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.lease USING (bucket, account_id)
    INNER JOIN pgbill.seller USING (seller_id)
    INNER JOIN pgbill.policy USING (policy_id)
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    CROSS JOIN LATERAL (
        SELECT pgbill.boundary_number(
            account.anchor_on, account.billing_interval, lease.due_on
        )
        -- Counted once, though six expressions want it.
        OFFSET 0
    ) AS next_boundary (number)
    LEFT JOIN LATERAL (
        SELECT
            billing_period.period_end,
            billing_period.period_end_at,
            billing_period.outcome,
            billing_period.usage_seq
        FROM pgbill.billing_period
        WHERE billing_period.bucket = asked.bucket
            AND billing_period.account_id = asked.account_id
        ORDER BY billing_period.period_end DESC
        LIMIT 1
    ) AS previous ON TRUE
    LEFT JOIN LATERAL (
        SELECT usage_watermark.import_seq
        FROM pgbill.usage_watermark
        WHERE usage_watermark.bucket = asked.bucket
        ORDER BY usage_watermark.import_seq DESC
        LIMIT 1
    ) AS watermark ON TRUE
    -- No usage that is late for this period lies before this time.
    LEFT JOIN LATERAL (
        SELECT min(usage_watermark.earliest_at) AS from_at
        FROM pgbill.usage_watermark
        WHERE usage_watermark.bucket = asked.bucket
            AND usage_watermark.import_seq > previous.usage_seq
            AND usage_watermark.import_seq <= watermark.import_seq
        HAVING min(usage_watermark.earliest_at) < previous.period_end_at
    ) AS late ON TRUE;
$$;

COMMENT ON FUNCTION pgbill.open_periods IS
'What rating starts from: for each account its earliest open period, the full periods that '
'end and begin at its boundary, and how far usage was billed before.';
