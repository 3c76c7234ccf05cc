-- Say why an invoice cannot be issued again, in one sentence for the clerk (IV007).

CREATE OR REPLACE FUNCTION pgbill.check_reissuable(
    p_bucket integer, p_account_id bigint, p_invoice_id bigint
)
RETURNS void
LANGUAGE plpgsql
STABLE
SET search_path = ''
AS $$
DECLARE
    v_problem text;
BEGIN
    SELECT CASE
        WHEN invoice.kind <> 'invoice'
            THEN format('%s is a credit note, which is not corrected', invoice.number_text)
        WHEN reissue.number_text IS NOT NULL
            THEN format(
                '%s was issued again as %s: correct that one', invoice.number_text,
                reissue.number_text
            )
        -- What was dropped cannot be billed again, and would silently be missing.
        WHEN EXISTS (
            SELECT
            FROM pgbill.invoice_line AS line
            INNER JOIN pgbill.usage_retention AS retention
                ON
                    retention.bucket = p_bucket
                    AND (retention.month_on::timestamp AT TIME ZONE 'UTC') < line.usage_until_at
                    AND line.usage_from_at
                    < ((retention.month_on + interval '1 month') AT TIME ZONE 'UTC')
            WHERE line.bucket = p_bucket
                AND line.account_id = p_account_id
                AND line.invoice_id = p_invoice_id
        ) THEN format(
            'usage that %s bills was dropped by pgbill retention: it can be credited, not issued'
            ' again', invoice.number_text
        )
    END
    INTO v_problem
    FROM pgbill.invoice_overview AS invoice
    LEFT JOIN pgbill.invoice_overview AS reissue
        ON
            invoice.bucket = reissue.bucket
            AND invoice.account_id = reissue.account_id
            AND invoice.period_end = reissue.period_end
            AND invoice.revision + 1 = reissue.revision
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id;

    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'IV007', MESSAGE = v_problem;
    END IF;
END;
$$;

COMMENT ON FUNCTION pgbill.check_reissuable IS
'Raise IV007 with a sentence if an invoice cannot be issued again.';
