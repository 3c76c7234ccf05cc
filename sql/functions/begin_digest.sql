-- Gather the alerts that are in no mail yet into one, so that a storm is one mail. It must
-- have committed before the first byte goes out: from then on its alerts are in no other
-- mail, unless this one turns out not to have been taken.

CREATE OR REPLACE FUNCTION pgbill.begin_digest(
    p_holder text, p_sent_to text, p_mode text, p_every interval
)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_buckets integer[];
    v_alert_ids bigint[];
    v_digest_id bigint;
BEGIN
    -- Relays side by side would each send a mail. What follows sees what the last one did.
    IF NOT pg_try_advisory_xact_lock('pgbill.alert_digest'::regclass::oid::bigint) THEN
        RETURN NULL;
    END IF;

    IF NOT pgbill.digest_is_due(p_mode, p_every) THEN
        RETURN NULL;
    END IF;

    SELECT array_agg(waiting.bucket), array_agg(waiting.alert_id)
    INTO v_buckets, v_alert_ids
    FROM pgbill.alert_not_mailed AS waiting
    WHERE p_mode IS NULL OR waiting.mode = p_mode;

    INSERT INTO pgbill.alert_digest (holder, sent_to, alert_count)
    VALUES (p_holder, p_sent_to, cardinality(v_alert_ids))
    RETURNING alert_digest.digest_id INTO v_digest_id;

    UPDATE pgbill.alert
    SET digest_id = v_digest_id
    FROM unnest(v_buckets, v_alert_ids) AS gathered (bucket, alert_id)
    WHERE alert.bucket = gathered.bucket AND alert.alert_id = gathered.alert_id;

    RETURN v_digest_id;
END;
$$;

COMMENT ON FUNCTION pgbill.begin_digest IS
'Begin a mail about all alerts that are in none, if one is due; null: send nothing. Call it '
'as a statement of its own.';
