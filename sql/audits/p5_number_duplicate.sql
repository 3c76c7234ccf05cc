-- P5: a number is given once, and an invoice has one.

CREATE OR REPLACE VIEW pgbill_audit.p5_number_duplicate AS
SELECT
    number_series.seller_id,
    invoice_number.number_text,
    count(*) AS invoice_count,
    array_agg(invoice_number.invoice_id ORDER BY invoice_number.invoice_id) AS invoice_ids,
    'several documents of the seller have the number' AS problem
FROM pgbill.invoice_number
LEFT JOIN pgbill.number_series ON invoice_number.series_id = number_series.series_id
GROUP BY number_series.seller_id, invoice_number.number_text
HAVING count(*) > 1
UNION ALL
SELECT
    NULL,
    min(own.number_text),
    count(*),
    array_agg(own.invoice_id),
    format('the document has %s numbers', count(*))
FROM pgbill.invoice_number AS own
GROUP BY own.bucket, own.account_id, own.invoice_id
HAVING count(*) > 1
UNION ALL
SELECT
    NULL,
    min(counted.number_text),
    count(*),
    array_agg(counted.invoice_id ORDER BY counted.invoice_id),
    format('number %s of series %s was given more than once', counted.number, counted.series_id)
FROM pgbill.invoice_number AS counted
GROUP BY counted.series_id, counted.number
HAVING count(*) > 1;

COMMENT ON VIEW pgbill_audit.p5_number_duplicate IS
'Two documents have the same number, or one has two: they cannot be told apart in '
'the books.';
