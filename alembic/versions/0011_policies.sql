-- The points on which billing systems differ, each a setting that an invoice names.

CREATE SEQUENCE pgbill.policy_id AS integer;

CREATE TABLE pgbill.policy (
    policy_id integer PRIMARY KEY DEFAULT nextval('pgbill.policy_id'),
    line_rounding text NOT NULL DEFAULT 'half_up'
        CONSTRAINT policy_line_rounding_is_known
        CHECK (line_rounding IN ('half_up', 'half_down', 'half_even', 'down', 'floor')),
    tax_rounding_scope text NOT NULL DEFAULT 'rate'
        CONSTRAINT policy_tax_rounding_scope_is_known
        CHECK (tax_rounding_scope IN ('line', 'rate', 'total')),
    tax_rounding text NOT NULL DEFAULT 'half_up'
        CONSTRAINT policy_tax_rounding_is_known
        CHECK (tax_rounding IN ('half_up', 'half_down', 'half_even', 'down', 'floor')),
    proration text NOT NULL DEFAULT 'actual'
        CONSTRAINT policy_proration_is_known
        CHECK (proration IN ('actual', 'second', 'actual_30', '30_360')),
    unused_advance text NOT NULL DEFAULT 'credit'
        CONSTRAINT policy_unused_advance_is_known
        CHECK (unused_advance IN ('credit', 'keep')),
    zero_invoice text NOT NULL DEFAULT 'issue'
        CONSTRAINT policy_zero_invoice_is_known CHECK (zero_invoice IN ('issue', 'skip')),
    negative_total text NOT NULL DEFAULT 'carry_forward'
        CONSTRAINT policy_negative_total_is_known
        CHECK (negative_total IN ('carry_forward', 'credit_note')),
    minimum_invoice jsonb NOT NULL DEFAULT '{}'
        CONSTRAINT policy_minimum_invoice_is_by_currency
        CHECK (jsonb_typeof(minimum_invoice) = 'object'),
    UNIQUE (
        line_rounding, tax_rounding_scope, tax_rounding, proration, unused_advance,
        zero_invoice, negative_total, minimum_invoice
    )
);

COMMENT ON TABLE pgbill.policy IS
'Sets of policies, insert-only: a seller has one, and each invoice names the one that it '
'was made by.';
COMMENT ON COLUMN pgbill.policy.line_rounding IS
'How the amount of a line is rounded, once; half_up is away from zero.';
COMMENT ON COLUMN pgbill.policy.tax_rounding_scope IS
'Where tax is rounded: for each line, once for each category and rate (EN 16931), or '
'once for the invoice.';
COMMENT ON COLUMN pgbill.policy.tax_rounding IS 'How tax is rounded there.';
COMMENT ON COLUMN pgbill.policy.proration IS
'How a part of a period is measured: its days of the actual period, its seconds, its '
'days of 30, or its days of a month of 30 days (30/360).';
COMMENT ON COLUMN pgbill.policy.unused_advance IS
'Whether the part of an advance fee that lies after the end of its price is credited.';
COMMENT ON COLUMN pgbill.policy.zero_invoice IS
'Whether an invoice of nothing but zeros is issued.';
COMMENT ON COLUMN pgbill.policy.negative_total IS
'Whether a total below zero waits for the next invoice, or is a credit note.';
COMMENT ON COLUMN pgbill.policy.minimum_invoice IS
'By currency: {"EUR": "5.00"}; a total below it waits for the next invoice.';

-- What every seller had so far: EN 16931, and the defaults above.
INSERT INTO pgbill.policy DEFAULT VALUES;

ALTER TABLE pgbill.seller
ADD COLUMN policy_id integer NOT NULL DEFAULT 1 REFERENCES pgbill.policy (policy_id);

COMMENT ON COLUMN pgbill.seller.policy_id IS
'The policies of its next invoices; 1 is what pgbill did before it had a choice.';

CREATE INDEX seller_policy ON pgbill.seller (policy_id);

-- All that was issued before was made by the first.
ALTER TABLE pgbill.invoice ADD COLUMN policy_id integer NOT NULL DEFAULT 1;


COMMENT ON COLUMN pgbill.invoice.policy_id IS 'The policies that it was made by.';

-- It takes the policy of rounding now.
DROP FUNCTION IF EXISTS pgbill.taxes_of(pgbill.invoice_line[], integer);
