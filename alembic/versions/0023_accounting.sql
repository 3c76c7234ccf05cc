-- Payments, invoices of a system before, what was exported, and months that are closed.

ALTER TABLE pgbill.number_series
ADD COLUMN first_number bigint NOT NULL DEFAULT 1
CONSTRAINT number_series_first_number_is_positive CHECK (first_number > 0),
ADD CONSTRAINT number_series_last_number_is_not_before_the_first
CHECK (last_number >= first_number - 1);

COMMENT ON COLUMN pgbill.number_series.first_number IS
'The series begins with it: the numbers before were given by another system.';
COMMENT ON COLUMN pgbill.number_series.last_number IS
'One less than first_number before the first document.';

CREATE SEQUENCE pgbill.imported_invoice_id;

CREATE TABLE pgbill.imported_invoice (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    imported_invoice_id bigint NOT NULL DEFAULT nextval('pgbill.imported_invoice_id'),
    number_text text NOT NULL
        CONSTRAINT imported_invoice_number_is_not_empty CHECK (number_text <> ''),
    issued_on date NOT NULL,
    payable_on date NOT NULL,
    currency text NOT NULL REFERENCES pgbill.currency (currency),
    gross_amount numeric NOT NULL,
    open_amount numeric NOT NULL,
    imported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    imported_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (bucket, account_id, imported_invoice_id),
    UNIQUE (bucket, account_id, number_text),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id),
    CONSTRAINT imported_invoice_open_is_within_gross
    CHECK (open_amount BETWEEN least(gross_amount, 0) AND greatest(gross_amount, 0))
);

COMMENT ON TABLE pgbill.imported_invoice IS
'Invoices that another system has issued, insert-only: references to which payments can be '
'assigned. pgbill bills, mails and exports nothing of them.';
COMMENT ON COLUMN pgbill.imported_invoice.number_text IS
'As printed; one for a seller, as the import makes sure.';
COMMENT ON COLUMN pgbill.imported_invoice.gross_amount IS 'Below zero: a credit note.';
COMMENT ON COLUMN pgbill.imported_invoice.open_amount IS
'What was still to be paid when it was imported.';

CREATE SEQUENCE pgbill.payment_id;

CREATE TABLE pgbill.payment (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    payment_id bigint NOT NULL DEFAULT nextval('pgbill.payment_id'),
    key text NOT NULL
        CONSTRAINT payment_key_is_not_empty CHECK (key <> ''),
    invoice_id bigint,
    imported_invoice_id bigint,
    amount numeric NOT NULL
        CONSTRAINT payment_amount_is_not_zero CHECK (amount <> 0),
    currency text NOT NULL REFERENCES pgbill.currency (currency),
    paid_on date NOT NULL,
    payer text,
    reference text,
    imported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    imported_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (bucket, account_id, payment_id),
    UNIQUE (bucket, account_id, key),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id),
    FOREIGN KEY (bucket, account_id, invoice_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id),
    FOREIGN KEY (bucket, account_id, imported_invoice_id)
    REFERENCES pgbill.imported_invoice (bucket, account_id, imported_invoice_id),
    CONSTRAINT payment_is_for_one_invoice_at_most
    CHECK (num_nonnulls(invoice_id, imported_invoice_id) <= 1)
);

-- Imports look a key up whatever its account.
CREATE INDEX payment_key ON pgbill.payment (key);
CREATE INDEX payment_invoice ON pgbill.payment (bucket, account_id, invoice_id);
CREATE INDEX payment_imported_invoice
ON pgbill.payment (bucket, account_id, imported_invoice_id);

COMMENT ON TABLE pgbill.payment IS
'What has been paid, insert-only: a refund is another row, below zero.';
COMMENT ON COLUMN pgbill.payment.key IS
'That of the bank or the bookkeeping; one of a key, as the import makes sure.';
COMMENT ON COLUMN pgbill.payment.invoice_id IS
'The document that it is for; null: one of a system before, or on account.';
COMMENT ON COLUMN pgbill.payment.imported_invoice_id IS
'The invoice of a system before that it is for, or null.';
COMMENT ON COLUMN pgbill.payment.amount IS 'Received; below zero: paid back.';
COMMENT ON COLUMN pgbill.payment.payer IS 'Who has paid, as the bank says; null: unknown.';
COMMENT ON COLUMN pgbill.payment.reference IS
'The account''s key or the remittance text, as given; null: none was.';

CREATE TABLE pgbill.unmatched_payment (
    bucket integer NOT NULL,
    key text NOT NULL
        CONSTRAINT unmatched_payment_key_is_not_empty CHECK (key <> ''),
    invoice text,
    reference text,
    seller text,
    amount numeric NOT NULL
        CONSTRAINT unmatched_payment_amount_is_not_zero CHECK (amount <> 0),
    currency text,
    paid_on date NOT NULL,
    payer text,
    reason text NOT NULL,
    imported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    imported_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (bucket, key)
);

