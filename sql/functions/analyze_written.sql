-- Foreign-key checks and functions keep their plans for each connection; made while a table
-- was empty they are sequential scans. Fresh statistics from anywhere heal them at once.

CREATE OR REPLACE FUNCTION pgbill.analyze_written()
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    ANALYZE
        pgbill.billing_period,
        pgbill.invoice,
        pgbill.invoice_line,
        pgbill.invoice_tax,
        pgbill.invoice_number,
        pgbill.outbox_message;
END;
$$;

COMMENT ON FUNCTION pgbill.analyze_written IS
'Take statistics of what a run writes; called soon after its first commits.';
