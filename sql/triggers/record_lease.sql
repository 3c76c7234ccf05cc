-- Whatever changes a lease, its token grows and the change is told: claimed, expired,
-- released. Renewals in time are not told.
--
-- A lease has expired when its time was over before its holder was done, whether another
-- worker, a late renewal or a late release finds it, and when it is taken from a holder.

CREATE OR REPLACE FUNCTION pgbill.record_lease()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_refused record;
BEGIN
    SELECT after.account_id, after.fencing_token, before.fencing_token AS old_token
    INTO v_refused
    FROM after
    INNER JOIN before USING (bucket, account_id)
    WHERE after.fencing_token < before.fencing_token
        OR (
            after.fencing_token = before.fencing_token
            AND (
                after.worker_id IS DISTINCT FROM before.worker_id
                OR after.claimed_at IS DISTINCT FROM before.claimed_at
                OR after.due_on IS DISTINCT FROM before.due_on
            )
        )
    LIMIT 1;

    IF found THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV004',
            MESSAGE = format(
                'account %s: fencing token %s does not grow, the lease has %s',
                v_refused.account_id, v_refused.fencing_token, v_refused.old_token
            ),
            HINT = 'Draw a token from the sequence while the lease is locked.';
    END IF;

    INSERT INTO pgbill.lease_event (
        bucket, account_id, occurred_at, kind, fencing_token, holder, worker_id, run_id, due_on,
        outcome, detail, acted_by
    )
    SELECT
        told.bucket, told.account_id, v_now, told.kind, told.fencing_token, told.holder,
        told.worker_id, told.run_id, told.due_on, told.outcome, told.detail, told.acted_by
    FROM (
        SELECT
            1 AS rank, before.bucket, before.account_id, 'expired' AS kind, before.fencing_token,
            before.holder, before.worker_id, before.run_id, before.due_on,
            NULL AS outcome,
            CASE
                WHEN after.fencing_token = before.fencing_token THEN 'renewed too late'
                WHEN after.worker_id IS NULL AND after.outcome = 'revoked' THEN 'revoked'
                WHEN after.worker_id IS NULL AND after.outcome = 'parked' THEN 'parked'
                WHEN after.worker_id IS NULL THEN 'finished too late'
                ELSE format('taken over by %s with token %s', after.holder, after.fencing_token)
            END AS detail,
            NULL AS acted_by
        FROM after
        INNER JOIN before USING (bucket, account_id)
        WHERE before.worker_id IS NOT NULL
            AND (
                before.expires_at <= v_now
                OR (after.worker_id IS NOT NULL AND after.fencing_token > before.fencing_token)
            )
        UNION ALL
        SELECT
            2, after.bucket, after.account_id, 'claimed', after.fencing_token, after.holder,
            after.worker_id, after.run_id, after.due_on, NULL, NULL, NULL
        FROM after
        INNER JOIN before USING (bucket, account_id)
        WHERE after.worker_id IS NOT NULL AND after.fencing_token > before.fencing_token
        UNION ALL
        SELECT
            3, before.bucket, before.account_id, 'released',
            CASE WHEN before.worker_id IS NULL THEN after.fencing_token ELSE before.fencing_token END,
            before.holder, before.worker_id, before.run_id, before.due_on,
            CASE WHEN is_clerk.is_true THEN 'corrected' ELSE after.outcome END,
            CASE WHEN NOT is_clerk.is_true THEN after.detail END,
            CASE WHEN NOT is_clerk.is_true THEN after.acted_by END
        FROM after
        INNER JOIN before USING (bucket, account_id)
        -- A claim that is for no run is a clerk's, and leaves the outcome of the one before.
        CROSS JOIN LATERAL (
            SELECT before.worker_id IS NOT NULL AND before.run_id IS NULL
        ) AS is_clerk (is_true)
        WHERE after.worker_id IS NULL AND after.fencing_token > before.fencing_token
    ) AS told
    ORDER BY told.bucket, told.account_id, told.rank;

    -- One alert for a claim that went wrong, however often its holder renews too late.
    INSERT INTO pgbill.alert (
        bucket, raised_at, kind, account_id, fencing_token, run_id, summary
    )
    SELECT
        before.bucket,
        v_now,
        'lease_expired',
        before.account_id,
        before.fencing_token,
        after.run_id,
        format(
            'Account %s: %s (token %s) claimed it at %s and was not done when its lease expired'
            ' at %s, %s s later. %s See what held it up: pgbill explain %s.',
            account.key, before.holder, before.fencing_token,
            to_char(before.claimed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS"Z"'),
            to_char(before.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS"Z"'),
            round(extract(EPOCH FROM before.expires_at - before.claimed_at), 1),
            CASE
                WHEN after.fencing_token = before.fencing_token
                    THEN 'It has renewed it since, and goes on: nobody else had claimed it.'
                WHEN after.worker_id IS NOT NULL
                    THEN format(
                        '%s took over at %s (token %s); whatever %s still writes is refused.',
                        after.holder,
                        to_char(v_now AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS"Z"'),
                        after.fencing_token, before.holder
                    )
                WHEN after.outcome = 'revoked'
                    THEN format(
                        'It was taken away (%s); whatever %s still writes is refused.',
                        after.detail, before.holder
                    )
                WHEN after.outcome = 'parked' THEN 'Nobody took over: the account is parked.'
                ELSE format(
                    'It finished all the same, as %s, before anybody else had claimed it.',
                    after.outcome
                )
            END,
            account.key
        )
    FROM after
    INNER JOIN before USING (bucket, account_id)
    INNER JOIN pgbill.account USING (bucket, account_id)
    WHERE before.worker_id IS NOT NULL
        AND (
            before.expires_at <= v_now
            OR (after.worker_id IS NOT NULL AND after.fencing_token > before.fencing_token)
        )
    UNION ALL
    SELECT
        after.bucket,
        v_now,
        'account_parked',
        after.account_id,
        before.fencing_token,
        after.run_id,
        format(
            'Account %s is parked: no run takes it. The reason: %s. Mend that, then:'
            ' pgbill runs retry --account %s --reason TEXT.',
            account.key, coalesce(after.detail, 'none was given'), account.key
        )
    FROM after
    INNER JOIN before USING (bucket, account_id)
    INNER JOIN pgbill.account USING (bucket, account_id)
    -- Who has parked it by hand knows.
    WHERE after.parked_at IS NOT NULL AND before.parked_at IS NULL AND after.acted_by IS NULL
    ON CONFLICT DO NOTHING;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.record_lease IS
'Refuse a fencing token that does not grow (IV004), and write lease_event and alert.';

CREATE OR REPLACE TRIGGER _30_record_lease
AFTER UPDATE ON pgbill.lease
REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.record_lease();
