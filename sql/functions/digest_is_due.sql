-- Alerts wait for a mail, and the last one was long enough ago. One that was deferred is
-- followed by another soon; its alerts are in none.

CREATE OR REPLACE FUNCTION pgbill.digest_is_due(p_mode text, p_every interval)
RETURNS boolean
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_next_at timestamptz;
BEGIN
    SELECT
        newest.begun_at
        + CASE outcome.outcome
            WHEN 'deferred' THEN least(p_every, interval '5 minutes')
            ELSE p_every
        END
    INTO v_next_at
    FROM pgbill.alert_digest AS newest
    LEFT JOIN pgbill.alert_digest_outcome AS outcome ON newest.digest_id = outcome.digest_id
    ORDER BY newest.digest_id DESC
    LIMIT 1;

    RETURN coalesce(v_next_at <= clock_timestamp(), TRUE)
        AND EXISTS (
            SELECT
            FROM pgbill.alert_not_mailed AS waiting
            WHERE p_mode IS NULL OR waiting.mode = p_mode
        );
END;
$$;

COMMENT ON FUNCTION pgbill.digest_is_due IS
'Tell whether alerts of a mode (null: any) wait for a mail, and none was begun in the last '
'p_every.';
