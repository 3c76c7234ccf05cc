-- What test_audit_findings.py does to a healthy world, one crime after the other, each with
-- the tables whose constraints and triggers are taken away for it, and the audit views that
-- show it: exactly these. :busy and :idle are the ids of accounts, :february and :march
-- those of the busy account's invoices of 1 February and 1 March, :sleeper is the token of
-- a claim that was taken over.

-- crime: a second invoice for a period
-- tables: invoice
-- shows: p1_period_and_invoice_differ, p1_period_invoiced_twice, p2_parts_with_another_token
UPDATE pgbill.invoice
SET (period_start, period_end) = ('2026-01-01', '2026-02-01')
WHERE invoice_id = :march;

-- crime: a gap between two periods
-- tables: billing_period
-- shows: p1_period_and_invoice_differ, p1_periods_broken_chain
DELETE FROM pgbill.billing_period WHERE account_id = :busy AND period_end = '2026-02-01';

-- crime: periods that overlap
-- tables: billing_period, invoice
-- shows: p1_periods_broken_chain
UPDATE pgbill.billing_period
SET period_start = '2026-01-15'
WHERE account_id = :busy AND period_end = '2026-03-01';
UPDATE pgbill.invoice SET period_start = '2026-01-15' WHERE invoice_id = :march;

-- crime: a chain that begins late
-- tables: billing_period
-- shows: p1_periods_broken_chain
DELETE FROM pgbill.billing_period WHERE account_id = :idle AND period_end = '2026-01-01';

-- crime: a closing that says nothing_to_bill, with an invoice
-- tables: billing_period
-- shows: lease_event_missing, p1_period_and_invoice_differ
UPDATE pgbill.billing_period
SET outcome = 'nothing_to_bill'
WHERE account_id = :busy AND period_end = '2026-02-01';

-- crime: a token that nobody has claimed
-- tables: invoice, invoice_line, invoice_tax, billing_period
-- shows: p2_parts_with_another_token, p2_written_with_stale_token
UPDATE pgbill.invoice SET fencing_token = 999999999 WHERE invoice_id = :march;

-- crime: an invoice of a sleeper
-- tables: invoice, invoice_line, invoice_tax, billing_period
-- shows: lease_event_missing, p2_written_with_stale_token
UPDATE pgbill.invoice
SET fencing_token = :sleeper
WHERE account_id = :busy AND invoice_id = :march;
UPDATE pgbill.invoice_line
SET fencing_token = :sleeper
WHERE account_id = :busy AND invoice_id = :march;
UPDATE pgbill.invoice_tax
SET fencing_token = :sleeper
WHERE account_id = :busy AND invoice_id = :march;
UPDATE pgbill.billing_period
SET fencing_token = :sleeper
WHERE account_id = :busy AND period_end = '2026-03-01';

-- crime: a cancellation by a clerk whose lease was taken over
-- tables: invoice_cancellation
-- shows: p2_written_with_stale_token
UPDATE pgbill.invoice_cancellation
SET fencing_token = (
    SELECT min(fencing_token)
    FROM pgbill.lease_event
    WHERE lease_event.account_id = invoice_cancellation.account_id AND kind = 'claimed'
);

-- crime: a line of another worker
-- tables: invoice_line
-- shows: p2_parts_with_another_token
UPDATE pgbill.invoice_line
SET fencing_token = fencing_token + 1
WHERE invoice_id = :march AND line_no = 1;

-- crime: an invoice without its message
-- tables: outbox_message
-- shows: p3_invoice_without_message
DELETE FROM pgbill.outbox_message
WHERE invoice_id = (SELECT max(invoice_id) FROM pgbill.invoice);

-- crime: a message to somebody else
-- tables: outbox_message
-- shows: p3_invoice_without_message, p3_message_without_invoice
UPDATE pgbill.outbox_message
SET address = 'eve@example.com'
WHERE message_id = (
    SELECT max(message_id)
    FROM pgbill.outbox_message
    WHERE retry_of IS NULL
);

-- crime: two messages for one recipient
-- tables: outbox_message
-- shows: p3_message_without_invoice
INSERT INTO pgbill.outbox_message (bucket, account_id, invoice_id, channel, address)
SELECT bucket, account_id, invoice_id, channel, address
FROM pgbill.outbox_message
WHERE message_id = (SELECT min(message_id) FROM pgbill.outbox_message);

-- crime: a message for an invoice that was rolled back
-- tables: outbox_message
-- shows: p3_message_without_invoice
INSERT INTO pgbill.outbox_message (bucket, account_id, invoice_id, channel, address)
SELECT bucket, account_id, 999999999, channel, address
FROM pgbill.outbox_message
LIMIT 1;

