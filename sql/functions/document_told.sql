-- What a correction tells its clerk of a document that it has written. Amounts are text: the
-- driver would make floats of them.

CREATE OR REPLACE FUNCTION pgbill.document_told(
    p_bucket integer, p_account_id bigint, p_invoice_id bigint
)
RETURNS jsonb
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT jsonb_build_object(
        'number', invoice_number.number_text,
        'kind', invoice.kind,
        'issued_on', invoice.issued_on,
        'currency', invoice.currency,
        'net_amount', invoice.net_amount::text,
        'tax_amount', invoice.tax_amount::text,
        'gross_amount', invoice.gross_amount::text,
        'prepaid_amount', invoice.prepaid_amount::text,
        'payable_amount', invoice.payable_amount::text,
        'lines', (
            SELECT
                jsonb_agg(
                    jsonb_build_object(
                        'line_no', line.line_no,
                        'credited_line_no', line.credited_line_no,
                        'description', line.description,
                        'net_amount', line.net_amount::text,
                        'tax_included_amount', line.tax_included_amount::text,
                        'tax_rate', line.tax_rate::text
                    )
                    ORDER BY line.line_no
                )
            FROM pgbill.invoice_line AS line
            WHERE line.bucket = p_bucket
                AND line.account_id = p_account_id
                AND line.invoice_id = p_invoice_id
        )
    )
    FROM pgbill.invoice
    LEFT JOIN pgbill.invoice_number USING (bucket, account_id, invoice_id)
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id;
$$;

COMMENT ON FUNCTION pgbill.document_told IS
'A document with its lines as JSON, its amounts as text; null: there is none.';
