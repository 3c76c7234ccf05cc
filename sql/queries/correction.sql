-- Correct issued invoices. Each is one statement, and so one transaction.

-- name: credit
SELECT pgbill.credit(
    :bucket, :account_id, :invoice_id, :line_nos::integer[], :amounts::numeric[],
    :amount::numeric, :is_cancellation, :reason, :issued_by, :worker_id, :is_dry_run
)::text AS told;

-- name: reissue
SELECT pgbill.reissue(
    :bucket, :account_id, :invoice_id, :reason, :issued_by, :worker_id, :tax_by_table,
    :question_hash::text, :answer::text::jsonb, :provider::text, :is_dry_run
)::text AS told;