-- crime: mail that was to be held and was not
-- tables: billing_run
-- shows: p3_message_not_held
INSERT INTO pgbill.billing_run (run_id, mode, started_by, pgbill_version, hold_mail)
VALUES (1, 'live', 'somebody', '1', TRUE);

-- crime: mail that was sent while it was held
-- tables: outbox_message
-- shows: p3_message_not_held
UPDATE pgbill.outbox_message
SET held_at = created_at
WHERE message_id = (SELECT min(message_id) FROM pgbill.delivery_attempt);

-- crime: an attempt before the invoice was issued
-- tables: delivery_attempt
-- shows: p3_attempt_before_invoice
UPDATE pgbill.delivery_attempt
SET begun_at = begun_at - INTERVAL '1 hour'
WHERE (message_id, attempt_no) = (
    SELECT message_id, attempt_no
    FROM pgbill.delivery_attempt
    LIMIT 1
);

-- crime: an invoice without a copy of its seller
-- tables: invoice
-- shows: p4_snapshot_missing
UPDATE pgbill.invoice SET seller_snapshot_id = 0 WHERE invoice_id = :march;

-- crime: an invoice without a copy of its buyer
-- tables: invoice
-- shows: p4_snapshot_missing
UPDATE pgbill.invoice SET buyer = '{}' WHERE invoice_id = :march;

-- crime: a number that was lost
-- tables: invoice_number
-- shows: p3_attempt_before_invoice, p5_invoice_without_number, p5_number_gap
DELETE FROM pgbill.invoice_number WHERE invoice_id = :february;

-- crime: a first number that was lost
-- tables: invoice_number
-- shows: p3_attempt_before_invoice, p5_invoice_without_number, p5_number_gap
DELETE FROM pgbill.invoice_number WHERE number_text = 'NL-000001';

-- crime: a number that was given twice
-- tables: invoice_number
-- shows: p5_number_duplicate, p5_number_gap
UPDATE pgbill.invoice_number
SET number = 1, number_text = 'NL-000001'
WHERE invoice_id = :february;

-- crime: an invoice with two numbers
-- tables: invoice_number, number_series
-- shows: p5_number_duplicate
INSERT INTO pgbill.invoice_number
SELECT
    series_id, last_number + 1, bucket, account_id, invoice_id, 'NL-EXTRA', last_issued_on,
    last_issued_at
FROM pgbill.number_series
INNER JOIN pgbill.invoice USING (series_id)
WHERE invoice_id = :march;
UPDATE pgbill.number_series SET last_number = last_number + 1
WHERE series_id = (SELECT series_id FROM pgbill.invoice WHERE invoice_id = :march);

-- crime: an invoice that is dated back
-- tables: invoice, invoice_number
-- shows: p5_date_goes_back
UPDATE pgbill.invoice SET issued_on = '2026-02-27' WHERE invoice_id = :february;
UPDATE pgbill.invoice_number SET issued_on = '2026-02-27' WHERE invoice_id = :february;

-- crime: a number with another date than its invoice
-- tables: invoice_number
-- shows: p5_invoice_without_number
UPDATE pgbill.invoice_number SET issued_on = '2026-02-27' WHERE number_text = 'NL-000001';

-- crime: a number without an invoice
-- tables: invoice_number, number_series
-- shows: p5_invoice_without_number
INSERT INTO pgbill.invoice_number
SELECT
    series_id, last_number + 1, bucket, account_id, 999999999, 'NL-EXTRA', last_issued_on,
    last_issued_at
FROM pgbill.number_series
INNER JOIN pgbill.invoice USING (series_id)
WHERE invoice_id = :march;
UPDATE pgbill.number_series SET last_number = last_number + 1
WHERE series_id = (SELECT series_id FROM pgbill.invoice WHERE invoice_id = :march);

-- crime: a series that was moved on by hand
-- tables: number_series
-- shows: p5_series_differs
UPDATE pgbill.number_series SET last_number = last_number + 1 WHERE last_number > 0;

-- crime: a series whose date was set back
-- tables: number_series
-- shows: p5_series_differs
UPDATE pgbill.number_series SET last_issued_on = '-infinity';

-- crime: late usage that the next period bills as its own
-- tables: invoice_line
-- shows: p6_line_differs_from_usage, p6_usage_billed_twice
UPDATE pgbill.invoice_line
SET usage_from_at = '2026-01-01Z'
WHERE invoice_id = :march AND kind = 'usage';

