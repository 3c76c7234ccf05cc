-- Who may do what. Nobody has a right that is not given here: the worker reads, and writes
-- through the functions of the protocol alone; the reader reads.

REVOKE ALL ON SCHEMA pgbill, pgbill_audit FROM public;
REVOKE ALL ON ALL TABLES IN SCHEMA pgbill, pgbill_audit FROM public, pgbill_worker, pgbill_reader;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA pgbill, pgbill_audit FROM public, pgbill_worker, pgbill_reader;
REVOKE ALL ON ALL ROUTINES IN SCHEMA pgbill, pgbill_audit FROM public, pgbill_worker, pgbill_reader;

-- What is created later, a month's partition say, is closed from its first moment.
ALTER DEFAULT PRIVILEGES FOR ROLE pgbill_owner REVOKE EXECUTE ON ROUTINES FROM public;

GRANT USAGE ON SCHEMA pgbill, pgbill_audit TO pgbill_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA pgbill, pgbill_audit TO pgbill_reader;

GRANT USAGE ON SCHEMA pgbill TO pgbill_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA pgbill TO pgbill_worker;

-- The protocol.
GRANT EXECUTE ON FUNCTION
pgbill.claim,
pgbill.renew,
pgbill.release,
pgbill.abandon,
pgbill.record_refusal,
pgbill.unpark,
pgbill.park,
pgbill.retry_run,
pgbill.decide_draft,
pgbill.due_buckets,
pgbill.rate,
pgbill.issue,
pgbill.bill,
pgbill.rate_and_question,
pgbill.with_tax,
pgbill.preview,
pgbill.keep_tax_answers,
pgbill.credit,
pgbill.reissue,
pgbill.settle,
pgbill.due_count,
pgbill.run_summary,
pgbill.run_failures,
pgbill.seal_run,
pgbill.open_run,
pgbill.begin_dry_run,
pgbill.analyze_written,
pgbill.bucket_of
TO pgbill_worker;

-- The outbox.
GRANT EXECUTE ON FUNCTION
pgbill.due_message_buckets,
pgbill.claim_messages,
pgbill.renew_messages,
pgbill.release_messages,
pgbill.begin_attempt,
pgbill.record_outcome,
pgbill.retry_message,
pgbill.release_held_messages,
pgbill.digest_is_due,
pgbill.begin_digest,
pgbill.record_digest
TO pgbill_worker;

-- The audits: a view calls functions with the rights of whoever asks it. These only compute.
GRANT EXECUTE ON FUNCTION
pgbill.boundary,
pgbill.boundary_number,
pgbill.local_midnight,
pgbill.instant_within,
pgbill.bucket_of,
pgbill.price,
pgbill.value_of,
pgbill.tiered,
pgbill.rounded,
pgbill.rounded_quantity,
pgbill.measured,
pgbill.taxes_of,
pgbill.tax_of
TO pgbill_reader;

-- What is open: a view asks for it.
GRANT EXECUTE ON FUNCTION
pgbill.receivables_at
TO pgbill_reader, pgbill_worker;

-- Accruals rate, as workers may; an audit compares entries.
GRANT EXECUTE ON FUNCTION
pgbill.unbilled_at
TO pgbill_worker;
GRANT EXECUTE ON FUNCTION
pgbill.entries_of
TO pgbill_reader;
