-- name: lock
-- Two applies queue, so the second compares with what the first has written.
SELECT pg_advisory_xact_lock(:key);

-- name: today
SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS today;

-- name: currencies
SELECT currency.currency AS name
FROM pgbill.currency
ORDER BY currency.currency;

-- name: zones
SELECT pg_timezone_names.name
FROM pg_catalog.pg_timezone_names
WHERE pg_timezone_names.name = any(:names)
    AND pg_timezone_names.name !~ '^(posix|right)/|^(localtime|posixrules|Factory)$'
ORDER BY pg_timezone_names.name;

-- name: sellers
SELECT seller.key, to_jsonb(seller) AS content
FROM pgbill.seller
ORDER BY seller.key;

-- name: series
SELECT
    seller.key AS seller,
    number_series.kind,
    number_series.mode,
    number_series.prefix,
    number_series.digits,
    number_series.last_number
FROM pgbill.number_series
INNER JOIN pgbill.seller USING (seller_id)
ORDER BY number_series.series_id;

-- name: meters
SELECT meter.key, meter.unit_code, meter.name
FROM pgbill.meter
ORDER BY meter.key;

-- name: prices
SELECT
    price.key,
    seller.key AS seller,
    price.currency,
    price.model,
    price.timing,
    meter.key AS meter,
    price.unit_code,
    price.tax_class,
    price.revenue_account,
    price.line_texts,
    (
        SELECT jsonb_object_agg(price_tier.begins_on, price_tier.unit_amount::text)
        FROM pgbill.price_tier
        WHERE price_tier.price_id = price.price_id AND price_tier.tier_no = 1
    ) AS amounts
FROM pgbill.price
INNER JOIN pgbill.seller USING (seller_id)
LEFT JOIN pgbill.meter USING (meter_id)
ORDER BY price.key;

-- name: tax_rates
SELECT
    tax_rate.seller_country,
    tax_rate.buyer_country,
    tax_rate.buyer_status,
    tax_rate.tax_class,
    lower(tax_rate.valid_period) AS begins_on,
    upper(tax_rate.valid_period) AS ends_on,
    tax_rate.category,
    tax_rate.rate,
    tax_rate.legal_text
FROM pgbill.tax_rate
ORDER BY tax_rate.tax_rate_id;

-- name: write_seller
INSERT INTO pgbill.seller (
    key, legal_name, street, street_2, postal_code, city, region, country, vat_id,
    tax_number, register_entry, contact_name, contact_email, contact_phone, bank_accounts,
    legal_footers, home_currency, zone, mail_from
)
SELECT
    declared.key, declared.legal_name, declared.street, declared.street_2,
    declared.postal_code, declared.city, declared.region, declared.country, declared.vat_id,
    declared.tax_number, declared.register_entry, declared.contact_name,
    declared.contact_email, declared.contact_phone, declared.bank_accounts,
    declared.legal_footers, declared.home_currency, declared.zone, declared.mail_from
FROM jsonb_populate_record(NULL::pgbill.seller, :content) AS declared
ON CONFLICT (key) DO UPDATE
SET
    legal_name = excluded.legal_name,
    street = excluded.street,
    street_2 = excluded.street_2,
    postal_code = excluded.postal_code,
    city = excluded.city,
    region = excluded.region,
    country = excluded.country,
    vat_id = excluded.vat_id,
    tax_number = excluded.tax_number,
    register_entry = excluded.register_entry,
    contact_name = excluded.contact_name,
    contact_email = excluded.contact_email,
    contact_phone = excluded.contact_phone,
    bank_accounts = excluded.bank_accounts,
    legal_footers = excluded.legal_footers,
    home_currency = excluded.home_currency,
    zone = excluded.zone,
    mail_from = excluded.mail_from;

-- name: write_series
-- Touches no row if its prefix has meanwhile issued a number.
INSERT INTO pgbill.number_series (seller_id, kind, mode, prefix, digits)
SELECT seller.seller_id, :kind, :mode, :prefix, :digits
FROM pgbill.seller
WHERE seller.key = :seller
ON CONFLICT (seller_id, kind, mode) DO UPDATE
SET prefix = excluded.prefix, digits = excluded.digits
WHERE number_series.prefix = excluded.prefix OR number_series.last_number = 0;

-- name: write_meter
INSERT INTO pgbill.meter (key, unit_code, name)
VALUES (:key, :unit_code, :name)
ON CONFLICT (key) DO UPDATE
SET name = excluded.name;

-- name: write_price
INSERT INTO pgbill.price (
    key, seller_id, currency, model, timing, meter_id, unit_code, tax_class,
    revenue_account, line_texts
)
SELECT
    :key, seller.seller_id, :currency, :model, :timing, meter.meter_id, :unit_code,
    :tax_class, :revenue_account, :line_texts
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
WITH version AS (
    INSERT INTO pgbill.price_version (price_id, begins_on)
    SELECT price.price_id, :begins_on
    FROM pgbill.price
    WHERE price.key = :key
    RETURNING price_version.price_id, price_version.begins_on
)

INSERT INTO pgbill.price_tier (price_id, begins_on, tier_no, unit_amount)
SELECT version.price_id, version.begins_on, 1, :amount
FROM version
RETURNING price_tier.price_id;

-- name: change_tax_rate
UPDATE pgbill.tax_rate
SET
    valid_period = daterange(:begins_on, :ends_on),
    category = :category,
    rate = :rate,
    legal_text = :legal_text
WHERE tax_rate.seller_country = :seller_country
    AND tax_rate.buyer_country = :buyer_country
    AND tax_rate.buyer_status = :buyer_status
    AND tax_rate.tax_class = :tax_class
    AND lower(tax_rate.valid_period) = :begins_on;

-- name: add_tax_rate
INSERT INTO pgbill.tax_rate (
    seller_country, buyer_country, buyer_status, tax_class, category, rate, valid_period,
    legal_text
)
VALUES (
    :seller_country, :buyer_country, :buyer_status, :tax_class, :category, :rate,
    daterange(:begins_on, :ends_on), :legal_text
);
