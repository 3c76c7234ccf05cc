-- P4: an invoice carries a copy of its parties, so later edits never alter it.

CREATE OR REPLACE VIEW pgbill_audit.p4_snapshot_missing AS
SELECT
    invoice.bucket,
    invoice.account_id,
    invoice.invoice_id,
    invoice.seller_snapshot_id,
    CASE
        WHEN seller_snapshot.seller_id IS NULL THEN 'no copy of the seller'
        WHEN number_series.seller_id = seller_snapshot.seller_id THEN 'no copy of the buyer'
        ELSE 'the copy is of another seller than the series'
    END AS problem
FROM pgbill.invoice
LEFT JOIN pgbill.seller_snapshot
    ON invoice.seller_snapshot_id = seller_snapshot.seller_snapshot_id
LEFT JOIN pgbill.number_series ON invoice.series_id = number_series.series_id
WHERE number_series.seller_id IS DISTINCT FROM seller_snapshot.seller_id
    OR seller_snapshot.seller_id IS NULL
    OR invoice.buyer ->> 'legal_name' IS NULL
    OR invoice.buyer ->> 'country' IS NULL;

COMMENT ON VIEW pgbill_audit.p4_snapshot_missing IS
'An invoice has no copy of its seller or buyer, or that of another seller: printed '
'again, it would say something else than when it was issued.';
