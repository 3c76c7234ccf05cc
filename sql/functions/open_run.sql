-- Begin a run, or join the one that was asked the same and is not sealed: two cron jobs at
-- once, or the same command after a crash.

CREATE OR REPLACE FUNCTION pgbill.open_run(
    p_through_on date,
    p_issue_on date,
    p_mode text,
    p_account_key text,
    p_settings jsonb,
    p_started_by text,
    p_version text,
    p_hold_mail boolean DEFAULT FALSE
)
RETURNS TABLE (run_id bigint, is_joined boolean, holds_mail boolean)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_run_id bigint;
    v_holds_mail boolean;
BEGIN
    -- "By yesterday" of another day is another question.
    PERFORM pgbill.seal_run(stale.run_id, 'superseded')
    FROM pgbill.billing_run AS stale
    WHERE stale.sealed_at IS NULL
        AND stale.through_on IS NULL
        AND stale.started_at < clock_timestamp() - INTERVAL '18 hours'
        AND NOT EXISTS (
            SELECT FROM pgbill.lease
            WHERE lease.run_id = stale.run_id AND lease.expires_at > clock_timestamp()
        );

    LOOP
        INSERT INTO pgbill.billing_run (
            through_on, issue_on, mode, account_key, settings, started_by, pgbill_version,
            hold_mail
        )
        VALUES (
            p_through_on, p_issue_on, p_mode, p_account_key, p_settings, p_started_by, p_version,
            p_hold_mail
        )
        ON CONFLICT (through_on, issue_on, mode, account_key) WHERE sealed_at IS NULL DO NOTHING
        RETURNING billing_run.run_id INTO v_run_id;

        IF v_run_id IS NOT NULL THEN
            RETURN QUERY SELECT v_run_id, FALSE, p_hold_mail;
            RETURN;
        END IF;

        SELECT billing_run.run_id, billing_run.hold_mail INTO v_run_id, v_holds_mail
        FROM pgbill.billing_run
        WHERE billing_run.through_on IS NOT DISTINCT FROM p_through_on
            AND billing_run.issue_on IS NOT DISTINCT FROM p_issue_on
            AND billing_run.mode = p_mode
            AND billing_run.account_key IS NOT DISTINCT FROM p_account_key
            AND billing_run.sealed_at IS NULL;

        -- Not found: it was sealed between the two statements; begin a new one.
        IF found THEN
            RETURN QUERY SELECT v_run_id, TRUE, v_holds_mail;
            RETURN;
        END IF;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION pgbill.open_run IS
'Begin a run, or join the open one that was asked the same; whether that holds its mail was '
'decided when it began.';
