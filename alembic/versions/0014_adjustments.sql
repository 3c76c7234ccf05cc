-- What is billed besides prices, what is taken off, and lines that wait for an invoice.

CREATE SEQUENCE pgbill.charge_id;

CREATE TABLE pgbill.charge (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    charge_id bigint NOT NULL DEFAULT nextval('pgbill.charge_id'),
    key text NOT NULL
        CONSTRAINT charge_key_is_not_empty CHECK (key <> ''),
    description text NOT NULL,
    quantity numeric NOT NULL DEFAULT 1
        CONSTRAINT charge_quantity_is_positive CHECK (quantity > 0),
    unit_code text NOT NULL DEFAULT 'C62',
    unit_amount numeric NOT NULL,
    per_quantity numeric NOT NULL DEFAULT 1
        CONSTRAINT charge_per_quantity_is_positive CHECK (per_quantity > 0),
    discount_amount numeric NOT NULL DEFAULT 0,
    tax_included boolean NOT NULL DEFAULT FALSE,
    tax_class text NOT NULL,
    service_on date NOT NULL,
    purchase_order text,
    contract_number text,
    cost_centre text,
    revenue_account text,
    PRIMARY KEY (bucket, account_id, charge_id),
    UNIQUE (bucket, account_id, key),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id)
);

COMMENT ON TABLE pgbill.charge IS
'One-off amounts, insert-only; the first closing after the service date bills each.';
COMMENT ON COLUMN pgbill.charge.key IS
'The producer''s key, unique within the account; importing it again changes nothing.';
COMMENT ON COLUMN pgbill.charge.unit_code IS 'UN/ECE code of the unit, such as C62.';
COMMENT ON COLUMN pgbill.charge.unit_amount IS
'Major units of the account''s currency; below zero it is a credit.';
COMMENT ON COLUMN pgbill.charge.per_quantity IS 'The unit amount is for so many units.';
COMMENT ON COLUMN pgbill.charge.discount_amount IS
'Taken off the line; below zero it is added.';
COMMENT ON COLUMN pgbill.charge.tax_included IS 'Whether its amounts include tax.';
COMMENT ON COLUMN pgbill.charge.service_on IS
'The day of the service; the tax rate of this day counts.';

CREATE SEQUENCE pgbill.discount_id;

CREATE TABLE pgbill.discount (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    discount_id bigint NOT NULL DEFAULT nextval('pgbill.discount_id'),
    key text NOT NULL
        CONSTRAINT discount_key_is_not_empty CHECK (key <> ''),
    description text NOT NULL,
    percent numeric
        CONSTRAINT discount_percent_is_0_to_100 CHECK (percent > 0 AND percent <= 100),
    amount numeric
        CONSTRAINT discount_amount_is_positive CHECK (amount > 0),
    subscription_id bigint,
    price_id integer REFERENCES pgbill.price (price_id),
    rank integer NOT NULL DEFAULT 0,
    active_period daterange NOT NULL
        CONSTRAINT discount_active_period_has_a_begin
        CHECK (NOT isempty(active_period) AND NOT lower_inf(active_period)),
    period_count integer
        CONSTRAINT discount_period_count_is_positive CHECK (period_count > 0),
    PRIMARY KEY (bucket, account_id, discount_id),
    UNIQUE (bucket, account_id, key),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id),
    FOREIGN KEY (bucket, account_id, subscription_id)
    REFERENCES pgbill.subscription (bucket, account_id, subscription_id),
    CONSTRAINT discount_is_a_percentage_or_an_amount
    CHECK (num_nulls(percent, amount) = 1)
);

CREATE INDEX discount_subscription
ON pgbill.discount (bucket, account_id, subscription_id);
CREATE INDEX discount_price ON pgbill.discount (price_id);

COMMENT ON TABLE pgbill.discount IS
'What is taken off the lines of an account: of a price first, then of a subscription, then '
'of all; among these by rank, then by key.';
COMMENT ON COLUMN pgbill.discount.percent IS 'Percent of what is left; null: it is an amount.';
COMMENT ON COLUMN pgbill.discount.amount IS
'Taken off once an invoice, never more than there is; null: it is a percentage.';
COMMENT ON COLUMN pgbill.discount.subscription_id IS 'Only its lines; null: all.';
COMMENT ON COLUMN pgbill.discount.price_id IS 'Only lines of this price; null: of all.';
COMMENT ON COLUMN pgbill.discount.active_period IS
'It counts for service that begins on one of these days.';
COMMENT ON COLUMN pgbill.discount.period_count IS
'It ends after so many billing periods, that of its first day included; null: it does not.';

CREATE SEQUENCE pgbill.prepaid_credit_id;

CREATE TABLE pgbill.prepaid_credit (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    prepaid_credit_id bigint NOT NULL DEFAULT nextval('pgbill.prepaid_credit_id'),
    key text NOT NULL
        CONSTRAINT prepaid_credit_key_is_not_empty CHECK (key <> ''),
    description text NOT NULL,
    amount numeric NOT NULL
        CONSTRAINT prepaid_credit_amount_is_positive CHECK (amount > 0),
    available_on date NOT NULL,
    PRIMARY KEY (bucket, account_id, prepaid_credit_id),
    UNIQUE (bucket, account_id, key),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id)
);

COMMENT ON TABLE pgbill.prepaid_credit IS
'What an account has paid in advance, insert-only; invoices take from it what they apply.';
COMMENT ON COLUMN pgbill.prepaid_credit.amount IS 'In the currency of the account.';
COMMENT ON COLUMN pgbill.prepaid_credit.available_on IS
'Invoices dated from this day on may use it.';

