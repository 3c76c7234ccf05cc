-- One row for each issued document, with its number, its parties and its state, for lists
-- and for people who query.

CREATE OR REPLACE VIEW pgbill.invoice_overview AS
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    account.key AS account_key,
    seller.key AS seller_key,
    invoice_number.number_text,
    invoice.kind,
    invoice.mode,
    invoice.period_start,
    invoice.period_end,
    invoice.revision,
    invoice.issued_on,
    invoice_number.issued_at,
    invoice.tax_point_on,
    invoice.payable_on,
    invoice.currency,
    invoice.net_amount,
    invoice.tax_amount,
    invoice.gross_amount,
    invoice.prepaid_amount,
    invoice.payable_amount,
    invoice.language,
    invoice.delivery_channel,
    invoice.recipients,
    invoice_cancellation.cancelled_at,
    invoice_cancellation.reason AS cancellation_reason,
    invoice_cancellation.credit_note_id,
    invoice.series_id,
    invoice_number.number,
    invoice.run_id,
    invoice.fencing_token,
    invoice.credited_invoice_id,
    invoice.reason,
    invoice.issued_by,
    invoice.buyer ->> 'legal_name' AS buyer_name,
    seller_snapshot.content ->> 'legal_name' AS seller_name,
    CASE
        WHEN invoice_cancellation.revision IS NULL THEN 'issued'
        ELSE 'cancelled'
    END AS state
FROM pgbill.invoice
INNER JOIN pgbill.account
    ON invoice.bucket = account.bucket AND invoice.account_id = account.account_id
LEFT JOIN pgbill.seller_snapshot
    ON invoice.seller_snapshot_id = seller_snapshot.seller_snapshot_id
LEFT JOIN pgbill.seller ON seller_snapshot.seller_id = seller.seller_id
LEFT JOIN pgbill.invoice_number
    ON
        invoice.bucket = invoice_number.bucket
        AND invoice.account_id = invoice_number.account_id
        AND invoice.invoice_id = invoice_number.invoice_id
        AND invoice.series_id = invoice_number.series_id
LEFT JOIN pgbill.invoice_cancellation
    ON
        invoice.bucket = invoice_cancellation.bucket
        AND invoice.account_id = invoice_cancellation.account_id
        AND invoice.period_end = invoice_cancellation.period_end
        AND invoice.revision = invoice_cancellation.revision;

COMMENT ON VIEW pgbill.invoice_overview IS
'Every issued invoice and credit note with its number, account, amounts and state.';
COMMENT ON COLUMN pgbill.invoice_overview.state IS
'issued, or cancelled by a credit note; the invoice itself never changes.';
COMMENT ON COLUMN pgbill.invoice_overview.buyer_name IS 'As printed: that of the time of issue.';
COMMENT ON COLUMN pgbill.invoice_overview.seller_name IS 'As printed: that of the time of issue.';
COMMENT ON COLUMN pgbill.invoice_overview.payable_amount IS
'Gross, less what prepaid credit has paid; below zero it is in the buyer''s favour.';
COMMENT ON COLUMN pgbill.invoice_overview.number_text IS
'Null only if P5 is broken: see pgbill_audit.p5_invoice_without_number.';
COMMENT ON COLUMN pgbill.invoice_overview.credited_invoice_id IS
'The invoice that it corrects, or null.';
COMMENT ON COLUMN pgbill.invoice_overview.issued_by IS
'The person who has issued it, for the reason; null: a run has.';
