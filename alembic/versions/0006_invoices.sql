-- What was closed and what was issued: insert-only, fenced, frozen.
--
-- The fenced tables have no foreign key to account: the fence finds the account's lease for
-- every row, and a lease has one.

CREATE TABLE pgbill.billing_period (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    period_end date NOT NULL,
    period_start date NOT NULL,
    outcome text NOT NULL
        CONSTRAINT billing_period_outcome_is_known
        CHECK (outcome IN ('invoiced', 'nothing_to_bill')),
    usage_seq bigint NOT NULL,
    run_id bigint,
    closed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, period_end),
    -- No gap: a period begins where another ends. The first one, which is empty, ends at
    -- its own beginning.
    FOREIGN KEY (bucket, account_id, period_start)
    REFERENCES pgbill.billing_period (bucket, account_id, period_end),
    CONSTRAINT billing_period_ends_after_it_starts CHECK (period_start <= period_end)
);

-- No overlap: only one period follows another, and only one is the first. Together with the
-- chain above the periods of an account form one line.
CREATE UNIQUE INDEX billing_period_has_one_successor
ON pgbill.billing_period (bucket, account_id, (nullif(period_start, period_end)))
NULLS NOT DISTINCT;

CREATE INDEX billing_period_run ON pgbill.billing_period (run_id);

COMMENT ON TABLE pgbill.billing_period IS
'The closed periods of an account, insert-only: a chain from its first day, without '
'gap or overlap.';
COMMENT ON COLUMN pgbill.billing_period.period_end IS
'The boundary, first day of the next period.';
COMMENT ON COLUMN pgbill.billing_period.period_start IS
'Equals period_end for the first, empty period of an account.';
COMMENT ON COLUMN pgbill.billing_period.usage_seq IS
'The watermark: imports up to this one were seen by the closing.';
COMMENT ON COLUMN pgbill.billing_period.run_id IS 'Null if no run closed it.';

CREATE SEQUENCE pgbill.invoice_id;

CREATE TABLE pgbill.invoice (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    invoice_id bigint NOT NULL DEFAULT nextval('pgbill.invoice_id'),
    kind text NOT NULL DEFAULT 'invoice'
        CONSTRAINT invoice_kind_is_known CHECK (kind IN ('invoice', 'credit_note')),
    mode text NOT NULL DEFAULT 'live'
        CONSTRAINT invoice_mode_is_known CHECK (mode IN ('live', 'test')),
    period_start date,
    period_end date,
    revision integer NOT NULL DEFAULT 1
        CONSTRAINT invoice_revision_is_positive CHECK (revision > 0),
    previous_revision integer GENERATED ALWAYS AS (nullif(revision, 1) - 1) STORED,
    series_id integer NOT NULL,
    issued_on date NOT NULL,
    tax_point_on date NOT NULL,
    payable_on date NOT NULL,
    currency text NOT NULL,
    net_amount numeric NOT NULL,
    tax_amount numeric NOT NULL,
    gross_amount numeric NOT NULL,
    exchange_rate numeric,
    home_tax_amount numeric,
    seller_snapshot_id integer NOT NULL,
    buyer jsonb NOT NULL,
    language text NOT NULL,
    delivery_channel text NOT NULL,
    recipients text[] NOT NULL,
    run_id bigint,
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, invoice_id),
    UNIQUE (bucket, account_id, period_end, revision),
    FOREIGN KEY (bucket, account_id, period_end)
    REFERENCES pgbill.billing_period (bucket, account_id, period_end),
    CONSTRAINT invoice_gross_is_net_plus_tax CHECK (gross_amount = net_amount + tax_amount),
    CONSTRAINT invoice_period_has_start_and_end
    CHECK ((period_start IS NULL) = (period_end IS NULL)),
    -- Without a period the unique key above would let any number of invoices through.
    CONSTRAINT invoice_is_for_a_period CHECK (kind = 'credit_note' OR period_end IS NOT NULL),
    CONSTRAINT invoice_has_a_recipient CHECK (cardinality(recipients) > 0)
);

COMMENT ON TABLE pgbill.invoice IS
'Issued invoices and credit notes. Never changed: what corrects one is another '
'document.';
COMMENT ON COLUMN pgbill.invoice.period_start IS 'That of the closing; null as period_end.';
COMMENT ON COLUMN pgbill.invoice.period_end IS
'The closing that it bills; null for credit notes.';
COMMENT ON COLUMN pgbill.invoice.previous_revision IS
'Null for the first; else the revision whose cancellation this one needs.';
COMMENT ON COLUMN pgbill.invoice.exchange_rate IS
'Home currency for one unit of the currency; null where both are the same or no law '
'asks.';
COMMENT ON COLUMN pgbill.invoice.home_tax_amount IS 'Tax in the seller''s home currency, or null.';
COMMENT ON COLUMN pgbill.invoice.buyer IS 'The account as it was when the invoice was issued.';
COMMENT ON COLUMN pgbill.invoice.recipients IS 'Addresses of role invoice at the time of issue.';
COMMENT ON COLUMN pgbill.invoice.run_id IS 'Null if no run issued it.';

CREATE TABLE pgbill.invoice_cancellation (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    period_end date NOT NULL,
    revision integer NOT NULL,
    credit_note_id bigint NOT NULL,
    reason text NOT NULL,
    cancelled_by text NOT NULL,
    cancelled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, period_end, revision),
    FOREIGN KEY (bucket, account_id, period_end, revision)
    REFERENCES pgbill.invoice (bucket, account_id, period_end, revision),
    FOREIGN KEY (bucket, account_id, credit_note_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id)
);

