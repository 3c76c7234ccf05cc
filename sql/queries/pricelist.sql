-- name: prices
SELECT
    price.key,
    seller.key AS seller,
    price.currency,
    price.model,
    price.timing,
    meter.key AS meter,
    price.group_by,
    price.tax_included,
    price.billing_interval,
    price.unit_code,
    price.tax_class,
    price.revenue_account,
    price.line_texts
FROM pgbill.price
INNER JOIN pgbill.seller USING (seller_id)
LEFT JOIN pgbill.meter USING (meter_id)
ORDER BY price.key;

-- name: versions
SELECT
    price.key,
    price_version.begins_on,
    price_version.per_quantity,
    price_version.package_size,
    price_version.free_quantity,
    price_version.fixed_amount,
    price_version.free_amount,
    price_version.free_count,
    price_version.record_minimum,
    price_version.record_maximum,
    price_version.bills_zero,
    price_version.minimum_amount,
    price_version.maximum_amount
FROM pgbill.price_version
INNER JOIN pgbill.price USING (price_id)
ORDER BY price.price_id, price_version.begins_on;

-- name: tiers
SELECT
    price.key,
    price_tier.begins_on,
    price_tier.group_value,
    price_tier.up_to,
    price_tier.unit_amount,
    price_tier.flat_amount
FROM pgbill.price_tier
INNER JOIN pgbill.price USING (price_id)
ORDER BY
    price.price_id, price_tier.begins_on, price_tier.group_value, price_tier.tier_no;

-- name: billed_until
-- At its boundary an advance fee is billed for what begins there, all else for what ends
-- there; what has ended before is billed up to its end.
SELECT price.key, max(least(billed.until, upper(subscription_price.active_period))) AS until
FROM pgbill.price
INNER JOIN pgbill.subscription_price USING (price_id)
CROSS JOIN LATERAL (
    SELECT max(billing_period.period_end) + (price.timing = 'advance')::integer AS until
    FROM pgbill.billing_period
    WHERE billing_period.bucket = subscription_price.bucket
        AND billing_period.account_id = subscription_price.account_id
) AS billed
WHERE price.key = any(:keys) AND lower(subscription_price.active_period) < billed.until
GROUP BY price.key
ORDER BY price.key;

-- name: write_price
INSERT INTO pgbill.price (
    key, seller_id, currency, model, timing, meter_id, group_by, tax_included,
    billing_interval, unit_code, tax_class, revenue_account, line_texts
)
SELECT
    :key, seller.seller_id, :currency, :model, :timing, meter.meter_id, :group_by,
    :tax_included, :billing_interval, :unit_code, :tax_class, :revenue_account, :line_texts
FROM pgbill.seller
LEFT JOIN pgbill.meter ON meter.key = :meter
WHERE seller.key = :seller
ON CONFLICT (key) DO UPDATE
SET
    unit_code = excluded.unit_code,
    tax_class = excluded.tax_class,
    revenue_account = excluded.revenue_account,
    line_texts = excluded.line_texts;

-- name: write_version
INSERT INTO pgbill.price_version (
    price_id, begins_on, per_quantity, package_size, free_quantity, fixed_amount,
    free_amount, free_count, record_minimum, record_maximum, bills_zero, minimum_amount,
    maximum_amount
)
SELECT
    price.price_id, :begins_on, :per_quantity, :package_size, :free_quantity, :fixed_amount,
    :free_amount, :free_count, :record_minimum, :record_maximum, :bills_zero,
    :minimum_amount, :maximum_amount
FROM pgbill.price
WHERE price.key = :key;

-- name: write_tier
INSERT INTO pgbill.price_tier (
    price_id, begins_on, group_value, tier_no, up_to, unit_amount, flat_amount
)
SELECT
    price.price_id, :begins_on, :group_value, :tier_no, :up_to, :unit_amount, :flat_amount
FROM pgbill.price
WHERE price.key = :key;
