-- The pipeline that pgbill replaces, for the replay of the incident alone: a lock that
-- expires, and none of pgbill's promises. The demo drops the schema when it is done.

CREATE SCHEMA naive;

-- The list that workers take accounts from.
CREATE TABLE naive.account (
    key text PRIMARY KEY,
    position bigint NOT NULL,
    country text NOT NULL,
    seller_country text NOT NULL,
    tax_status text NOT NULL,
    currency text NOT NULL,
    recipients text[] NOT NULL
);

-- SET key value NX EX: free is what is missing or has expired.
CREATE TABLE naive.lock (
    key text PRIMARY KEY,
    value text NOT NULL,
    expires_at timestamptz NOT NULL
);

-- No constraint says that an account is invoiced once, and no token says who may.
CREATE SEQUENCE naive.invoice_id;
CREATE TABLE naive.invoice (
    invoice_id bigint PRIMARY KEY DEFAULT nextval('naive.invoice_id'),
    account_key text NOT NULL,
    claim text NOT NULL,
    tax jsonb NOT NULL,
    issued_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX invoice_account ON naive.invoice (account_key);

CREATE SEQUENCE naive.event_id;
CREATE TABLE naive.event (
    event_id bigint PRIMARY KEY DEFAULT nextval('naive.event_id'),
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    account_key text NOT NULL,
    kind text NOT NULL,
    claim text NOT NULL,
    detail text
);
