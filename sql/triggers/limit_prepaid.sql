-- A prepaid credit is spent once. An invoice applies what is left of it, and the fence lets
-- one worker at a time write for an account; this is the last guard, whatever code writes.

CREATE OR REPLACE FUNCTION pgbill.limit_prepaid()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_wrong record;
BEGIN
    -- Two transactions that apply the same credit meet here: the second waits, and sees what
    -- the first has applied.
    PERFORM
    FROM (
        SELECT DISTINCT every_row.bucket, every_row.account_id, every_row.prepaid_credit_id
        FROM written AS every_row
    ) AS touched
    INNER JOIN pgbill.prepaid_credit
        ON
            touched.bucket = prepaid_credit.bucket
            AND touched.account_id = prepaid_credit.account_id
            AND touched.prepaid_credit_id = prepaid_credit.prepaid_credit_id
    ORDER BY
        prepaid_credit.bucket, prepaid_credit.account_id, prepaid_credit.prepaid_credit_id
    FOR NO KEY UPDATE OF prepaid_credit;

    SELECT
        prepaid_credit.account_id,
        prepaid_credit.key,
        prepaid_credit.amount,
        used.amount AS applied_amount
    INTO v_wrong
    FROM (
        SELECT DISTINCT every_row.bucket, every_row.account_id, every_row.prepaid_credit_id
        FROM written AS every_row
    ) AS touched
    INNER JOIN pgbill.prepaid_credit
        ON
            touched.bucket = prepaid_credit.bucket
            AND touched.account_id = prepaid_credit.account_id
            AND touched.prepaid_credit_id = prepaid_credit.prepaid_credit_id
    CROSS JOIN LATERAL (
        SELECT sum(credit_application.amount) AS amount
        FROM pgbill.credit_application
        WHERE credit_application.bucket = touched.bucket
            AND credit_application.account_id = touched.account_id
            AND credit_application.prepaid_credit_id = touched.prepaid_credit_id
    ) AS used
    WHERE used.amount > prepaid_credit.amount OR used.amount < 0
    LIMIT 1;

    IF found THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV006',
            MESSAGE = format(
                'account %s: %s would be taken from prepaid credit %s, which has %s',
                v_wrong.account_id, v_wrong.applied_amount, v_wrong.key, v_wrong.amount
            ),
            HINT = 'Rate the account again: what is left of it has changed.';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.limit_prepaid IS
'Refuse to apply more of a prepaid credit than it has, or to give back more than was '
'taken (IV006).';

CREATE OR REPLACE TRIGGER _20_limit_prepaid
AFTER INSERT ON pgbill.credit_application
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.limit_prepaid();
