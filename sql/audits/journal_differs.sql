-- Each document is handed over once, balanced, and is still what was handed over.

CREATE OR REPLACE VIEW pgbill_audit.journal_differs AS
WITH exported AS (
    SELECT
        journal_entry.bucket,
        journal_entry.account_id,
        journal_entry.invoice_id,
        min(journal_entry.export_id) AS export_id,
        count(DISTINCT journal_entry.export_id) AS export_count,
        count(*) AS entry_count,
        count(DISTINCT journal_entry.entry_no) AS number_count,
        sum(journal_entry.amount) AS balance
    FROM pgbill.journal_entry
    GROUP BY journal_entry.bucket, journal_entry.account_id, journal_entry.invoice_id
),

again AS (
    SELECT
        entry.bucket,
        entry.account_id,
        entry.invoice_id,
        entry.entry_no,
        to_jsonb(entry) AS content
    FROM (
        SELECT
            array_agg(exported.bucket ORDER BY exported.invoice_id) AS buckets,
            array_agg(exported.account_id ORDER BY exported.invoice_id) AS account_ids,
            array_agg(exported.invoice_id ORDER BY exported.invoice_id) AS invoice_ids
        FROM exported
    ) AS every_document
    CROSS JOIN LATERAL pgbill.entries_of(
        every_document.buckets, every_document.account_ids, every_document.invoice_ids
    ) AS entry
),

kept AS (
    SELECT
        journal_entry.bucket,
        journal_entry.account_id,
        journal_entry.invoice_id,
        journal_entry.entry_no,
        to_jsonb(journal_entry) - 'export_id' AS content
    FROM pgbill.journal_entry
)

SELECT
    exported.bucket,
    exported.account_id,
    exported.invoice_id,
    exported.export_id,
    CASE
        WHEN exported.export_count > 1 OR exported.entry_count > exported.number_count
            THEN 'it was handed over more than once'
        ELSE 'its entries do not balance'
    END AS problem
FROM exported
WHERE exported.export_count > 1
    OR exported.entry_count > exported.number_count
    OR exported.balance <> 0
UNION
SELECT
    coalesce(kept.bucket, again.bucket) AS bucket,
    coalesce(kept.account_id, again.account_id) AS account_id,
    coalesce(kept.invoice_id, again.invoice_id) AS invoice_id,
    exported.export_id,
    'the document is not what was handed over' AS problem
FROM kept
FULL JOIN again USING (bucket, account_id, invoice_id, entry_no)
LEFT JOIN exported
    ON
        exported.bucket = coalesce(kept.bucket, again.bucket)
        AND exported.account_id = coalesce(kept.account_id, again.account_id)
        AND exported.invoice_id = coalesce(kept.invoice_id, again.invoice_id)
WHERE kept.content IS DISTINCT FROM again.content;

COMMENT ON VIEW pgbill_audit.journal_differs IS
'The ledger has a document twice, out of balance, or as it is not: what was handed over and '
'what was issued no longer agree.';
