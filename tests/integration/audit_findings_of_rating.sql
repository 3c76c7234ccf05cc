-- What test_audit_findings.py does to accounts that buy all that there is (tests/varied.py),
-- written as in audit_findings.sql. :varied and :frugal are the ids of the two.

-- crime: a group that is billed as another
-- tables: invoice_line
-- shows: p6_line_differs_from_usage, p6_usage_billed_twice, p6_usage_not_billed
UPDATE pgbill.invoice_line
SET group_value = 'eu'
WHERE account_id = :varied AND kind = 'usage' AND group_value = 'us';

-- crime: a record without a region that is billed as one of all regions
-- tables: invoice_line
-- shows: p6_line_differs_from_usage, price_differs
UPDATE pgbill.invoice_line
SET (quantity, usage_count) = (16, 3)
WHERE account_id = :varied AND kind = 'usage' AND group_value IS NULL;

-- crime: late usage that bills another difference
-- tables: invoice_line
-- shows: p6_line_differs_from_usage, price_differs
UPDATE pgbill.invoice_line
SET quantity = quantity + 1
WHERE account_id = :varied AND kind = 'late_usage' AND group_value = 'eu';

-- crime: late usage that was known before
-- tables: invoice_line
-- shows: p6_line_differs_from_usage, p6_usage_billed_twice
UPDATE pgbill.invoice_line
SET usage_after_seq = 0
WHERE account_id = :varied AND kind = 'late_usage' AND group_value = 'eu';

-- crime: a correction that was made larger after it was billed
-- tables: usage_record
-- shows: p6_line_differs_from_usage
UPDATE pgbill.usage_record
SET quantity = -3
WHERE account_id = :varied AND corrects_key IS NOT NULL;

-- crime: usage whose region was changed after it was billed
-- tables: usage_record
-- shows: p6_line_differs_from_usage, p6_usage_not_billed
UPDATE pgbill.usage_record
SET dimensions = '{"region": "sa"}'
WHERE account_id = :varied AND quantity = 12;

-- crime: a line that waits and is lost
-- tables: carried_line
-- shows: p6_usage_not_billed
DELETE FROM pgbill.carried_line
WHERE account_id = :frugal AND line ->> 'kind' = 'usage';

-- crime: a line that waits with another quantity
-- tables: carried_line
-- shows: p6_line_differs_from_usage
UPDATE pgbill.carried_line
SET line = line || '{"quantity": 6}'
WHERE account_id = :frugal AND line ->> 'kind' = 'usage';

-- crime: a discount that is a cent too high
-- tables: invoice_line
-- shows: price_differs
UPDATE pgbill.invoice_line
SET discount_amount = discount_amount + 0.01
WHERE account_id = :varied AND kind = 'advance';

-- crime: tiers that were changed after they were billed
-- tables: invoice_line
-- shows: price_differs
UPDATE pgbill.invoice_line
SET rating_input = jsonb_set(rating_input, '{tiers,0,unit_amount}', '3')
WHERE account_id = :varied AND kind = 'usage' AND group_value = 'eu';

-- crime: a charge that a credit note bills again
-- tables: invoice_line
-- shows: charge_billed_twice
UPDATE pgbill.invoice_line
SET charge_id = (
    SELECT charge_id
    FROM pgbill.charge
    WHERE charge.account_id = :varied AND charge.key = 'credit'
)
WHERE account_id = :varied AND kind = 'unused_advance';

-- crime: a credit note whose prepaid credit is given to nobody
-- tables: invoice
-- shows: prepaid_overspent
UPDATE pgbill.invoice
SET prepaid_amount = -5
WHERE account_id = :varied AND kind = 'credit_note';

-- crime: tax that was rounded by another policy than the invoice says
-- tables: invoice, policy
-- shows: tax_differs_from_lines
INSERT INTO pgbill.policy (policy_id, tax_rounding) VALUES (999999, 'floor');
UPDATE pgbill.invoice
SET policy_id = 999999
WHERE account_id = :varied AND kind = 'credit_note';
