-- End a run: its summary is kept as it was. Sealing twice changes nothing.

CREATE OR REPLACE FUNCTION pgbill.seal_run(p_run_id bigint, p_ending text)
RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_summary jsonb := pgbill.run_summary(p_run_id);
BEGIN
    UPDATE pgbill.billing_run
    SET
        sealed_at = v_now,
        ending = p_ending,
        summary = v_summary
    WHERE billing_run.run_id = p_run_id AND billing_run.sealed_at IS NULL;

    RETURN v_summary;
END;
$$;

COMMENT ON FUNCTION pgbill.seal_run IS 'End a run as finished or superseded and keep its summary.';
