-- An invoice is never credited with more than is left of it. A clerk's lease lets one at a time
-- compute what is left; this is the last guard, whatever code writes.

CREATE OR REPLACE FUNCTION pgbill.limit_credit()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_wrong record;
BEGIN
    -- Two transactions that credit the same invoice meet here: the second waits, and sees
    -- what the first has taken.
    PERFORM
    FROM (
        SELECT DISTINCT every_row.bucket, every_row.account_id, every_row.credited_invoice_id
        FROM written AS every_row
        WHERE every_row.credited_invoice_id IS NOT NULL
    ) AS touched
    INNER JOIN pgbill.invoice
        ON
            touched.bucket = invoice.bucket
            AND touched.account_id = invoice.account_id
            AND touched.credited_invoice_id = invoice.invoice_id
    ORDER BY invoice.bucket, invoice.account_id, invoice.invoice_id
    FOR NO KEY UPDATE OF invoice;

    IF NOT found THEN
        RETURN NULL;
    END IF;

    SELECT
        invoice.account_id,
        invoice.invoice_id,
        invoice.kind,
        invoice.gross_amount,
        -taken.gross_amount AS taken_amount
    INTO v_wrong
    FROM (
        SELECT DISTINCT every_row.bucket, every_row.account_id, every_row.credited_invoice_id
        FROM written AS every_row
        WHERE every_row.credited_invoice_id IS NOT NULL
    ) AS touched
    INNER JOIN pgbill.invoice
        ON
            touched.bucket = invoice.bucket
            AND touched.account_id = invoice.account_id
            AND touched.credited_invoice_id = invoice.invoice_id
    CROSS JOIN LATERAL (
        SELECT
            sum(note.gross_amount) AS gross_amount,
            sum(note.prepaid_amount) AS prepaid_amount
        FROM pgbill.invoice AS note
        WHERE note.bucket = touched.bucket
            AND note.account_id = touched.account_id
            AND note.credited_invoice_id = touched.credited_invoice_id
    ) AS taken
    WHERE invoice.kind <> 'invoice'
        OR invoice.gross_amount + taken.gross_amount < 0
        OR invoice.prepaid_amount + taken.prepaid_amount < 0
    LIMIT 1;

    IF found THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV007',
            MESSAGE = format(
                'account %s: %s would be credited of document %s (%s), which has %s',
                v_wrong.account_id, v_wrong.taken_amount, v_wrong.invoice_id, v_wrong.kind,
                v_wrong.gross_amount
            ),
            HINT = 'See what is left of it: pgbill invoice show.';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.limit_credit IS
'Refuse to credit more of an invoice than it has, or anything of a credit note (IV007).';

CREATE OR REPLACE TRIGGER _20_limit_credit
AFTER INSERT ON pgbill.invoice
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.limit_credit();

-- The same of each line.

CREATE OR REPLACE FUNCTION pgbill.limit_line_credit()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_wrong record;
BEGIN
    IF NOT EXISTS (SELECT FROM written AS every_row WHERE every_row.kind = 'credit') THEN
        RETURN NULL;
    END IF;

    -- The head of the credit note has locked the invoice; of a line without it, this does.
    PERFORM
    FROM (
        SELECT DISTINCT every_row.bucket, every_row.account_id, every_row.credited_invoice_id
        FROM written AS every_row
        WHERE every_row.kind = 'credit'
    ) AS touched
    INNER JOIN pgbill.invoice
        ON
            touched.bucket = invoice.bucket
            AND touched.account_id = invoice.account_id
            AND touched.credited_invoice_id = invoice.invoice_id
    ORDER BY invoice.bucket, invoice.account_id, invoice.invoice_id
    FOR NO KEY UPDATE OF invoice;

    SELECT
        touched.account_id,
        touched.credited_invoice_id,
        touched.credited_line_no,
        line.net_amount,
        -taken.net_amount AS taken_amount
    INTO v_wrong
    FROM (
        SELECT DISTINCT
            every_row.bucket,
            every_row.account_id,
            every_row.invoice_id,
            every_row.credited_invoice_id,
            every_row.credited_line_no
        FROM written AS every_row
        WHERE every_row.kind = 'credit'
    ) AS touched
    INNER JOIN pgbill.invoice AS note
        ON
            touched.bucket = note.bucket
            AND touched.account_id = note.account_id
            AND touched.invoice_id = note.invoice_id
    LEFT JOIN pgbill.invoice_line AS line
        ON
            touched.bucket = line.bucket
            AND touched.account_id = line.account_id
            AND touched.credited_invoice_id = line.invoice_id
            AND touched.credited_line_no = line.line_no
    CROSS JOIN LATERAL (
        SELECT
            sum(credit.net_amount) AS net_amount,
            sum(coalesce(credit.tax_included_amount, credit.net_amount)) AS amount
        FROM pgbill.invoice_line AS credit
        WHERE credit.bucket = touched.bucket
            AND credit.account_id = touched.account_id
            AND credit.credited_invoice_id = touched.credited_invoice_id
            AND credit.credited_line_no = touched.credited_line_no
            AND credit.kind = 'credit'
    ) AS taken
    WHERE line.line_no IS NULL
        OR note.credited_invoice_id IS DISTINCT FROM touched.credited_invoice_id
        OR -taken.net_amount
        NOT BETWEEN least(line.net_amount, 0) AND greatest(line.net_amount, 0)
        OR -taken.amount
        NOT BETWEEN least(coalesce(line.tax_included_amount, line.net_amount), 0)
        AND greatest(coalesce(line.tax_included_amount, line.net_amount), 0)
    LIMIT 1;

    IF found THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV007',
            MESSAGE = format(
                'account %s: %s would be credited of line %s of document %s, which has %s',
                v_wrong.account_id, v_wrong.taken_amount, v_wrong.credited_line_no,
                v_wrong.credited_invoice_id, coalesce(v_wrong.net_amount::text, 'no such line')
            ),
            HINT = 'See what is left of it: pgbill invoice show.';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.limit_line_credit IS
'Refuse to credit more of a line than it has, or a line of another invoice than the credit '
'note names (IV007).';

CREATE OR REPLACE TRIGGER _20_limit_line_credit
AFTER INSERT ON pgbill.invoice_line
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.limit_line_credit();
