-- Everything replaceable, in the order of its installation. `pgbill migrate` follows this
-- list after the migrations, and so does psql: psql -f sql/install.sql as pgbill_owner.

-- Functions: what a function calls comes before it.
\ir functions/boundary.sql
\ir functions/boundary_number.sql
\ir functions/local_midnight.sql
\ir functions/bucket_of.sql
\ir functions/price.sql
\ir functions/payable_on.sql
\ir functions/buyer_snapshot.sql
\ir functions/park_exhausted.sql
\ir functions/claim.sql
\ir functions/renew.sql
\ir functions/release.sql
\ir functions/abandon.sql
\ir functions/unpark.sql
\ir functions/revoke_leases.sql
\ir functions/due_buckets.sql
\ir functions/rate.sql
\ir functions/draw_numbers.sql
\ir functions/issue.sql
\ir functions/due_message_buckets.sql
\ir functions/claim_messages.sql
\ir functions/renew_messages.sql
\ir functions/release_messages.sql
\ir functions/begin_attempt.sql
\ir functions/record_outcome.sql
\ir functions/retry_message.sql
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
\ir triggers/take_seller_snapshot.sql
\ir triggers/write_message.sql

-- Views.
\ir views/outbox_state.sql

-- Audits.

-- Who may use it all.
\ir grants.sql