-- crime: a line that is lost
-- tables: invoice_line
-- shows: lines_differ_from_total, p6_usage_not_billed, tax_differs_from_lines
DELETE FROM pgbill.invoice_line WHERE invoice_id = :march AND kind = 'late_usage';

-- crime: usage that came in below the watermark
-- tables: usage_record
-- shows: p6_import_differs_from_records, p6_line_differs_from_usage
INSERT INTO pgbill.usage_record
SELECT
    bucket, account_id, 'sneaked-in', occurred_at + INTERVAL '1 s', meter_id, quantity,
    import_seq
FROM pgbill.usage_record
WHERE account_id = :busy AND import_seq = 1
LIMIT 1;

-- crime: usage that was changed after it was billed
-- tables: usage_record
-- shows: p6_line_differs_from_usage
UPDATE pgbill.usage_record
SET quantity = quantity + 1
WHERE account_id = :busy AND import_seq = 1;

-- crime: usage of an import without its mark
-- tables: usage_watermark
-- shows: p6_import_differs_from_records
DELETE FROM pgbill.usage_watermark
WHERE import_seq = (SELECT max(import_seq) FROM pgbill.usage_record);

-- crime: an import that says it begins later than it does
-- tables: usage_watermark
-- shows: p6_import_differs_from_records
UPDATE pgbill.usage_watermark SET earliest_at = earliest_at + INTERVAL '1 day';

-- crime: a mark without its import
-- tables: usage_watermark
-- shows: p6_import_differs_from_records
INSERT INTO pgbill.usage_watermark VALUES (3, 1, '2026-01-01Z', 5);

-- crime: a closing that had seen less than the one before
-- tables: billing_period
-- shows: p6_watermark_goes_back
UPDATE pgbill.billing_period
SET usage_seq = 1
WHERE account_id = :busy AND period_end = '2026-03-01';

-- crime: a closing that had seen imports of the future
-- tables: billing_period
-- shows: p6_watermark_goes_back
UPDATE pgbill.billing_period
SET usage_seq = 999999999
WHERE account_id = :idle AND period_end = '2026-03-01';

-- crime: an attempt after one of which nobody knows
-- tables: delivery_attempt
-- shows: p7_attempt_after_unknown_outcome
INSERT INTO pgbill.delivery_attempt (
    bucket, account_id, message_id, attempt_no, holder, sent_to
)
SELECT bucket, account_id, message_id, 2, holder, sent_to
FROM pgbill.delivery_attempt
WHERE NOT EXISTS (
    SELECT
    FROM pgbill.delivery_outcome
    WHERE delivery_outcome.message_id = delivery_attempt.message_id
);

-- crime: an attempt after the message was accepted
-- tables: delivery_attempt
-- shows: p7_sent_after_accepted
INSERT INTO pgbill.delivery_attempt (
    bucket, account_id, message_id, attempt_no, holder, sent_to
)
SELECT bucket, account_id, message_id, attempt_no + 1, 'relay:2', 'ap@example.com'
FROM pgbill.delivery_outcome
WHERE outcome = 'accepted'
LIMIT 1;

-- crime: a message that was accepted, and repeated
-- tables: outbox_message
-- shows: p7_sent_after_accepted
UPDATE pgbill.outbox_message
SET retry_of = (
    SELECT message_id
    FROM pgbill.delivery_outcome
    WHERE outcome = 'accepted'
    LIMIT 1
)
WHERE retry_of IS NOT NULL;

-- crime: a message that was closed and never sent
-- tables: outbox_message
-- shows: p7_message_closed_early
UPDATE pgbill.outbox_message
SET closed_at = clock_timestamp()
WHERE message_id = (
    SELECT max(message_id)
    FROM pgbill.outbox_message
    WHERE closed_at IS NULL
);

-- crime: a message that was accepted and is still open
-- tables: outbox_message
-- shows: p7_message_closed_early
UPDATE pgbill.outbox_message SET closed_at = NULL;

-- crime: a total that is a cent too high
-- tables: invoice
-- shows: lines_differ_from_total
UPDATE pgbill.invoice
SET net_amount = net_amount + 0.01, gross_amount = gross_amount + 0.01
WHERE invoice_id = :march;

-- crime: an invoice without taxes
-- tables: invoice_tax
-- shows: lines_differ_from_total, tax_differs_from_lines
DELETE FROM pgbill.invoice_tax WHERE invoice_id = :march;

