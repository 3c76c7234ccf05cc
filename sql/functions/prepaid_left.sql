-- What is left of each prepaid credit of an account.

CREATE OR REPLACE FUNCTION pgbill.prepaid_left(
    p_bucket integer, p_account_id bigint, p_issued_on date
)
RETURNS TABLE (prepaid_credit_id bigint, available_on date, amount numeric)
LANGUAGE sql
STABLE
PARALLEL SAFE
ROWS 1
AS $$
    SELECT
        prepaid_credit.prepaid_credit_id,
        prepaid_credit.available_on,
        prepaid_credit.amount - coalesce(
            (
                SELECT sum(credit_application.amount)
                FROM pgbill.credit_application
                WHERE credit_application.bucket = p_bucket
                    AND credit_application.account_id = p_account_id
                    AND credit_application.prepaid_credit_id = prepaid_credit.prepaid_credit_id
            ),
            0
        )
    FROM pgbill.prepaid_credit
    WHERE prepaid_credit.bucket = p_bucket
        AND prepaid_credit.account_id = p_account_id
        AND prepaid_credit.available_on <= p_issued_on;
$$;

COMMENT ON FUNCTION pgbill.prepaid_left IS
'The prepaid credits of an account that an invoice of a day may use, and what is left of '
'each; zero when it is spent.';
