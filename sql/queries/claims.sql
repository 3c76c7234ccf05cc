-- name: count_of_other_mode
-- Open messages that a relay of this mode passes by.
SELECT count(*) AS message_count
FROM pgbill.outbox_message
INNER JOIN pgbill.invoice
    ON
        outbox_message.bucket = invoice.bucket
        AND outbox_message.account_id = invoice.account_id
        AND outbox_message.invoice_id = invoice.invoice_id
WHERE outbox_message.closed_at IS NULL AND invoice.mode <> :mode;

-- name: count_waiting
-- Open messages of a channel that are due.
SELECT count(*) AS message_count
FROM pgbill.outbox_message
WHERE outbox_message.closed_at IS NULL
    AND outbox_message.channel = :channel
    AND outbox_message.due_at <= clock_timestamp();
