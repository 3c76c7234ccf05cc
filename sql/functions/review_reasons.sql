-- Why an invoice is to be looked at by a person before it is issued, by the policy of its
-- run: {"above": {"EUR": "10000"}, "change_percent": "50", "first_invoice": true}.

CREATE OR REPLACE FUNCTION pgbill.review_reasons(
    p_review jsonb, p_currency text, p_gross_amount numeric, p_previous_gross_amount numeric
)
RETURNS text[]
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
SET search_path = ''
AS $$
    SELECT array_remove(
        ARRAY[
            CASE
                WHEN abs(p_gross_amount) > (p_review -> 'above' ->> p_currency)::numeric
                    THEN format(
                        '%s %s is above the limit of %s',
                        p_currency, p_gross_amount, p_review -> 'above' ->> p_currency
                    )
            END,
            CASE
                WHEN abs(p_gross_amount - p_previous_gross_amount) * 100
                    > (p_review ->> 'change_percent')::numeric * abs(p_previous_gross_amount)
                    THEN format(
                        '%s %s after %s is a change of more than %s %%',
                        p_currency, p_gross_amount, p_previous_gross_amount,
                        p_review ->> 'change_percent'
                    )
            END,
            CASE
                WHEN (p_review ->> 'first_invoice')::boolean AND p_previous_gross_amount IS NULL
                    THEN 'it is the first invoice of the account'
            END
        ],
        NULL
    );
$$;

COMMENT ON FUNCTION pgbill.review_reasons IS
'The reasons, as sentences, to hold an invoice of this amount back; empty: there is none. The '
'amount before is null for a first invoice.';
