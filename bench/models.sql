-- Two kinds of accounts, :accounts of each, with the same usage: eight meters, a hundred
-- records in September 2026. The plain ones pay so much for each unit of every meter; the
-- mixed ones pay for each meter by another model.

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
FROM generate_series(1, 8) AS series (n);

INSERT INTO pgbill.price (
    key, seller_id, currency, model, timing, meter_id, unit_code, tax_class, line_texts, group_by
)
SELECT
    'plain-' || meter.key, seller.seller_id, 'EUR', 'per_unit', 'arrears', meter.meter_id, 'C62',
    'standard', jsonb_build_object('en', meter.name), NULL
FROM pgbill.seller
CROSS JOIN pgbill.meter
UNION ALL
SELECT
    'mixed-' || listed.n, seller.seller_id, 'EUR', listed.model, 'arrears', meter.meter_id, 'C62',
    'standard', jsonb_build_object('en', meter.name), listed.group_by
FROM pgbill.seller
CROSS JOIN (
    VALUES
    (1, 'graduated', NULL),
    (2, 'volume', NULL),
    (3, 'package', NULL),
    (4, 'percentage', NULL),
    (5, 'graduated_percentage', NULL),
    (6, 'stairstep', NULL),
    (7, 'per_unit', 'region'),
    (8, 'capacity', NULL)
) AS listed (n, model, group_by)
INNER JOIN pgbill.meter ON meter.key = 'meter-' || listed.n;

INSERT INTO pgbill.price_version (
    price_id, begins_on, package_size, fixed_amount, free_count, bills_zero
)
SELECT
    price.price_id, '2026-01-01', CASE price.model WHEN 'package' THEN 10 END,
    CASE price.model WHEN 'percentage' THEN 0.1 ELSE 0 END,
    CASE price.model WHEN 'percentage' THEN 3 END,
    price.model = 'capacity'
FROM pgbill.price;

INSERT INTO pgbill.price_tier (
    price_id, begins_on, group_value, tier_no, up_to, unit_amount, flat_amount
)
SELECT
    price.price_id, '2026-01-01'::date, '', tier.no,
    CASE WHEN tier.no < tier.count THEN tier.no * 40 END, 0.05 / tier.no,
    CASE WHEN price.model IN ('stairstep', 'capacity') THEN tier.no * 5 ELSE 0 END
FROM pgbill.price
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN price.model IN ('graduated', 'volume', 'graduated_percentage', 'stairstep') THEN 3
        WHEN price.model = 'capacity' THEN 2
        ELSE 1
    END
) AS counted (count)
CROSS JOIN LATERAL (
    SELECT numbered.no, counted.count
    FROM generate_series(1, counted.count) AS numbered (no)
) AS tier
UNION ALL
SELECT price.price_id, '2026-01-01', 'eu', 1, NULL, 0.07, 0
FROM pgbill.price
WHERE price.group_by IS NOT NULL;

INSERT INTO pgbill.tax_rate (
    seller_country, buyer_country, buyer_status, tax_class, category, rate, valid_period
)
VALUES ('DE', 'DE', 'business', 'standard', 'S', 19, '[2007-01-01,)');

INSERT INTO pgbill.account (
    bucket, key, seller_id, legal_name, street, postal_code, city, country, tax_status,
    language, currency, zone, first_period_on, anchor_on, recipients
)
SELECT
    pgbill.bucket_of(kind.name || '-' || series.n), kind.name || '-' || series.n,
    seller.seller_id, 'Buyer ' || series.n || ' AG', 'Long Road ' || series.n, '10117', 'Berlin',
    'DE', 'business', 'en', 'EUR', 'Europe/Berlin', '2026-09-01', '2026-09-01',
    jsonb_build_object('invoice', jsonb_build_array('ap@example.com'))
FROM pgbill.seller
CROSS JOIN (VALUES ('plain'), ('mixed')) AS kind (name)
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
INNER JOIN pgbill.account USING (bucket, account_id)
INNER JOIN pgbill.price ON split_part(price.key, '-', 1) = split_part(account.key, '-', 1);

CREATE TABLE pgbill.usage_record_2026_09 PARTITION OF pgbill.usage_record
FOR VALUES FROM ('2026-09-01Z') TO ('2026-10-01Z');

INSERT INTO pgbill.usage_record (
    bucket, account_id, key, occurred_at, meter_id, quantity, dimensions, import_seq
)
SELECT
    account.bucket, account.account_id, 'record-' || series.n,
    '2026-09-01 12:00Z'::timestamptz + series.n * INTERVAL '6 hours', 1 + series.n % 8,
    series.n * 1.5,
    jsonb_build_object('region', CASE WHEN series.n % 3 = 0 THEN 'eu' ELSE 'us' END), 1
FROM generate_series(1, 100) AS series (n)
CROSS JOIN pgbill.account;

UPDATE pgbill.usage_import_state SET last_import_seq = 1;

INSERT INTO pgbill.usage_watermark (bucket, import_seq, earliest_at, record_count)
SELECT usage_record.bucket, 1, min(usage_record.occurred_at), count(*)
FROM pgbill.usage_record
GROUP BY usage_record.bucket;
