-- A run that is rolled back: its row is there so that the policy of its review is found. The
-- number is taken from no sequence, or real runs would have gaps; no other session has it.

CREATE OR REPLACE FUNCTION pgbill.begin_dry_run(p_settings jsonb, p_mode text)
RETURNS bigint
LANGUAGE sql
SECURITY DEFINER
SET search_path = ''
AS $$
    INSERT INTO pgbill.billing_run (
        run_id, mode, settings, started_by, pgbill_version, sealed_at, ending, summary
    )
    VALUES (
        -pg_backend_pid(), p_mode, p_settings, 'a dry run', 'none', clock_timestamp(),
        'finished', '{}'
    )
    RETURNING billing_run.run_id;
$$;

COMMENT ON FUNCTION pgbill.begin_dry_run IS
'Begin a run within a transaction that the caller rolls back; returns its id, below zero.';
