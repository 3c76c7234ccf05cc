-- Many accounts that pay one fee in advance and for their usage: an invoice each is due.

WITH new_seller AS (
    INSERT INTO pgbill.seller (
        key, legal_name, street, postal_code, city, country, home_currency, zone, mail_from
    )
    VALUES (
        'bench', 'Bench GmbH', 'Teststr. 1', '10115', 'Berlin', 'DE', 'EUR', 'Europe/Berlin',
        'billing@example.com'
    )
    RETURNING seller.seller_id
)

INSERT INTO pgbill.number_series (seller_id, kind, mode, prefix)
SELECT new_seller.seller_id, 'invoice', 'live', 'B-'
FROM new_seller;

INSERT INTO pgbill.meter (key, unit_code, name)
VALUES ('calls', 'C62', 'Calls');

INSERT INTO pgbill.price (
    key, seller_id, currency, model, timing, meter_id, unit_code, tax_class, line_texts
)
SELECT 'fee', seller.seller_id, 'EUR', 'flat', 'advance', NULL, 'MON', 'standard',
    '{"en": "Fee"}'::jsonb
FROM pgbill.seller
UNION ALL
SELECT 'calls', seller.seller_id, 'EUR', 'per_unit', 'arrears', meter.meter_id, 'C62',
    'standard', '{"en": "Calls"}'::jsonb
FROM pgbill.seller
CROSS JOIN pgbill.meter;

INSERT INTO pgbill.price_version (price_id, begins_on)
SELECT price.price_id, '2026-01-01'
FROM pgbill.price;

INSERT INTO pgbill.price_tier (price_id, begins_on, tier_no, unit_amount)
SELECT price.price_id, '2026-01-01', 1, 10
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