-- crime: a tax that is a cent too high
-- tables: invoice_tax, invoice
-- shows: tax_differs_from_lines
UPDATE pgbill.invoice_tax SET tax_amount = tax_amount + 0.01 WHERE invoice_id = :march;
UPDATE pgbill.invoice
SET tax_amount = tax_amount + 0.01, gross_amount = gross_amount + 0.01
WHERE invoice_id = :march;

-- crime: a line with another tax than the tax service has said
-- tables: tax_answer
-- shows: tax_differs_from_answer
INSERT INTO pgbill.tax_answer (
    bucket, account_id, period_end, question_hash, question, answer, provider, fencing_token
)
SELECT
    invoice.bucket, invoice.account_id, invoice.period_end, 'hash', '{}',
    '{"lines": [{"line_no": 1, "category": "S", "rate": "7"}]}', 'trial',
    invoice.fencing_token
FROM pgbill.invoice
WHERE invoice.invoice_id = :march;

-- crime: a line with another amount than it was rated with
-- tables: invoice_line
-- shows: lines_differ_from_total, price_differs, tax_differs_from_lines
UPDATE pgbill.invoice_line
SET net_amount = net_amount + 0.01
WHERE invoice_id = :march AND line_no = 1;

-- crime: a line that shows another price than it was rated with
-- tables: invoice_line
-- shows: price_differs
UPDATE pgbill.invoice_line SET unit_amount = 1 WHERE invoice_id = :march AND line_no = 1;

-- crime: a charge that two invoices bill
-- tables: charge, invoice_line
-- shows: charge_billed_twice
INSERT INTO pgbill.charge (
    bucket, account_id, charge_id, key, description, unit_amount, tax_class, service_on
)
SELECT bucket, account_id, 999999999, 'twice', 'Setup', 100, 'standard', '2026-01-10'
FROM pgbill.account
WHERE account_id = :busy;
UPDATE pgbill.invoice_line
SET charge_id = 999999999
WHERE invoice_id IN (:february, :march) AND line_no = 1;

-- crime: a charge that closings have passed by
-- tables: charge
-- shows: charge_not_billed
INSERT INTO pgbill.charge (
    bucket, account_id, key, description, unit_amount, tax_class, service_on, imported_at
)
SELECT bucket, account_id, 'lost', 'Setup', 100, 'standard', '2026-01-10', '2026-01-11Z'
FROM pgbill.account
WHERE account_id = :busy;

-- crime: a prepaid credit that is spent twice
-- tables: prepaid_credit, credit_application, invoice
-- shows: prepaid_overspent
INSERT INTO pgbill.prepaid_credit (
    bucket, account_id, prepaid_credit_id, key, description, amount, available_on
)
SELECT bucket, account_id, 999999999, 'pack', 'Credit pack', 5, '2026-01-01'
FROM pgbill.account
WHERE account_id = :busy;
INSERT INTO pgbill.credit_application
SELECT bucket, account_id, 999999999, invoice_id, 3, fencing_token
FROM pgbill.invoice
WHERE invoice_id IN (:february, :march);
UPDATE pgbill.invoice SET prepaid_amount = 3 WHERE invoice_id IN (:february, :march);

-- crime: a cancellation that leaves a cent
-- tables: invoice
-- shows: credit_differs_from_invoice, lines_differ_from_total
UPDATE pgbill.invoice
SET net_amount = net_amount + 0.01, gross_amount = gross_amount + 0.01
WHERE credited_invoice_id IS NOT NULL;

-- crime: a credit note of more than its lines have
-- tables: invoice_line
-- shows: credit_differs_from_invoice, lines_differ_from_total, price_differs
UPDATE pgbill.invoice_line
SET
    kind = 'credit',
    credited_invoice_id = note.credited_invoice_id,
    credited_line_no = 1,
    net_amount = -1000,
    meter_id = NULL
FROM pgbill.invoice AS note
WHERE invoice_line.invoice_id = note.invoice_id AND note.credited_invoice_id IS NOT NULL;

-- crime: an invoice that says it is paid in advance, by nothing
-- tables: invoice
-- shows: prepaid_overspent
UPDATE pgbill.invoice SET prepaid_amount = 1 WHERE invoice_id = :march;

-- crime: a lease that is due a month too late
-- tables: lease
-- shows: lease_due_on_wrong
UPDATE pgbill.lease SET due_on = due_on + 31 WHERE account_id = :busy;

-- crime: a lease that is due at midnight in a zone that its account never had
-- tables: lease
-- shows: lease_due_on_wrong
UPDATE pgbill.lease SET due_at = due_at - interval '8 hours' WHERE account_id = :busy;

