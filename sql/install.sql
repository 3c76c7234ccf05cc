-- Everything replaceable, in the order of its installation. `pgbill migrate` follows this
-- list after the migrations, and so does psql: psql -f sql/install.sql as pgbill_owner.

-- Functions: what a function calls comes before it.

-- Triggers, with their functions.

-- Views.

-- Audits.

-- Who may use it all.
\ir grants.sql
