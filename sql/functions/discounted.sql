-- Take the discounts of an account off its lines: those of a price first, then those of a
-- subscription, then those of all; among these by rank, then by key. Each counts on what the
-- ones before have left, for service that begins while it is active.
--
-- A percentage is taken of the sum, rounded once; an amount once for each billing period,
-- whichever invoice bills its lines, and never more than there is. Credits get no discount.

CREATE OR REPLACE FUNCTION pgbill.discounted(
    p_lines pgbill.invoice_line[],
    p_account pgbill.account,
    p_digits integer,
    p_rounding text
)
RETURNS pgbill.invoice_line[]
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_lines pgbill.invoice_line[] := p_lines;
    v_discount record;
    v_of_period record;
BEGIN
    FOR v_discount IN
        SELECT
            discount.key,
            discount.description,
            discount.percent,
            discount.amount,
            discount.subscription_id,
            discount.price_id,
            discount.active_period * daterange(
                NULL,
                pgbill.boundary(
                    p_account.anchor_on,
                    p_account.billing_interval,
                    pgbill.boundary_number(
                        p_account.anchor_on,
                        p_account.billing_interval,
                        lower(discount.active_period)
                    ) - 1 + discount.period_count
                )
            ) AS active_period
        FROM pgbill.discount
        WHERE discount.bucket = p_account.bucket AND discount.account_id = p_account.account_id
        ORDER BY
            discount.price_id IS NULL, discount.subscription_id IS NULL, discount.rank, discount.key
    LOOP
        FOR v_of_period IN
            SELECT
                period.number,
                array_agg(line.ordinality::integer ORDER BY line.ordinality) AS places,
                sum(coalesce(line.tax_included_amount, line.net_amount)) AS amount
            FROM unnest(v_lines) WITH ORDINALITY AS line
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN v_discount.amount IS NOT NULL
                        THEN pgbill.boundary_number(
                            p_account.anchor_on, p_account.billing_interval,
                            lower(line.service_period)
                        )
                END
            ) AS period (number)
            WHERE coalesce(line.tax_included_amount, line.net_amount) > 0
                AND lower(line.service_period) <@ v_discount.active_period
                AND (
                    v_discount.subscription_id IS NULL
                    OR line.subscription_id = v_discount.subscription_id
                )
                AND (v_discount.price_id IS NULL OR line.price_id = v_discount.price_id)
            GROUP BY period.number
            ORDER BY period.number
        LOOP
            v_lines := pgbill.take_off(
                v_lines,
                v_of_period.places,
                CASE
                    WHEN v_discount.percent IS NOT NULL
                        THEN pgbill.rounded(
                            v_of_period.amount * v_discount.percent, 100, p_digits, p_rounding
                        )
                    ELSE least(
                        v_of_period.amount,
                        v_discount.amount - pgbill.discount_used(
                            p_account, v_discount.key, v_of_period.number, p_lines, p_digits
                        )
                    )
                END,
                v_discount.key,
                v_discount.description,
                p_digits
            );
        END LOOP;
    END LOOP;

    RETURN v_lines;
END;
$$;

COMMENT ON FUNCTION pgbill.discounted IS 'Lines with the discounts of their account taken off.';
