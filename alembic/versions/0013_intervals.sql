-- How long a billing period is, when it ends to the second, and prices that change within it.

ALTER TABLE pgbill.account
ADD COLUMN billing_interval text NOT NULL DEFAULT 'monthly'
CONSTRAINT account_billing_interval_is_known
CHECK (billing_interval IN ('weekly', 'monthly', 'quarterly', 'half_yearly', 'yearly'));

COMMENT ON COLUMN pgbill.account.billing_interval IS
'How long its billing periods are, counted from anchor_on.';
COMMENT ON COLUMN pgbill.account.anchor_on IS
'Boundaries are this day plus n intervals, clamped to the end of the month.';
COMMENT ON COLUMN pgbill.account.zone IS
'IANA time zone; days begin at midnight there. A change counts from the next boundary on.';

-- The same price several times, one after another: with other quantities.
ALTER TABLE pgbill.subscription_price
ADD COLUMN starts_on date GENERATED ALWAYS AS (lower(active_period)) STORED;

ALTER TABLE pgbill.subscription_price
DROP CONSTRAINT subscription_price_pkey,
ADD PRIMARY KEY (bucket, account_id, subscription_id, price_id, starts_on),
-- The predicate is always true. It keeps the planner from looking prices up in this index,
-- which takes ten times as long as in that of the primary key.
ADD CONSTRAINT subscription_price_counts_once_on_a_day
EXCLUDE USING gist (
    bucket WITH =, account_id WITH =, subscription_id WITH =, price_id WITH =,
    active_period WITH &&
) WHERE (quantity >= 0);

COMMENT ON COLUMN pgbill.subscription_price.starts_on IS 'The first day of active_period.';
COMMENT ON COLUMN pgbill.subscription_price.active_period IS
'The days on which the subscription has this price in this quantity.';
COMMENT ON COLUMN pgbill.subscription_price.quantity IS
'How many times it is billed, such as seats; usage has its own quantity.';

-- The instant is kept: if the account's zone changes, the next period begins where this one
-- has ended, to the second.
ALTER TABLE pgbill.billing_period
ADD COLUMN period_end_at timestamptz,
ADD COLUMN zone text;

ALTER TABLE pgbill.billing_period DISABLE TRIGGER USER;

UPDATE pgbill.billing_period
SET
    period_end_at = billing_period.period_end::timestamp AT TIME ZONE account.zone,
    zone = account.zone
FROM pgbill.account
WHERE billing_period.bucket = account.bucket AND billing_period.account_id = account.account_id;

ALTER TABLE pgbill.billing_period ENABLE TRIGGER USER;

ALTER TABLE pgbill.billing_period
ALTER COLUMN period_end_at SET NOT NULL,
ALTER COLUMN zone SET NOT NULL;

COMMENT ON COLUMN pgbill.billing_period.zone IS
'The zone of the account when it was closed: days within the period begin at midnight there, '
'and so does the next boundary.';
COMMENT ON COLUMN pgbill.billing_period.period_end_at IS
'The instant of the boundary: usage before it belongs to this period or an earlier one, usage '
'from it on to a later one.';

-- They take the billing interval now.
DROP FUNCTION IF EXISTS pgbill.boundary(date, integer);
DROP FUNCTION IF EXISTS pgbill.boundary_number(date, date);

-- Late usage finds its period by the instant at which that ended.
DROP FUNCTION IF EXISTS pgbill.local_day(timestamptz, text);
