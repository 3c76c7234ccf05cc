-- Note that a late write was refused, and that its worker has dropped the work. The refusal
-- has rolled the write back, so this is a statement of its own, after it.

CREATE OR REPLACE FUNCTION pgbill.record_refusal(
    p_bucket integer,
    p_account_id bigint,
    p_token bigint,
    p_holder text,
    p_worker_id uuid,
    p_run_id bigint,
    p_due_on date,
    p_detail text
)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    PERFORM pgbill.abandon(
        p_bucket, p_account_id, p_token, p_holder, p_worker_id, p_run_id, p_due_on, p_detail,
        FALSE
    );

    INSERT INTO pgbill.alert (bucket, kind, account_id, fencing_token, run_id, summary)
    SELECT
        p_bucket,
        'write_refused',
        p_account_id,
        p_token,
        p_run_id,
        format(
            'Account %s: a late write of %s (token %s) was refused: %s. Nothing of it is in the'
            ' database, and %s dropped the work. %s Nothing is to be done for the account.'
            ' If it happens often, see what makes workers stop: pgbill explain %s.',
            account.key, p_holder, p_token, p_detail, p_holder,
            coalesce(
                format('%s had claimed it at %s with token %s.',
                    successor.holder,
                    to_char(successor.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"'),
                    successor.fencing_token),
                'Its lease had been taken from it.'
            ),
            account.key
        )
    FROM pgbill.account
    LEFT JOIN LATERAL (
        SELECT lease_event.holder, lease_event.occurred_at, lease_event.fencing_token
        FROM pgbill.lease_event
        WHERE lease_event.bucket = p_bucket
            AND lease_event.account_id = p_account_id
            AND lease_event.kind = 'claimed'
            AND lease_event.fencing_token > p_token
        ORDER BY lease_event.lease_event_id
        LIMIT 1
    ) AS successor ON TRUE
    WHERE account.bucket = p_bucket AND account.account_id = p_account_id
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION pgbill.record_refusal IS
'Record that a late write was refused and its work dropped: the event, and an alert.';
