-- Everything replaceable, in the order of its installation. `pgbill migrate` follows this
-- list after the migrations, and so does psql: psql -f sql/install.sql as pgbill_owner.

-- Functions: what a function calls comes before it.
\ir functions/boundary.sql
\ir functions/boundary_number.sql
\ir functions/local_midnight.sql
\ir functions/local_day.sql
\ir functions/bucket_of.sql
\ir functions/price_of.sql
\ir functions/price.sql
\ir functions/payable_on.sql
\ir functions/buyer_snapshot.sql
\ir functions/park_exhausted.sql
\ir functions/claim.sql
\ir functions/renew.sql
\ir functions/release.sql
\ir functions/abandon.sql
\ir functions/record_refusal.sql
\ir functions/unpark.sql
\ir functions/revoke_leases.sql
\ir functions/due_buckets.sql
\ir functions/rate.sql
\ir functions/draw_numbers.sql
\ir functions/taxes_of.sql
\ir functions/issue.sql
\ir functions/bill.sql
\ir functions/rate_and_question.sql
\ir functions/with_tax.sql
\ir functions/keep_tax_answers.sql
\ir functions/due_message_buckets.sql
\ir functions/claim_messages.sql
\ir functions/renew_messages.sql
\ir functions/release_messages.sql
\ir functions/begin_attempt.sql
\ir functions/record_outcome.sql
\ir functions/retry_message.sql
\ir functions/digest_is_due.sql
\ir functions/begin_digest.sql
\ir functions/record_digest.sql
\ir functions/create_usage_partitions.sql
\ir functions/settle.sql
\ir functions/due_count.sql
\ir functions/run_summary.sql
\ir functions/seal_run.sql
\ir functions/open_run.sql
\ir functions/analyze_written.sql

-- Triggers, with their functions.
\ir triggers/create_lease.sql
\ir triggers/fence.sql
\ir triggers/freeze.sql
\ir triggers/record_lease.sql
\ir triggers/keep_in_digest.sql
\ir triggers/take_seller_snapshot.sql
\ir triggers/write_message.sql

-- Views.
\ir views/alert_not_mailed.sql
\ir views/outbox_state.sql
\ir views/invoice_overview.sql
\ir views/usage_line.sql
\ir views/usage_state.sql

-- Audits.
\ir audits/p1_period_and_invoice_differ.sql
\ir audits/p1_period_invoiced_twice.sql
\ir audits/p1_periods_broken_chain.sql
\ir audits/p2_fence_missing.sql
\ir audits/p2_parts_with_another_token.sql
\ir audits/p2_written_with_stale_token.sql
\ir audits/p3_attempt_before_invoice.sql
\ir audits/p3_invoice_without_message.sql
\ir audits/p3_message_trigger_missing.sql
\ir audits/p3_message_without_invoice.sql
\ir audits/p4_freeze_missing.sql
\ir audits/p4_snapshot_missing.sql
\ir audits/p5_date_goes_back.sql
\ir audits/p5_invoice_without_number.sql
\ir audits/p5_number_duplicate.sql
\ir audits/p5_number_gap.sql
\ir audits/p5_series_differs.sql
\ir audits/p6_import_differs_from_records.sql
\ir audits/p6_line_differs_from_usage.sql
\ir audits/p6_usage_billed_twice.sql
\ir audits/p6_usage_not_billed.sql
\ir audits/p6_watermark_goes_back.sql
\ir audits/p7_attempt_after_unknown_outcome.sql
\ir audits/p7_message_closed_early.sql
\ir audits/p7_sent_after_accepted.sql
\ir audits/lease_due_on_wrong.sql
\ir audits/lease_event_missing.sql
\ir audits/lines_differ_from_total.sql
\ir audits/price_differs.sql
\ir audits/tax_differs_from_lines.sql

-- Who may use it all.
\ir grants.sql
