-- What rating starts from: the earliest open period of accounts, or closed ones whose invoices
-- are issued again, with all that it wants to know of the account, its seller and policies,
-- which are those of today.
--
-- A single SELECT without settings: it is inlined into pgbill.rate.

CREATE OR REPLACE FUNCTION pgbill.periods_to_rate(
    p_buckets integer[],
    p_account_ids bigint[],
    -- Closed periods, one for each account; null: the earliest open ones.
    p_period_ends date[]
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
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 50
AS $$
    SELECT
        account.bucket,
        account.account_id,
        account.language,
        period.zone,
        account.country,
        account.tax_status,
        account.vat_id,
        account.anchor_on,
        account.billing_interval,
        account.first_period_on,
        seller.country,
        policy.policy_id,
        policy.line_rounding,
        policy.proration,
        policy.unused_advance = 'credit',
        currency.digits,
        period.period_end,
        period.until_at,
        period.period_start,
        period.from_at,
        -- A closing without invoice may have kept its lines, and may have handed them on.
        coalesce(period.previous_outcome <> 'invoiced', FALSE),
        coalesce(period.previous_outcome = 'carried_forward', FALSE),
        period.approved_on,
        next_boundary.number,
        daterange(
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number - 2
            ),
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number - 1
            )
        ),
        daterange(
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number - 1
            ),
            pgbill.boundary(
                account.anchor_on, account.billing_interval, next_boundary.number
            )
        ),
        period.previous_seq,
        period.usage_seq,
        late.from_at,
        EXISTS (
            SELECT
            FROM pgbill.discount
            WHERE discount.bucket = account.bucket AND discount.account_id = account.account_id
        )
    FROM (
        SELECT
            open_period.bucket,
            open_period.account_id,
            open_period.zone,
            open_period.period_start,
            open_period.period_end,
            open_period.from_at,
            open_period.until_at,
            open_period.previous_outcome,
            open_period.previous_seq,
            open_period.usage_seq,
            open_period.approved_on
        FROM pgbill.open_periods(p_buckets, p_account_ids) AS open_period
        WHERE p_period_ends IS NULL
        UNION ALL
        SELECT
            closed_period.bucket,
            closed_period.account_id,
            closed_period.zone,
            closed_period.period_start,
            closed_period.period_end,
            closed_period.from_at,
            closed_period.until_at,
            closed_period.previous_outcome,
            closed_period.previous_seq,
            closed_period.usage_seq,
            closed_period.approved_on
        FROM pgbill.closed_periods(p_buckets, p_account_ids, p_period_ends) AS closed_period
        WHERE p_period_ends IS NOT NULL
    ) AS period
    INNER JOIN pgbill.account
        ON period.bucket = account.bucket AND period.account_id = account.account_id
    INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
    INNER JOIN pgbill.policy ON seller.policy_id = policy.policy_id
    INNER JOIN pgbill.currency ON account.currency = currency.currency
    CROSS JOIN LATERAL (
        SELECT pgbill.boundary_number(
            account.anchor_on, account.billing_interval, period.period_end
        )
        -- Counted once, though five expressions want it.
        OFFSET 0
    ) AS next_boundary (number)
    -- No usage that is late for this period lies before this time.
    LEFT JOIN LATERAL (
        SELECT min(usage_watermark.earliest_at) AS from_at
        FROM pgbill.usage_watermark
        WHERE usage_watermark.bucket = period.bucket
            AND usage_watermark.import_seq > period.previous_seq
            AND usage_watermark.import_seq <= period.usage_seq
        HAVING min(usage_watermark.earliest_at) < period.from_at
            -- Before the first closing nothing is late.
            AND period.previous_outcome IS NOT NULL
    ) AS late ON TRUE;
$$;

COMMENT ON FUNCTION pgbill.periods_to_rate IS
'The period of each account that is to be rated, the full periods that end and begin at its '
'boundary, how far usage was billed before, and what account, seller and policies say.';
