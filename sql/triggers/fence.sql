-- A worker that has lost its lease must not write, even if it has not noticed yet. The
-- tables below are all that workers write for an account.

CREATE OR REPLACE FUNCTION pgbill.fence()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_stale record;
BEGIN
    -- KEY SHARE keeps the answer true until we commit: a claim locks the lease FOR UPDATE,
    -- so until then it passes the account by. It does not get in the way of a renewal.
    SELECT written.account_id, written.fencing_token INTO v_stale
    FROM (
        SELECT DISTINCT every_row.bucket, every_row.account_id, every_row.fencing_token
        FROM written AS every_row
    ) AS written
    WHERE NOT EXISTS (
        SELECT FROM pgbill.lease
        WHERE lease.bucket = written.bucket
            AND lease.account_id = written.account_id
            AND lease.fencing_token = written.fencing_token
        FOR KEY SHARE
    )
    LIMIT 1;

    IF found THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV001',
            MESSAGE = format(
                'account %s: fencing token %s is not the newest',
                v_stale.account_id, v_stale.fencing_token
            ),
            HINT = 'Another worker has claimed the account. Drop this work.';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.fence IS
'Refuse rows whose fencing token is not the newest of their account (IV001).';

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.billing_period
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.invoice
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.invoice_line
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.invoice_tax
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.invoice_cancellation
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.tax_answer
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.carried_line
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.credit_application
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();

CREATE OR REPLACE TRIGGER _10_fence
AFTER INSERT ON pgbill.held_draft
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.fence();
