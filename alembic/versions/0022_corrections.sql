-- Credit notes that name what they correct, and who has corrected it, and why.

ALTER TABLE pgbill.invoice
ADD COLUMN credited_invoice_id bigint,
ADD COLUMN reason text,
ADD COLUMN issued_by text,
ADD FOREIGN KEY (bucket, account_id, credited_invoice_id)
REFERENCES pgbill.invoice (bucket, account_id, invoice_id),
ADD CONSTRAINT invoice_that_credits_another_is_a_credit_note
CHECK (
    credited_invoice_id IS NULL
    OR kind = 'credit_note' AND period_end IS NULL AND gross_amount <= 0
),
ADD CONSTRAINT invoice_correction_says_why_and_by_whom
CHECK (
    (reason IS NULL) = (issued_by IS NULL)
    AND (reason IS NOT NULL OR credited_invoice_id IS NULL)
);

CREATE INDEX invoice_credited ON pgbill.invoice (bucket, account_id, credited_invoice_id)
WHERE credited_invoice_id IS NOT NULL;

COMMENT ON COLUMN pgbill.invoice.credited_invoice_id IS
'The invoice that it corrects; null: it is no correction of another.';
COMMENT ON COLUMN pgbill.invoice.reason IS
'Why a person has issued it; null: a run has.';
COMMENT ON COLUMN pgbill.invoice.issued_by IS
'The person who has issued it; null: a run has.';

ALTER TABLE pgbill.invoice_line
DROP CONSTRAINT invoice_line_kind_is_known,
ADD CONSTRAINT invoice_line_kind_is_known
CHECK (
    kind IN (
        'advance', 'arrears', 'usage', 'late_usage', 'minimum', 'charge', 'unused_advance',
        'credit'
    )
),
ADD CONSTRAINT invoice_line_that_credits_names_a_line
CHECK (kind <> 'credit' OR num_nulls(credited_invoice_id, credited_line_no) = 0);

COMMENT ON COLUMN pgbill.invoice_line.kind IS
'late_usage: usage of an earlier period that was imported after its closing; minimum: what '
'is missing to an agreed minimum; unused_advance: the part of an advance fee that was not '
'used, given back; credit: what a credit note takes back of a line.';
COMMENT ON COLUMN pgbill.invoice_line.credited_invoice_id IS
'The invoice of which it gives something back (unused_advance, credit), or null.';

-- They have other parameters now.
DROP FUNCTION IF EXISTS pgbill.rate(integer[], bigint[], date, integer, boolean);
DROP FUNCTION IF EXISTS pgbill.rate_and_question(integer[], bigint[], date, integer);
DROP FUNCTION IF EXISTS pgbill.charge_parts(integer, bigint, date, date, integer, text);
