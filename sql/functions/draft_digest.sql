-- What a reviewer sees of a draft, in short: what is billed, for when, for how much. Not the
-- watermark: imports for other accounts move it.

CREATE OR REPLACE FUNCTION pgbill.draft_digest(p_draft pgbill.draft)
RETURNS text
LANGUAGE sql
STABLE
PARALLEL SAFE
SET search_path = ''
AS $$
    SELECT encode(
        sha256(
            convert_to(
                jsonb_build_array(
                    p_draft.period_start,
                    p_draft.period_end,
                    p_draft.policy_id,
                    (
                        SELECT jsonb_agg(
                            jsonb_build_array(
                                line.kind, line.subscription_id, line.price_id, line.charge_id,
                                line.description, line.quantity, line.net_amount,
                                line.discount_amount, line.tax_category, line.tax_rate,
                                line.service_period
                            )
                            ORDER BY line.ordinality
                        )
                        FROM unnest(p_draft.lines) WITH ORDINALITY AS line
                    )
                )::text,
                'UTF8'
            )
        ),
        'hex'
    );
$$;

COMMENT ON FUNCTION pgbill.draft_digest IS
'A hash of what a draft bills: two drafts that bill the same have the same.';