CREATE TABLE pgbill.credit_application (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    prepaid_credit_id bigint NOT NULL,
    invoice_id bigint NOT NULL,
    amount numeric NOT NULL
        CONSTRAINT credit_application_amount_is_not_zero CHECK (amount <> 0),
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, prepaid_credit_id, invoice_id),
    FOREIGN KEY (bucket, account_id, prepaid_credit_id)
    REFERENCES pgbill.prepaid_credit (bucket, account_id, prepaid_credit_id),
    FOREIGN KEY (bucket, account_id, invoice_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id)
);

CREATE INDEX credit_application_invoice
ON pgbill.credit_application (bucket, account_id, invoice_id);

COMMENT ON TABLE pgbill.credit_application IS
'How much of which prepaid credit an invoice has used, fenced and never changed.';
COMMENT ON COLUMN pgbill.credit_application.amount IS
'Taken from the credit; below zero: given back by a credit note.';

ALTER TABLE pgbill.billing_period
DROP CONSTRAINT billing_period_outcome_is_known,
ADD CONSTRAINT billing_period_outcome_is_known
CHECK (outcome IN ('invoiced', 'nothing_to_bill', 'carried_forward'));

COMMENT ON COLUMN pgbill.billing_period.outcome IS
'carried_forward: its lines wait for the next invoice, see carried_line.';

CREATE TABLE pgbill.carried_line (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    period_end date NOT NULL,
    line_no integer NOT NULL,
    line jsonb NOT NULL,
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, period_end, line_no),
    FOREIGN KEY (bucket, account_id, period_end)
    REFERENCES pgbill.billing_period (bucket, account_id, period_end)
);

COMMENT ON TABLE pgbill.carried_line IS
'The lines of a closing without an invoice, fenced and never changed: all of them zero, '
'or carried forward to the next.';
COMMENT ON COLUMN pgbill.carried_line.line IS 'As a row of invoice_line would be.';

ALTER TABLE pgbill.lease
DROP CONSTRAINT lease_outcome_is_known,
ADD CONSTRAINT lease_outcome_is_known
CHECK (
    outcome IN (
        'invoiced', 'nothing_to_bill', 'carried_forward', 'given_back', 'failed', 'parked',
        'unparked', 'revoked'
    )
);

ALTER TABLE pgbill.invoice
ADD COLUMN prepaid_amount numeric NOT NULL DEFAULT 0,
ADD COLUMN payable_amount numeric GENERATED ALWAYS AS (gross_amount - prepaid_amount) STORED,
-- Prepaid credit pays an invoice at most.
ADD CONSTRAINT invoice_prepaid_is_within_gross
CHECK (
    CASE
        WHEN kind = 'invoice' THEN prepaid_amount BETWEEN 0 AND greatest(gross_amount, 0)
        ELSE prepaid_amount <= 0
    END
);

COMMENT ON TABLE pgbill.invoice IS
'Issued invoices and credit notes. Never changed: what corrects one is another '
'document. The amounts of credit notes are below zero, so that sums are right.';
COMMENT ON COLUMN pgbill.invoice.prepaid_amount IS
'The part of the gross amount that prepaid credit has paid.';
COMMENT ON COLUMN pgbill.invoice.payable_amount IS 'Gross less prepaid amount.';

ALTER TABLE pgbill.invoice_line
DROP CONSTRAINT invoice_line_kind_is_known,
ADD CONSTRAINT invoice_line_kind_is_known
CHECK (
    kind IN (
        'advance', 'arrears', 'usage', 'late_usage', 'minimum', 'charge', 'unused_advance'
    )
),
ALTER COLUMN unit_amount DROP NOT NULL,
ADD COLUMN discount_amount numeric NOT NULL DEFAULT 0,
ADD COLUMN discounts jsonb,
ADD COLUMN tax_included_amount numeric,
ADD COLUMN group_value text,
ADD COLUMN charge_id bigint,
ADD COLUMN credited_invoice_id bigint,
ADD COLUMN credited_line_no integer;

CREATE INDEX invoice_line_charge ON pgbill.invoice_line (bucket, account_id, charge_id)
WHERE charge_id IS NOT NULL;
CREATE INDEX invoice_line_credited
ON pgbill.invoice_line (bucket, account_id, credited_invoice_id, credited_line_no)
WHERE credited_invoice_id IS NOT NULL;

COMMENT ON COLUMN pgbill.invoice_line.kind IS
'late_usage: usage of an earlier period that was imported after its closing; minimum: what '
'is missing to an agreed minimum; unused_advance: the part of an advance fee that was not '
'used, given back.';
COMMENT ON COLUMN pgbill.invoice_line.unit_amount IS
'Price of a unit, not rounded; null where the quantity is not priced by one amount.';
COMMENT ON COLUMN pgbill.invoice_line.discount_amount IS
'What was taken off its priced amount; net_amount is without it.';
COMMENT ON COLUMN pgbill.invoice_line.discounts IS
'What discount_amount is made of, in order: [{"key": …, "text": …, "amount": …}]; null: '
'nothing.';
COMMENT ON COLUMN pgbill.invoice_line.tax_included_amount IS
'The amount with tax, where the price includes it; net_amount is without. Else null.';
COMMENT ON COLUMN pgbill.invoice_line.group_value IS
'The value of the dimension that the price groups by; null: it does not.';
COMMENT ON COLUMN pgbill.invoice_line.charge_id IS 'The charge that it bills, or null.';
COMMENT ON COLUMN pgbill.invoice_line.credited_invoice_id IS
'The invoice whose advance fee it gives back, or null.';
COMMENT ON COLUMN pgbill.invoice_line.credited_line_no IS
'The line of that invoice; null with it.';

ALTER TYPE pgbill.draft ADD ATTRIBUTE policy_id integer;
