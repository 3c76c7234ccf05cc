-- What a closing comes to: an invoice, nothing to bill, or lines that wait for the next one.
-- By the policy of the seller an invoice of zero may be left out, one below a minimum may
-- wait, and one below zero waits or becomes a credit note.

CREATE OR REPLACE FUNCTION pgbill.closing_outcome(
    p_draft pgbill.draft, p_currency text, p_digits integer
)
RETURNS text
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
DECLARE
    v_policy pgbill.policy;
    v_gross_amount numeric;
BEGIN
    IF p_draft.lines IS NULL THEN
        RETURN 'nothing_to_bill';
    END IF;

    SELECT policy.* INTO v_policy
    FROM pgbill.policy
    WHERE policy.policy_id = p_draft.policy_id;

    -- What nearly all have: whatever is not below zero is issued.
    IF v_policy.zero_invoice = 'issue' AND v_policy.minimum_invoice = '{}'
        AND NOT EXISTS (
            SELECT FROM unnest(p_draft.lines) AS line WHERE line.net_amount < 0
        )
    THEN
        RETURN 'invoiced';
    END IF;

    SELECT sum(tax.taxable_amount) + sum(tax.tax_amount) INTO v_gross_amount
    FROM pgbill.taxes_of(
        p_draft.lines, p_digits, v_policy.tax_rounding_scope, v_policy.tax_rounding
    ) AS tax;

    RETURN CASE
        WHEN v_gross_amount < 0
            THEN CASE v_policy.negative_total
                WHEN 'credit_note' THEN 'invoiced'
                ELSE 'carried_forward'
            END
        WHEN v_gross_amount = 0 AND v_policy.zero_invoice = 'skip'
            -- Lines that cancel out are something to tell, and go to the next invoice.
            THEN CASE
                WHEN EXISTS (
                    SELECT FROM unnest(p_draft.lines) AS line WHERE line.net_amount <> 0
                ) THEN 'carried_forward'
                ELSE 'nothing_to_bill'
            END
        WHEN v_gross_amount > 0
            AND v_gross_amount < (v_policy.minimum_invoice ->> p_currency)::numeric
            THEN 'carried_forward'
        ELSE 'invoiced'
    END;
END;
$$;

COMMENT ON FUNCTION pgbill.closing_outcome IS
'Whether a draft is to be invoiced, has nothing to bill, or is carried forward.';