COMMENT ON TABLE pgbill.unmatched_payment IS
'Payments that matched nothing when they were imported and were let in all the same, '
'insert-only. One whose key is in payment by now has been assigned.';
COMMENT ON COLUMN pgbill.unmatched_payment.bucket IS 'The hash of the key: it has no account.';
COMMENT ON COLUMN pgbill.unmatched_payment.invoice IS 'The number as given; null: none was.';
COMMENT ON COLUMN pgbill.unmatched_payment.reference IS 'As given; null: none was.';
COMMENT ON COLUMN pgbill.unmatched_payment.seller IS 'As given; null: none was.';
COMMENT ON COLUMN pgbill.unmatched_payment.currency IS 'As given; null: none was.';
COMMENT ON COLUMN pgbill.unmatched_payment.payer IS 'As given; null: none was.';

CREATE TABLE pgbill.closed_month (
    month_on date PRIMARY KEY
        CONSTRAINT closed_month_begins_on_the_first CHECK (extract(DAY FROM month_on) = 1),
    closed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_by text NOT NULL
);

COMMENT ON TABLE pgbill.closed_month IS
'Months into which no document is issued any more, insert-only: the newest one closes all '
'before it as well.';
COMMENT ON COLUMN pgbill.closed_month.month_on IS 'Its first day.';

CREATE TABLE pgbill.journal_export (
    export_id bigint PRIMARY KEY
        CONSTRAINT journal_export_id_is_positive CHECK (export_id > 0),
    seller_id integer NOT NULL REFERENCES pgbill.seller (seller_id),
    through_on date NOT NULL,
    exported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    exported_by text NOT NULL
);

CREATE INDEX journal_export_seller ON pgbill.journal_export (seller_id);

COMMENT ON TABLE pgbill.journal_export IS
'Handing over documents to the ledger, numbered without gap, insert-only.';
COMMENT ON COLUMN pgbill.journal_export.through_on IS
'Documents dated up to this day, inclusive, that no export before had.';

CREATE TABLE pgbill.journal_entry (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    invoice_id bigint NOT NULL,
    entry_no integer NOT NULL,
    export_id bigint NOT NULL REFERENCES pgbill.journal_export (export_id),
    kind text NOT NULL
        CONSTRAINT journal_entry_kind_is_known
        CHECK (kind IN ('receivable', 'prepaid', 'revenue', 'tax')),
    amount numeric NOT NULL,
    currency text NOT NULL,
    revenue_account text,
    cost_centre text,
    tax_category text,
    tax_rate numeric,
    tax_amount numeric,
    service_period daterange,
    -- One entry of a number for a document: it is in one export.
    PRIMARY KEY (bucket, account_id, invoice_id, entry_no),
    FOREIGN KEY (bucket, account_id, invoice_id)
    REFERENCES pgbill.invoice (bucket, account_id, invoice_id)
);

CREATE INDEX journal_entry_export ON pgbill.journal_entry (export_id);

COMMENT ON TABLE pgbill.journal_entry IS
'What was exported of each document, insert-only; of each the sum is zero.';
COMMENT ON COLUMN pgbill.journal_entry.entry_no IS
'From 1 on for a document, so that no second export can have it.';
COMMENT ON COLUMN pgbill.journal_entry.kind IS
'receivable: still to be paid; prepaid: what prepaid credit has paid; revenue; tax.';
COMMENT ON COLUMN pgbill.journal_entry.amount IS 'Debit; below zero: credit.';
COMMENT ON COLUMN pgbill.journal_entry.revenue_account IS
'As on the lines; null: they have none, or it is no revenue.';
COMMENT ON COLUMN pgbill.journal_entry.tax_category IS 'Null on receivables and prepaid credit.';
COMMENT ON COLUMN pgbill.journal_entry.tax_rate IS
'Percent; null on receivables and prepaid credit.';
COMMENT ON COLUMN pgbill.journal_entry.tax_amount IS
'Of revenue: its part of the tax of the document, with the sign of amount; else null.';
COMMENT ON COLUMN pgbill.journal_entry.service_period IS
'The days that the revenue is for; else null.';

CREATE TABLE pgbill.journal_file (
    export_id bigint NOT NULL REFERENCES pgbill.journal_export (export_id),
    format text NOT NULL
        CONSTRAINT journal_file_format_is_known CHECK (format IN ('csv', 'datev', 'saft')),
    part_no integer NOT NULL,
    content bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (export_id, format, part_no)
);

COMMENT ON TABLE pgbill.journal_file IS
'The bytes that were handed over, in parts, insert-only: an export that is asked for again '
'is the same file, whatever pgbill writes by then.';
COMMENT ON COLUMN pgbill.journal_file.part_no IS 'The parts, from 1 on, make the file.';
