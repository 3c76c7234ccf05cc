-- An alert is not mailed again while it is unknown whether the mail that it is in was taken.

CREATE OR REPLACE FUNCTION pgbill.keep_in_digest()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT
        FROM pgbill.alert_digest_outcome AS outcome
        WHERE outcome.digest_id = OLD.digest_id AND outcome.outcome IN ('deferred', 'failed')
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV002',
            MESSAGE = format(
                'alert %s is in mail %s, which may have been taken', OLD.alert_id, OLD.digest_id
            ),
            HINT = 'It is not mailed again.';
    END IF;

    RETURN NEW;
END;
$$;

COMMENT ON FUNCTION pgbill.keep_in_digest IS
'Refuse to take an alert out of a mail that may have been taken (IV002).';

CREATE OR REPLACE TRIGGER _20_keep_in_digest
BEFORE UPDATE ON pgbill.alert
FOR EACH ROW
WHEN (old.digest_id IS NOT NULL AND old.digest_id IS DISTINCT FROM new.digest_id)
EXECUTE FUNCTION pgbill.keep_in_digest();
