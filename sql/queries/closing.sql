-- How a month is closed.

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_invoices
-- Waits for whoever is issuing; who comes later finds the month closed.
LOCK TABLE pgbill.invoice IN SHARE MODE;

-- name: look
SELECT
    (
        SELECT max(closed_month.month_on) FROM pgbill.closed_month
    ) AS last_on,
    -- Over everywhere: it is the same month for all sellers.
    (
        SELECT min((clock_timestamp() AT TIME ZONE seller.zone)::date)
        FROM pgbill.seller
    ) AS today,
    (
        SELECT min(billing_run.run_id)
        FROM pgbill.billing_run
        WHERE billing_run.sealed_at IS NULL
            AND billing_run.issue_on < :month_on::date + interval '1 month'
    ) AS open_run_id,
    (
        SELECT count(*)
        FROM pgbill.invoice
        WHERE invoice.mode = 'live'
            AND invoice.issued_on < :month_on::date + interval '1 month'
    ) AS document_count,
    (
        SELECT count(*)
        FROM pgbill.invoice
        LEFT JOIN pgbill.journal_entry
            ON
                invoice.bucket = journal_entry.bucket
                AND invoice.account_id = journal_entry.account_id
                AND invoice.invoice_id = journal_entry.invoice_id
                AND journal_entry.entry_no = 1
        WHERE invoice.mode = 'live'
            AND invoice.issued_on < :month_on::date + interval '1 month'
            AND journal_entry.export_id IS NULL
    ) AS unexported_count;

-- name: close
INSERT INTO pgbill.closed_month (month_on, closed_by)
VALUES (:month_on, :by);
