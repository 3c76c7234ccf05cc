-- Tell a relay where to look: one probe of the index for each bucket, most find nothing.

CREATE OR REPLACE FUNCTION pgbill.due_message_buckets(p_channels text[], p_mode text)
RETURNS TABLE (bucket integer)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT every_bucket.bucket
    FROM generate_series(0, 255) AS every_bucket (bucket)
    CROSS JOIN LATERAL (
        SELECT
        FROM pgbill.outbox_message
        WHERE outbox_message.bucket = every_bucket.bucket
            AND outbox_message.closed_at IS NULL
            AND outbox_message.due_at <= v_now
            AND outbox_message.expires_at <= v_now
            AND outbox_message.channel = ANY(p_channels)
            AND (
                p_mode IS NULL
                OR EXISTS (
                    SELECT
                    FROM pgbill.invoice
                    WHERE invoice.bucket = outbox_message.bucket
                        AND invoice.account_id = outbox_message.account_id
                        AND invoice.invoice_id = outbox_message.invoice_id
                        AND invoice.mode = p_mode
                )
            )
        LIMIT 1
    ) AS due;
END;
$$;

COMMENT ON FUNCTION pgbill.due_message_buckets IS
'The buckets in which messages are due and unclaimed; p_mode null: of invoices of '
'any mode.';
