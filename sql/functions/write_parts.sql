-- Write the lines and taxes of a document whose head is written.

CREATE OR REPLACE FUNCTION pgbill.write_parts(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_token bigint,
    p_lines pgbill.invoice_line[],
    p_taxes pgbill.invoice_tax[]
)
RETURNS void
LANGUAGE plpgsql
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.invoice_line (
        bucket, account_id, invoice_id, line_no, kind, subscription_id, price_id, meter_id,
        description, quantity, unit_code, unit_amount, net_amount, tax_category, tax_rate, legal_text,
        service_period, usage_from_at, usage_until_at, usage_after_seq, usage_through_seq,
        usage_count, purchase_order, contract_number, cost_centre, revenue_account,
        rating_input, fencing_token, discount_amount, discounts, tax_included_amount, group_value,
        charge_id, credited_invoice_id, credited_line_no
    )
    SELECT
        p_bucket, p_account_id, p_invoice_id, line.ordinality, line.kind,
        line.subscription_id, line.price_id, line.meter_id, line.description, line.quantity,
        line.unit_code, line.unit_amount, line.net_amount, line.tax_category, line.tax_rate,
        line.legal_text, line.service_period, line.usage_from_at, line.usage_until_at,
        line.usage_after_seq, line.usage_through_seq, line.usage_count, line.purchase_order,
        line.contract_number, line.cost_centre, line.revenue_account, line.rating_input,
        p_token, line.discount_amount, line.discounts, line.tax_included_amount,
        line.group_value, line.charge_id, line.credited_invoice_id, line.credited_line_no
    FROM unnest(p_lines) WITH ORDINALITY AS line;

    INSERT INTO pgbill.invoice_tax (
        bucket, account_id, invoice_id, tax_category, tax_rate, taxable_amount, tax_amount,
        legal_text, fencing_token
    )
    SELECT
        p_bucket, p_account_id, p_invoice_id, tax.tax_category, tax.tax_rate,
        tax.taxable_amount, tax.tax_amount, tax.legal_text, p_token
    FROM unnest(p_taxes) AS tax;
END;
$$;

COMMENT ON FUNCTION pgbill.write_parts IS
'Write the lines, numbered as they stand, and the taxes of a document.';
