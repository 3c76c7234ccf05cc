-- Say what became of a mail about alerts. The first outcome counts. If the mail was not
-- taken, its alerts go into the next one.

CREATE OR REPLACE FUNCTION pgbill.record_digest(
    p_digest_id bigint,
    p_outcome text,
    p_reply_code integer,
    p_reply_text text,
    p_recorded_by text
)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.alert_digest_outcome (
        digest_id, outcome, reply_code, reply_text, recorded_by
    )
    VALUES (p_digest_id, p_outcome, p_reply_code, p_reply_text, p_recorded_by)
    ON CONFLICT DO NOTHING;

    IF NOT found THEN
        RETURN NULL;
    END IF;

    IF p_outcome <> 'accepted' THEN
        UPDATE pgbill.alert
        SET digest_id = NULL
        WHERE alert.digest_id = p_digest_id;
    END IF;

    RETURN p_outcome;
END;
$$;

COMMENT ON FUNCTION pgbill.record_digest IS
'Record accepted, deferred or failed for a mail about alerts; null: an earlier outcome counts.';
