-- Number new invoices: the last thing that an issuing transaction does, since the row of
-- the series stays locked until it commits. A rolled-back transaction gives its numbers back.

CREATE OR REPLACE FUNCTION pgbill.draw_numbers(
    p_buckets integer[], p_account_ids bigint[], p_invoice_ids bigint[]
)
RETURNS void
LANGUAGE plpgsql
SET search_path = ''
SET enable_seqscan = off
AS $$
DECLARE
    v_invoices record;
    v_count bigint;
    v_now timestamptz;
BEGIN
    SELECT
        array_agg(invoice.series_id ORDER BY invoice.series_id) AS series_ids,
        array_agg(invoice.issued_on ORDER BY invoice.series_id) AS issued_on,
        array_agg(invoice.bucket ORDER BY invoice.series_id) AS buckets,
        array_agg(invoice.account_id ORDER BY invoice.series_id) AS account_ids,
        array_agg(invoice.invoice_id ORDER BY invoice.series_id) AS invoice_ids
    INTO v_invoices
    FROM unnest(p_buckets, p_account_ids, p_invoice_ids)
        AS own (bucket, account_id, invoice_id)
    INNER JOIN pgbill.invoice USING (bucket, account_id, invoice_id);

    -- In key order, or two workers with two series would deadlock.
    PERFORM
    FROM pgbill.number_series
    WHERE number_series.series_id = ANY(v_invoices.series_ids)
    ORDER BY number_series.series_id
    FOR NO KEY UPDATE;

    IF EXISTS (
        SELECT
        FROM unnest(v_invoices.series_ids, v_invoices.issued_on) AS own (series_id, issued_on)
        INNER JOIN pgbill.number_series USING (series_id)
        WHERE own.issued_on < number_series.last_issued_on
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV003',
            MESSAGE = 'the series has meanwhile issued an invoice with a later date',
            HINT = 'Issue again: the date is taken anew.';
    END IF;

    v_now := clock_timestamp();

    WITH drawn AS (
        UPDATE pgbill.number_series
        SET
            last_number = number_series.last_number + wanted.invoice_count,
            last_issued_on = wanted.issued_on,
            last_issued_at = v_now
        FROM (
            SELECT own.series_id, count(*) AS invoice_count, max(own.issued_on) AS issued_on
            FROM unnest(v_invoices.series_ids, v_invoices.issued_on)
                AS own (series_id, issued_on)
            GROUP BY own.series_id
        ) AS wanted
        WHERE number_series.series_id = wanted.series_id
        RETURNING
            number_series.series_id,
            number_series.prefix,
            number_series.digits,
            number_series.last_number - wanted.invoice_count AS base
    ),

    numbered_invoice AS (
        INSERT INTO pgbill.invoice_number (
            series_id, number, bucket, account_id, invoice_id, number_text, issued_on, issued_at
        )
        SELECT
            numbered.series_id,
            numbered.number,
            numbered.bucket,
            numbered.account_id,
            numbered.invoice_id,
            numbered.prefix
            || lpad(
                numbered.number::text,
                greatest(numbered.digits, length(numbered.number::text)),
                '0'
            ),
            numbered.issued_on,
            v_now
        FROM (
            SELECT
                drawn.series_id, drawn.prefix, drawn.digits, own.bucket, own.account_id,
                    own.invoice_id, own.issued_on,
                drawn.base + row_number() OVER (
                    PARTITION BY drawn.series_id ORDER BY own.issued_on, own.ordinality
                ) AS number
            FROM unnest(
                v_invoices.series_ids, v_invoices.buckets, v_invoices.account_ids,
                v_invoices.invoice_ids, v_invoices.issued_on
            ) WITH ORDINALITY
                AS own (series_id, bucket, account_id, invoice_id, issued_on, ordinality)
            INNER JOIN drawn USING (series_id)
        ) AS numbered
        RETURNING invoice_number.invoice_id
    )

    SELECT count(*) INTO v_count FROM numbered_invoice;

    -- An invoice without a number would be a hole in the books that no gap shows.
    ASSERT v_count = (SELECT count(invoice_id) FROM unnest(p_invoice_ids) AS own (invoice_id));
END;
$$;

COMMENT ON FUNCTION pgbill.draw_numbers IS
'Give invoices of the running transaction the next numbers of their series; IV003 '
'if a series has moved to a later date.';
