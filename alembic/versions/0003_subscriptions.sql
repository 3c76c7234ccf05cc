-- Which prices an account pays, over which days.

CREATE SEQUENCE pgbill.subscription_id;

CREATE TABLE pgbill.subscription (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    subscription_id bigint NOT NULL DEFAULT nextval('pgbill.subscription_id'),
    key text NOT NULL
        CONSTRAINT subscription_key_is_not_empty CHECK (key <> ''),
    active_period daterange NOT NULL
        CONSTRAINT subscription_active_period_has_a_begin
        CHECK (NOT isempty(active_period) AND NOT lower_inf(active_period)),
    purchase_order text,
    contract_number text,
    cost_centre text,
    PRIMARY KEY (bucket, account_id, subscription_id),
    UNIQUE (bucket, account_id, key),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id)
);

COMMENT ON TABLE pgbill.subscription IS 'An account pays prices over a range of days.';
COMMENT ON COLUMN pgbill.subscription.active_period IS
'Half-open: the upper bound is the first day that is not billed; none: it runs on.';

CREATE TABLE pgbill.subscription_price (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    price_id integer NOT NULL,
    seller_id integer NOT NULL,
    currency text NOT NULL,
    meter_id integer,
    quantity numeric NOT NULL DEFAULT 1
        CONSTRAINT subscription_price_quantity_is_not_negative CHECK (quantity >= 0),
    active_period daterange NOT NULL,
    PRIMARY KEY (bucket, account_id, subscription_id, price_id),
    FOREIGN KEY (bucket, account_id, subscription_id)
    REFERENCES pgbill.subscription (bucket, account_id, subscription_id),
    FOREIGN KEY (bucket, account_id, seller_id, currency)
    REFERENCES pgbill.account (bucket, account_id, seller_id, currency),
    FOREIGN KEY (price_id, seller_id, currency)
    REFERENCES pgbill.price (price_id, seller_id, currency),
    FOREIGN KEY (price_id, meter_id) REFERENCES pgbill.price (price_id, meter_id),
    CONSTRAINT subscription_price_only_one_bills_a_meter
    EXCLUDE USING gist (
        bucket WITH =, account_id WITH =, meter_id WITH =, active_period WITH &&
    ) WHERE (meter_id IS NOT NULL)
);

CREATE INDEX subscription_price_price ON pgbill.subscription_price (price_id);

COMMENT ON TABLE pgbill.subscription_price IS
'The prices of a subscription. Seller, currency and meter are copied so that keys '
'can hold them together.';
COMMENT ON COLUMN pgbill.subscription_price.quantity IS
'How many times a flat price is billed (seats); usage has its own quantity.';
COMMENT ON COLUMN pgbill.subscription_price.active_period IS 'That of its subscription.';
COMMENT ON COLUMN pgbill.subscription_price.meter_id IS 'That of its price; null for flat prices.';
