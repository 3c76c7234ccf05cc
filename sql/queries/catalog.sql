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

-- name: policies
SELECT seller.key, to_jsonb(policy) - 'policy_id' AS columns
FROM pgbill.seller
INNER JOIN pgbill.policy USING (policy_id)
ORDER BY seller.key;

-- name: series
SELECT
    seller.key AS seller,
    number_series.kind,
    number_series.mode,
    number_series.prefix,
    number_series.digits,
    number_series.first_number,
    number_series.last_number
FROM pgbill.number_series
INNER JOIN pgbill.seller USING (seller_id)
ORDER BY number_series.series_id;

-- name: meters
SELECT
    meter.key,
    meter.unit_code,
    meter.name,
    meter.aggregation,
    meter.unique_dimension,
    meter.quantity_digits,
    meter.quantity_rounding
FROM pgbill.meter
ORDER BY meter.key;

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
    tax_rate.components,
    tax_rate.legal_text
FROM pgbill.tax_rate
ORDER BY tax_rate.tax_rate_id;

-- name: add_policy
INSERT INTO pgbill.policy (
    line_rounding, tax_rounding_scope, tax_rounding, proration, unused_advance,
    zero_invoice, negative_total, minimum_invoice
)
VALUES (
    :line_rounding, :tax_rounding_scope, :tax_rounding, :proration, :unused_advance,
    :zero_invoice, :negative_total, :minimum_invoice
)
ON CONFLICT DO NOTHING;

-- name: find_policy
SELECT policy.policy_id
FROM pgbill.policy
WHERE policy.line_rounding = :line_rounding
    AND policy.tax_rounding_scope = :tax_rounding_scope
    AND policy.tax_rounding = :tax_rounding
    AND policy.proration = :proration
    AND policy.unused_advance = :unused_advance
    AND policy.zero_invoice = :zero_invoice
    AND policy.negative_total = :negative_total
    AND policy.minimum_invoice = :minimum_invoice;

-- name: write_seller
INSERT INTO pgbill.seller (
    key, legal_name, street, street_2, postal_code, city, region, country, vat_id,
    tax_number, register_entry, contact_name, contact_email, contact_phone, bank_accounts,
    legal_footers, home_currency, zone, mail_from, policy_id
)
SELECT
    declared.key, declared.legal_name, declared.street, declared.street_2,
    declared.postal_code, declared.city, declared.region, declared.country, declared.vat_id,
    declared.tax_number, declared.register_entry, declared.contact_name,
    declared.contact_email, declared.contact_phone, declared.bank_accounts,
    declared.legal_footers, declared.home_currency, declared.zone, declared.mail_from,
    declared.policy_id
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
    mail_from = excluded.mail_from,
    policy_id = excluded.policy_id;

-- name: write_series
-- Touches no row if it has meanwhile issued a number with what would change.
INSERT INTO pgbill.number_series (seller_id, kind, mode, prefix, digits, first_number, last_number)
SELECT seller.seller_id, :kind, :mode, :prefix, :digits, :first_number::bigint, :first_number - 1
FROM pgbill.seller
WHERE seller.key = :seller
ON CONFLICT (seller_id, kind, mode) DO UPDATE
SET
    prefix = excluded.prefix,
    digits = excluded.digits,
    first_number = excluded.first_number,
    last_number = CASE
        WHEN number_series.last_number < number_series.first_number THEN excluded.last_number
        ELSE number_series.last_number
    END
WHERE number_series.prefix = excluded.prefix
    AND number_series.first_number = excluded.first_number
    OR number_series.last_number < number_series.first_number;

-- name: write_meter
INSERT INTO pgbill.meter (
    key, unit_code, name, aggregation, unique_dimension, quantity_digits, quantity_rounding
)
VALUES (
    :key, :unit_code, :name, :aggregation, :unique_dimension, :quantity_digits,
    :quantity_rounding
)
ON CONFLICT (key) DO UPDATE
SET name = excluded.name;

-- name: change_tax_rate
UPDATE pgbill.tax_rate
SET
    valid_period = daterange(:begins_on, :ends_on),
    category = :category,
    rate = :rate,
    components = :components,
    legal_text = :legal_text
WHERE tax_rate.seller_country = :seller_country
    AND tax_rate.buyer_country = :buyer_country
    AND tax_rate.buyer_status = :buyer_status
    AND tax_rate.tax_class = :tax_class
    AND lower(tax_rate.valid_period) = :begins_on;

-- name: add_tax_rate
INSERT INTO pgbill.tax_rate (
    seller_country, buyer_country, buyer_status, tax_class, category, rate, components,
    valid_period, legal_text
)
VALUES (
    :seller_country, :buyer_country, :buyer_status, :tax_class, :category, :rate,
    :components, daterange(:begins_on, :ends_on), :legal_text
);
