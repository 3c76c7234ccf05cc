-- How much of an invoice its account's prepaid credit pays. The lease serialises whoever asks:
-- the same fence that keeps an invoice single keeps a credit from being spent twice.

CREATE OR REPLACE FUNCTION pgbill.prepaid_for(
    p_bucket integer, p_account_id bigint, p_issued_on date, p_gross_amount numeric
)
RETURNS numeric
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
BEGIN
    RETURN greatest(
        least(
            p_gross_amount,
            coalesce(
                (
                    SELECT sum(left_over.amount)
                    FROM pgbill.prepaid_left(p_bucket, p_account_id, p_issued_on) AS left_over
                ),
                0
            )
        ),
        0
    );
END;
$$;

COMMENT ON FUNCTION pgbill.prepaid_for IS
'The prepaid credit that is left, at most the gross amount, at least zero.';
