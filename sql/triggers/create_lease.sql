-- Every account has a lease from its first moment, so that a claim finds it and a fence
-- can rely on it.

CREATE OR REPLACE FUNCTION pgbill.create_lease()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.lease (bucket, account_id, due_on, due_at)
    SELECT
        written.bucket,
        written.account_id,
        written.first_period_on,
        pgbill.local_midnight(written.first_period_on, written.zone)
    FROM written
    ON CONFLICT DO NOTHING;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.create_lease IS 'Give new accounts their lease, due on their first day.';

CREATE OR REPLACE TRIGGER _20_create_lease
AFTER INSERT ON pgbill.account
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.create_lease();
