-- Whether the closing at a boundary has billed an advance fee that begins on a day: on its
-- invoice, or, if it issued none, on the lines that it kept. A fee that was billed for a
-- segment that ends on that day is another one.

CREATE OR REPLACE FUNCTION pgbill.is_billed_in_advance(
    p_bucket integer,
    p_account_id bigint,
    p_subscription_id bigint,
    p_price_id integer,
    p_boundary_on date,
    p_has_kept_lines boolean,
    p_service_on date
)
RETURNS boolean
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT
        FROM pgbill.invoice
        INNER JOIN pgbill.invoice_line USING (bucket, account_id, invoice_id)
        WHERE invoice.bucket = p_bucket
            AND invoice.account_id = p_account_id
            AND invoice.period_end = p_boundary_on
            AND invoice_line.subscription_id = p_subscription_id
            AND invoice_line.price_id = p_price_id
            AND invoice_line.kind = 'advance'
            AND lower(invoice_line.service_period) = p_service_on
            AND pgbill.billed_segment(
                p_bucket, p_account_id, p_subscription_id, p_price_id, p_service_on,
                invoice_line.quantity
            ) @> p_service_on
            -- Issued again, what the newest revision says counts.
            AND NOT EXISTS (
                SELECT
                FROM pgbill.invoice AS reissue
                WHERE reissue.bucket = p_bucket
                    AND reissue.account_id = p_account_id
                    AND reissue.period_end = p_boundary_on
                    AND reissue.revision = invoice.revision + 1
            )
    ) OR p_has_kept_lines AND EXISTS (
        SELECT
        FROM pgbill.carried_line
        CROSS JOIN LATERAL
            jsonb_populate_record(NULL::pgbill.invoice_line, carried_line.line) AS line
        WHERE carried_line.bucket = p_bucket
            AND carried_line.account_id = p_account_id
            AND carried_line.period_end = p_boundary_on
            AND line.subscription_id = p_subscription_id
            AND line.price_id = p_price_id
            AND line.kind = 'advance'
            AND lower(line.service_period) = p_service_on
            AND pgbill.billed_segment(
                p_bucket, p_account_id, p_subscription_id, p_price_id, p_service_on,
                line.quantity
            ) @> p_service_on
    );
END;
$$;

COMMENT ON FUNCTION pgbill.is_billed_in_advance IS
'Whether the closing at a boundary billed a price in advance from that day on.';
