-- What an invoice says of its buyer, copied at issue: later edits never alter it.

CREATE OR REPLACE FUNCTION pgbill.buyer_snapshot(p_account pgbill.account)
RETURNS jsonb
LANGUAGE sql
STABLE
PARALLEL SAFE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'key', (p_account).key,
    'legal_name', (p_account).legal_name,
    'street', (p_account).street,
    'street_2', (p_account).street_2,
    'postal_code', (p_account).postal_code,
    'city', (p_account).city,
    'region', (p_account).region,
    'country', (p_account).country,
    'tax_status', (p_account).tax_status,
    'vat_id', (p_account).vat_id,
    'registration_id', (p_account).registration_id,
    'customer_number', (p_account).customer_number,
    'zone', (p_account).zone,
    'net_days', (p_account).net_days,
    'end_of_month', (p_account).end_of_month,
    'discount_percent', (p_account).discount_percent,
    'discount_days', (p_account).discount_days,
    'payment_means', (p_account).payment_means,
    'buyer_reference', (p_account).buyer_reference,
    'electronic_address', (p_account).electronic_address,
    'electronic_address_scheme', (p_account).electronic_address_scheme
));

COMMENT ON FUNCTION pgbill.buyer_snapshot IS 'The parts of an account that an invoice copies.';