-- crime: a lease that is due at midnight nowhere on earth
-- tables: lease
-- shows: lease_due_on_wrong
UPDATE pgbill.lease SET due_at = due_at + interval '15 hours' WHERE account_id = :idle;

-- crime: an account without a lease
-- tables: lease
-- shows: lease_due_on_wrong
DELETE FROM pgbill.lease WHERE account_id = :busy;

-- crime: a closing that was written by hand
-- tables: lease_event
-- shows: lease_event_missing
DELETE FROM pgbill.lease_event
WHERE account_id = :busy AND kind = 'released' AND due_on = '2026-02-01';

-- crime: a payment that counts twice
-- tables: payment
-- shows: payment_twice
INSERT INTO pgbill.payment (bucket, account_id, key, invoice_id, amount, currency, paid_on)
SELECT invoice.bucket, invoice.account_id, 'k', invoice.invoice_id, 1, 'EUR', '2026-03-05'
FROM pgbill.invoice
CROSS JOIN generate_series(1, 2)
WHERE invoice.invoice_id = :march;

-- crime: a payment in another currency than its invoice
-- tables: payment
-- shows: payment_twice
INSERT INTO pgbill.payment (bucket, account_id, key, invoice_id, amount, currency, paid_on)
SELECT invoice.bucket, invoice.account_id, 'k', invoice.invoice_id, 1, 'USD', '2026-03-05'
FROM pgbill.invoice
WHERE invoice.invoice_id = :march;

-- crime: an old invoice with a number that a series has given
-- tables: imported_invoice
-- shows: imported_number_twice
INSERT INTO pgbill.imported_invoice (
    bucket, account_id, number_text, issued_on, payable_on, currency, gross_amount, open_amount
)
SELECT
    invoice_number.bucket, invoice_number.account_id, invoice_number.number_text, '2025-12-01',
    '2025-12-31', 'EUR', 1, 1
FROM pgbill.invoice_number
WHERE invoice_number.invoice_id = :march;

-- crime: an old invoice that was imported twice
-- tables: imported_invoice
-- shows: imported_number_twice
INSERT INTO pgbill.imported_invoice (
    bucket, account_id, number_text, issued_on, payable_on, currency, gross_amount, open_amount
)
SELECT
    account.bucket, account.account_id, 'OLD-1', '2025-12-01', '2025-12-31', 'EUR', 1, 1
FROM pgbill.account
WHERE account.account_id IN (:busy, :idle);

-- crime: a document that was dated into a closed month
-- tables: closed_month
-- shows: closed_month_issued_into
INSERT INTO pgbill.closed_month (month_on, closed_at, closed_by)
VALUES ('2026-03-01', '2026-03-01', 'clerk');

-- crime: a document that was changed after it was handed over
-- tables: journal_export, journal_entry, invoice_line
-- shows: journal_differs
INSERT INTO pgbill.journal_entry (
    bucket, account_id, invoice_id, entry_no, export_id, kind, amount, currency,
    revenue_account, cost_centre, tax_category, tax_rate, tax_amount, service_period
)
SELECT
    entry.bucket, entry.account_id, entry.invoice_id, entry.entry_no, 1, entry.kind,
    entry.amount, entry.currency, entry.revenue_account, entry.cost_centre,
    entry.tax_category, entry.tax_rate, entry.tax_amount, entry.service_period
FROM pgbill.invoice
CROSS JOIN LATERAL pgbill.entries_of(
    ARRAY[invoice.bucket], ARRAY[invoice.account_id], ARRAY[invoice.invoice_id]
) AS entry
WHERE invoice.invoice_id = :march;
UPDATE pgbill.invoice_line SET revenue_account = '8400' WHERE invoice_id = :march;

-- crime: a document that was handed over twice
-- tables: journal_export, journal_entry
-- shows: journal_differs
INSERT INTO pgbill.journal_entry (
    bucket, account_id, invoice_id, entry_no, export_id, kind, amount, currency,
    revenue_account, cost_centre, tax_category, tax_rate, tax_amount, service_period
)
SELECT
    entry.bucket, entry.account_id, entry.invoice_id, entry.entry_no, export.id, entry.kind,
    entry.amount, entry.currency, entry.revenue_account, entry.cost_centre,
    entry.tax_category, entry.tax_rate, entry.tax_amount, entry.service_period
FROM pgbill.invoice
CROSS JOIN generate_series(1, 2) AS export (id)
CROSS JOIN LATERAL pgbill.entries_of(
    ARRAY[invoice.bucket], ARRAY[invoice.account_id], ARRAY[invoice.invoice_id]
) AS entry
WHERE invoice.invoice_id = :march;
