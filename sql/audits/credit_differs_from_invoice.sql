-- The credit notes of an invoice take back what it has and no more; all of it, to the cent, if
-- it is cancelled.

CREATE OR REPLACE VIEW pgbill_audit.credit_differs_from_invoice AS
WITH credited AS (
    SELECT
        invoice.bucket,
        invoice.account_id,
        invoice.invoice_id,
        invoice.kind,
        invoice.gross_amount,
        invoice.net_amount + sum(coalesce(note.net_amount, 0)) AS net_left,
        invoice.tax_amount + sum(coalesce(note.tax_amount, 0)) AS tax_left,
        invoice.gross_amount + sum(coalesce(note.gross_amount, 0)) AS gross_left,
        invoice.prepaid_amount + sum(coalesce(note.prepaid_amount, 0)) AS prepaid_left,
        count(note.invoice_id) AS note_count,
        bool_or(invoice_cancellation.revision IS NOT NULL) AS is_cancelled
    FROM pgbill.invoice
    LEFT JOIN pgbill.invoice AS note
        ON
            invoice.bucket = note.bucket
            AND invoice.account_id = note.account_id
            AND invoice.invoice_id = note.credited_invoice_id
    LEFT JOIN pgbill.invoice_cancellation
        ON
            invoice.bucket = invoice_cancellation.bucket
            AND invoice.account_id = invoice_cancellation.account_id
            AND invoice.period_end = invoice_cancellation.period_end
            AND invoice.revision = invoice_cancellation.revision
    WHERE note.invoice_id IS NOT NULL OR invoice_cancellation.revision IS NOT NULL
    GROUP BY
        invoice.bucket, invoice.account_id, invoice.invoice_id, invoice.kind,
        invoice.net_amount, invoice.tax_amount, invoice.gross_amount, invoice.prepaid_amount
)

SELECT
    credited.bucket,
    credited.account_id,
    credited.invoice_id,
    credited.gross_amount,
    credited.net_left,
    credited.tax_left,
    credited.gross_left,
    credited.prepaid_left,
    CASE
        WHEN credited.kind <> 'invoice' THEN 'a credit note is credited'
        WHEN credited.gross_left < 0 OR credited.prepaid_left < 0
            THEN 'more is credited than it has'
        ELSE 'it is cancelled, and its credit notes are not exactly it'
    END AS problem
FROM credited
WHERE credited.kind <> 'invoice'
    OR credited.gross_left < 0
    OR credited.prepaid_left < 0
    OR credited.is_cancelled
    AND (
        credited.net_left <> 0
        OR credited.tax_left <> 0
        OR credited.gross_left <> 0
        OR credited.prepaid_left <> 0
    )
UNION ALL
SELECT
    line.bucket,
    line.account_id,
    line.invoice_id,
    line.net_amount,
    line.net_amount + sum(credit.net_amount),
    NULL,
    NULL,
    NULL,
    format('line %s: more is credited than it has', line.line_no)
FROM pgbill.invoice_line AS credit
INNER JOIN pgbill.invoice_line AS line
    ON
        credit.bucket = line.bucket
        AND credit.account_id = line.account_id
        AND credit.credited_invoice_id = line.invoice_id
        AND credit.credited_line_no = line.line_no
WHERE credit.kind = 'credit'
GROUP BY line.bucket, line.account_id, line.invoice_id, line.line_no, line.net_amount
HAVING -sum(credit.net_amount)
    NOT BETWEEN least(line.net_amount, 0) AND greatest(line.net_amount, 0);

COMMENT ON VIEW pgbill_audit.credit_differs_from_invoice IS
'Credit notes take back more than their invoice, or one of its lines, has; or an invoice is '
'cancelled, and they are not exactly all of it.';
