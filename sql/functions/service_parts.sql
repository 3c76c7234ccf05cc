-- What a closing bills of a price of a subscription: for which days, and why now. A single
-- SELECT without settings: it is inlined into pgbill.rate, and only the branches run that
-- a price has.
--
-- whole_period is what a flat amount is for; service_period is the part of it in which the
-- subscription has the price.

CREATE OR REPLACE FUNCTION pgbill.service_parts(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_price_id integer,
    p_meter_id integer,
    p_model text,
    p_timing text,
    p_active_period daterange,
    p_billing_interval text,
    -- The price's own interval, where that is longer than the account's; else null.
    p_longer_interval text,
    p_anchor_on date,
    p_first_period_on date,
    p_zone text,
    -- The period that ends, the whole of it (the first one may be cut), and the next.
    p_period_start date,
    p_period_end date,
    p_ending daterange,
    p_beginning daterange,
    p_from_at timestamptz,
    p_until_at timestamptz,
    -- Late usage lies between these; null: there is none.
    p_late_from_at timestamptz,
    -- Whether the closing before issued no invoice, so that its lines are kept elsewhere.
    p_has_kept_lines boolean
)
RETURNS TABLE (
    rank integer,
    kind text,
    service_period daterange,
    whole_period daterange,
    from_at timestamptz,
    until_at timestamptz
)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
    -- In advance the period that begins now; in arrears, and of usage, the one that ends.
    SELECT
        CASE
            WHEN p_timing = 'advance' THEN 1
            WHEN p_meter_id IS NOT NULL THEN 4
            WHEN p_model IN ('minimum', 'maximum') THEN 6
            ELSE 3
        END,
        CASE
            WHEN p_timing = 'advance' THEN 'advance'
            WHEN p_meter_id IS NOT NULL THEN 'usage'
            -- What a subscription is to bring at least or at most.
            WHEN p_model IN ('minimum', 'maximum') THEN p_model
            ELSE 'arrears'
        END,
        p_active_period * billed.days,
        CASE WHEN p_timing = 'advance' THEN p_beginning ELSE p_ending END,
        CASE
            WHEN p_meter_id IS NOT NULL
                THEN pgbill.instant_within(
                    lower(p_active_period), p_zone, p_period_start, p_period_end, p_from_at,
                    p_until_at
                )
        END,
        CASE
            WHEN p_meter_id IS NOT NULL
                THEN pgbill.instant_within(
                    upper(p_active_period), p_zone, p_period_start, p_period_end, p_from_at,
                    p_until_at
                )
        END
    FROM (
        SELECT
            CASE
                WHEN p_timing = 'advance' THEN daterange(p_period_end, upper(p_beginning))
                ELSE daterange(p_period_start, p_period_end)
            END AS days
    ) AS billed
    WHERE p_longer_interval IS NULL AND p_active_period && billed.days
    UNION ALL
    -- In advance, but the boundary before did not bill it: it was not there yet.
    SELECT
        2,
        'advance',
        p_active_period * daterange(p_period_start, p_period_end),
        p_ending,
        NULL,
        NULL
    WHERE p_timing = 'advance'
        AND p_longer_interval IS NULL
        AND p_active_period && daterange(p_period_start, p_period_end)
        AND NOT pgbill.is_billed_in_advance(
            p_bucket, p_account_id, p_subscription_id, p_price_id, p_period_start, p_has_kept_lines,
            greatest(lower(p_active_period), p_period_start)
        )
    UNION ALL
    -- Periods longer than the account's: at the boundary where they begin, or end.
    SELECT
        CASE
            WHEN p_timing = 'advance' THEN 1
            WHEN p_model IN ('minimum', 'maximum') THEN 6
            ELSE 3
        END,
        CASE
            WHEN p_timing = 'advance' THEN 'advance'
            WHEN p_model IN ('minimum', 'maximum') THEN p_model
            ELSE 'arrears'
        END,
        own.service_period,
        own.whole_period,
        NULL,
        NULL
    FROM pgbill.periods_between(
        p_anchor_on, p_longer_interval, p_period_start, upper(p_beginning)
    ) AS period
    CROSS JOIN LATERAL (
        SELECT
            period.whole_period * p_active_period * daterange(p_first_period_on, NULL)
                AS service_period,
            period.whole_period
    ) AS own
    WHERE p_longer_interval IS NOT NULL
        AND NOT isempty(own.service_period)
        AND CASE
            WHEN p_timing = 'arrears'
                THEN upper(own.service_period) > p_period_start
                AND upper(own.service_period) <= p_period_end
            WHEN lower(own.service_period) >= p_period_end
                THEN lower(own.service_period) < upper(p_beginning)
            ELSE lower(own.service_period) >= p_period_start
                AND NOT pgbill.is_billed_in_advance(
                    p_bucket, p_account_id, p_subscription_id, p_price_id, p_period_start,
                    p_has_kept_lines, lower(own.service_period)
                )
        END
    UNION ALL
    -- Closed periods of which usage was imported after they were closed: the usage of each, and
    -- the limits of a subscription, since what is late counts within them.
    SELECT
        CASE WHEN p_meter_id IS NULL THEN 6 ELSE 5 END,
        CASE WHEN p_meter_id IS NULL THEN p_model ELSE 'late_usage' END,
        p_active_period * daterange(closed.period_start, closed.period_end),
        -- The first period may be cut: it is a part of this one.
        daterange(
            pgbill.boundary(p_anchor_on, p_billing_interval, ending.number - 1),
            pgbill.boundary(p_anchor_on, p_billing_interval, ending.number)
        ),
        CASE
            WHEN p_meter_id IS NOT NULL
                THEN pgbill.instant_within(
                    lower(p_active_period), closed.zone, closed.period_start, closed.period_end,
                    begun.period_end_at, closed.period_end_at
                )
        END,
        CASE
            WHEN p_meter_id IS NOT NULL
                THEN pgbill.instant_within(
                    upper(p_active_period), closed.zone, closed.period_start, closed.period_end,
                    begun.period_end_at, closed.period_end_at
                )
        END
    FROM pgbill.billing_period AS closed
    INNER JOIN pgbill.billing_period AS begun
        ON
            closed.bucket = begun.bucket
            AND closed.account_id = begun.account_id
            AND closed.period_start = begun.period_end
    CROSS JOIN LATERAL (
        SELECT pgbill.boundary_number(p_anchor_on, p_billing_interval, closed.period_end - 1)
    ) AS ending (number)
    WHERE (
            p_meter_id IS NOT NULL
            OR p_model IN ('minimum', 'maximum') AND p_longer_interval IS NULL
        )
        AND p_late_from_at IS NOT NULL
        AND closed.bucket = p_bucket
        AND closed.account_id = p_account_id
        -- A period that is issued again has later ones, which are no business of its.
        AND closed.period_end <= p_period_start
        AND closed.period_end_at > p_late_from_at
        AND closed.period_start < closed.period_end
        AND p_active_period && daterange(closed.period_start, closed.period_end);
$$;

COMMENT ON FUNCTION pgbill.service_parts IS
'The service periods of a subscription''s price that a closing bills, each with the times '
'between which its usage lies.';