CREATE INDEX invoice_cancellation_credit_note
ON pgbill.invoice_cancellation (bucket, account_id, credit_note_id);

COMMENT ON TABLE pgbill.invoice_cancellation IS
'Which invoice was cancelled by which credit note; a further revision of a period '
'needs one.';

-- P1: a second invoice for a period exists only after the first was cancelled.
ALTER TABLE pgbill.invoice ADD FOREIGN KEY (bucket, account_id, period_end, previous_revision)
REFERENCES pgbill.invoice_cancellation (bucket, account_id, period_end, revision);

CREATE TABLE pgbill.invoice_line (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    invoice_id bigint NOT NULL,
    line_no integer NOT NULL,
    kind text NOT NULL
        CONSTRAINT invoice_line_kind_is_known
        CHECK (kind IN ('advance', 'arrears', 'usage', 'late_usage')),
    subscription_id bigint,
    price_id integer,
    meter_id integer,
    description text NOT NULL,
    quantity numeric NOT NULL,
    unit_code text NOT NULL,
    unit_amount numeric NOT NULL,
    net_amount numeric NOT NULL,
    tax_category text NOT NULL,
    tax_rate numeric NOT NULL,
    legal_text text,
    service_period daterange NOT NULL,
    usage_from_at timestamptz,
    usage_until_at timestamptz,
    usage_after_seq bigint,
    usage_through_seq bigint,
    usage_count bigint,
    purchase_order text,
    contract_number text,
    cost_centre text,
    revenue_account text,
    rating_input jsonb NOT NULL,
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, invoice_id, line_no),
    FOREIGN KEY (bucket, account_id, invoice_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id),
    CONSTRAINT invoice_line_of_usage_says_which
    CHECK (
        num_nulls(
            meter_id, usage_from_at, usage_until_at,
            usage_after_seq, usage_through_seq, usage_count
        ) = CASE WHEN kind IN ('usage', 'late_usage') THEN 0 ELSE 6 END
    )
);

COMMENT ON TABLE pgbill.invoice_line IS
'The lines of an invoice, each with what it was rated from.';
COMMENT ON COLUMN pgbill.invoice_line.kind IS
'late_usage: usage of an earlier period that was imported after its closing.';
COMMENT ON COLUMN pgbill.invoice_line.subscription_id IS 'Null on credit notes and charges.';
COMMENT ON COLUMN pgbill.invoice_line.price_id IS 'Null on credit notes and charges.';
COMMENT ON COLUMN pgbill.invoice_line.meter_id IS 'Null unless the line bills usage.';
COMMENT ON COLUMN pgbill.invoice_line.unit_amount IS 'Price of a unit, not rounded.';
COMMENT ON COLUMN pgbill.invoice_line.tax_rate IS 'Percent.';
COMMENT ON COLUMN pgbill.invoice_line.legal_text IS
'The sentence that the law wants for its tax category; null: none.';
COMMENT ON COLUMN pgbill.invoice_line.service_period IS 'The days that the line is for.';
COMMENT ON COLUMN pgbill.invoice_line.usage_from_at IS
'The line bills records of its meter from this time …';
COMMENT ON COLUMN pgbill.invoice_line.usage_until_at IS '… until before this time …';
COMMENT ON COLUMN pgbill.invoice_line.usage_after_seq IS '… of imports after this one …';
COMMENT ON COLUMN pgbill.invoice_line.usage_through_seq IS '… up to and with this one …';
COMMENT ON COLUMN pgbill.invoice_line.usage_count IS '… and found so many.';
COMMENT ON COLUMN pgbill.invoice_line.rating_input IS
'What pgbill.price was given; it gives net_amount again at any time.';

CREATE TYPE pgbill.draft AS (
    period_start date,
    period_end date,
    usage_seq bigint,
    lines pgbill.invoice_line []
);

COMMENT ON TYPE pgbill.draft IS
'What pgbill.rate makes of a period and pgbill.issue takes: lines without invoice '
'and number.';

CREATE TABLE pgbill.invoice_tax (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    invoice_id bigint NOT NULL,
    tax_category text NOT NULL,
    tax_rate numeric NOT NULL,
    taxable_amount numeric NOT NULL,
    tax_amount numeric NOT NULL,
    legal_text text,
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, invoice_id, tax_category, tax_rate),
    FOREIGN KEY (bucket, account_id, invoice_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id)
);

COMMENT ON TABLE pgbill.invoice_tax IS
'The tax of an invoice, computed once for each category and rate (EN 16931, BR-CO-17).';
COMMENT ON COLUMN pgbill.invoice_tax.tax_rate IS 'Percent.';
COMMENT ON COLUMN pgbill.invoice_tax.legal_text IS
'The sentence that the law wants for the category; null: none.';

CREATE TABLE pgbill.invoice_number (
    series_id integer NOT NULL REFERENCES pgbill.number_series (series_id),
    number bigint NOT NULL
        CONSTRAINT invoice_number_is_positive CHECK (number > 0),
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    invoice_id bigint NOT NULL,
    number_text text NOT NULL,
    issued_on date NOT NULL,
    issued_at timestamptz NOT NULL,
    PRIMARY KEY (series_id, number)
);

CREATE UNIQUE INDEX invoice_number_is_one_for_an_invoice
ON pgbill.invoice_number (bucket, account_id, invoice_id, series_id);

COMMENT ON TABLE pgbill.invoice_number IS
'The number of each invoice, drawn last in its transaction, so that no number is '
'ever lost.';
COMMENT ON COLUMN pgbill.invoice_number.number_text IS 'As printed, with the prefix of the series.';
