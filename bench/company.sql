-- A company to measure with: :accounts accounts, one flat price and four meters each, five
-- usage records for each meter in September 2026, so 20 records and five lines an invoice.

INSERT INTO pgbill.seller (
    key, legal_name, street, postal_code, city, country, home_currency, zone, mail_from
)
VALUES (
    'bench', 'Bench GmbH', 'Teststr. 1', '10115', 'Berlin', 'DE', 'EUR', 'Europe/Berlin',
    'billing@example.com'
);

INSERT INTO pgbill.number_series (seller_id, kind, mode, prefix)
SELECT seller.seller_id, 'invoice', 'live', 'B-'
FROM pgbill.seller;

INSERT INTO pgbill.meter (key, unit_code, name)
SELECT 'meter-' || series.n, 'C62', 'Meter ' || series.n
FROM generate_series(1, 4) AS series (n);

INSERT INTO pgbill.price (
    key, seller_id, currency, model, timing, meter_id, unit_code, tax_class, line_texts
)
SELECT 'base', seller.seller_id, 'EUR', 'flat', 'arrears', NULL, 'MON', 'standard',
    '{"en": "Base fee"}'::jsonb
FROM pgbill.seller
UNION ALL
SELECT 'price-' || meter.meter_id, seller.seller_id, 'EUR', 'per_unit', 'arrears',
    meter.meter_id, 'C62', 'standard', jsonb_build_object('en', 'Use of ' || meter.name)
FROM pgbill.seller
CROSS JOIN pgbill.meter;

INSERT INTO pgbill.price_version (price_id, begins_on)
SELECT price.price_id, '2026-01-01'
FROM pgbill.price;

INSERT INTO pgbill.price_tier (price_id, begins_on, tier_no, unit_amount)
SELECT price.price_id, '2026-01-01', 1, CASE price.model WHEN 'flat' THEN 10 ELSE 0.0125 END
FROM pgbill.price;

INSERT INTO pgbill.tax_rate (
    seller_country, buyer_country, buyer_status, tax_class, category, rate, valid_period
)
VALUES ('DE', 'DE', 'business', 'standard', 'S', 19, '[2007-01-01,)');

INSERT INTO pgbill.account (
    bucket, key, seller_id, legal_name, street, postal_code, city, country, tax_status,
    language, currency, zone, first_period_on, anchor_on, recipients
)
SELECT
    pgbill.bucket_of('A-' || series.n), 'A-' || series.n, seller.seller_id,
    'Buyer ' || series.n || ' AG', 'Long Road ' || series.n, '10117', 'Berlin', 'DE',
    'business', 'en', 'EUR', 'Europe/Berlin', '2026-09-01', '2026-09-01',
    jsonb_build_object('invoice', jsonb_build_array('ap' || series.n || '@example.com'))
FROM pgbill.seller
CROSS JOIN generate_series(1, :accounts) AS series (n);

INSERT INTO pgbill.subscription (bucket, account_id, key, active_period)
SELECT account.bucket, account.account_id, 'main', '[2026-09-01,)'
FROM pgbill.account;

INSERT INTO pgbill.subscription_price (
    bucket, account_id, subscription_id, price_id, seller_id, currency, meter_id, active_period
)
SELECT
    subscription.bucket, subscription.account_id, subscription.subscription_id, price.price_id,
    price.seller_id, price.currency, price.meter_id, subscription.active_period
FROM pgbill.subscription
CROSS JOIN pgbill.price;

CREATE TABLE pgbill.usage_record_2026_09 PARTITION OF pgbill.usage_record
FOR VALUES FROM ('2026-09-01Z') TO ('2026-10-01Z');

INSERT INTO pgbill.usage_record (
    bucket, account_id, key, occurred_at, meter_id, quantity, import_seq
)
SELECT
    account.bucket, account.account_id, 'record-' || series.n,
    '2026-09-02 12:00Z'::timestamptz + series.n * INTERVAL '1 day', 1 + series.n % 4,
    series.n * 1.5, 1
FROM generate_series(1, 20) AS series (n)
CROSS JOIN pgbill.account;

UPDATE pgbill.usage_import_state SET last_import_seq = 1;

INSERT INTO pgbill.usage_watermark (bucket, import_seq, earliest_at, record_count)
SELECT usage_record.bucket, 1, min(usage_record.occurred_at), count(*)
FROM pgbill.usage_record
GROUP BY usage_record.bucket;
