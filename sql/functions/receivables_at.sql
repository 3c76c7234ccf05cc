-- What is still to be paid at the end of a day: computed from documents, credit notes and
-- payments, none of which ever changes. A credit note that corrects an invoice counts there.
--
-- What an account has paid without saying for what fills its open invoices, those that were
-- payable first before the others; what is left of it has a row of its own. Nothing of this
-- is stored, so that a payment that comes with its number later moves nothing by hand.

CREATE OR REPLACE FUNCTION pgbill.receivables_at(p_on date)
RETURNS TABLE (
    bucket integer,
    account_id bigint,
    invoice_id bigint,
    imported_invoice_id bigint,
    number_text text,
    kind text,
    issued_on date,
    payable_on date,
    currency text,
    payable_amount numeric,
    credited_amount numeric,
    paid_amount numeric,
    open_amount numeric,
    state text
)
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    WITH issued AS (
        SELECT
            invoice.bucket,
            invoice.account_id,
            invoice.invoice_id,
            invoice_number.number_text,
            invoice.kind,
            invoice.issued_on,
            invoice.payable_on,
            invoice.currency,
            invoice.payable_amount,
            invoice.credited_invoice_id
        FROM pgbill.invoice
        LEFT JOIN pgbill.invoice_number
            ON
                invoice.bucket = invoice_number.bucket
                AND invoice.account_id = invoice_number.account_id
                AND invoice.invoice_id = invoice_number.invoice_id
                AND invoice.series_id = invoice_number.series_id
        WHERE invoice.mode = 'live' AND invoice.issued_on <= p_on
    ),

    credited AS (
        SELECT
            issued.bucket,
            issued.account_id,
            issued.credited_invoice_id AS invoice_id,
            sum(issued.payable_amount) AS amount
        FROM issued
        WHERE issued.credited_invoice_id IS NOT NULL
        GROUP BY issued.bucket, issued.account_id, issued.credited_invoice_id
    ),

    -- What was paid back for a credit note is paid back for the invoice that it corrects.
    paid AS (
        SELECT
            payment.bucket,
            payment.account_id,
            coalesce(issued.credited_invoice_id, payment.invoice_id) AS invoice_id,
            payment.imported_invoice_id,
            payment.currency,
            sum(payment.amount) AS amount
        FROM pgbill.payment
        LEFT JOIN issued
            ON
                payment.bucket = issued.bucket
                AND payment.account_id = issued.account_id
                AND payment.invoice_id = issued.invoice_id
        WHERE payment.paid_on <= p_on
        GROUP BY
            payment.bucket, payment.account_id,
            coalesce(issued.credited_invoice_id, payment.invoice_id),
            payment.imported_invoice_id, payment.currency
    ),

    item AS (
        SELECT
            issued.bucket,
            issued.account_id,
            issued.invoice_id,
            NULL::bigint AS imported_invoice_id,
            issued.number_text,
            issued.kind,
            issued.issued_on,
            issued.payable_on,
            issued.currency,
            issued.payable_amount,
            coalesce(credited.amount, 0) AS credited_amount,
            coalesce(paid.amount, 0) AS assigned_amount
        FROM issued
        LEFT JOIN credited
            ON
                issued.bucket = credited.bucket
                AND issued.account_id = credited.account_id
                AND issued.invoice_id = credited.invoice_id
        LEFT JOIN paid
            ON
                issued.bucket = paid.bucket
                AND issued.account_id = paid.account_id
                AND issued.invoice_id = paid.invoice_id
        WHERE issued.credited_invoice_id IS NULL
        UNION ALL
        SELECT
            imported_invoice.bucket,
            imported_invoice.account_id,
            NULL,
            imported_invoice.imported_invoice_id,
            imported_invoice.number_text,
            CASE WHEN imported_invoice.gross_amount < 0 THEN 'credit_note' ELSE 'invoice' END,
            imported_invoice.issued_on,
            imported_invoice.payable_on,
            imported_invoice.currency,
            imported_invoice.open_amount,
            0,
            coalesce(paid.amount, 0)
        FROM pgbill.imported_invoice
        LEFT JOIN paid
            ON
                imported_invoice.bucket = paid.bucket
                AND imported_invoice.account_id = paid.account_id
                AND imported_invoice.imported_invoice_id = paid.imported_invoice_id
        WHERE imported_invoice.issued_on <= p_on
    ),

    -- How much of what was paid on account is for the items before, in the order of payment.
    asking AS (
        SELECT
            item.bucket,
            item.account_id,
            item.invoice_id,
            item.imported_invoice_id,
            item.number_text,
            item.kind,
            item.issued_on,
            item.payable_on,
            item.currency,
            item.payable_amount,
            item.credited_amount,
            item.assigned_amount,
            asked.amount AS asked_amount,
            coalesce(
                sum(asked.amount) OVER (
                    PARTITION BY item.bucket, item.account_id, item.currency
                    ORDER BY
                        item.payable_on, item.issued_on, item.imported_invoice_id, item.invoice_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ),
                0
            ) AS asked_before
        FROM item
        CROSS JOIN LATERAL (
            SELECT
                greatest(item.payable_amount + item.credited_amount - item.assigned_amount, 0)
                    AS amount
        ) AS asked
    ),

    on_account AS (
        SELECT paid.bucket, paid.account_id, paid.currency, paid.amount
        FROM paid
        WHERE paid.invoice_id IS NULL AND paid.imported_invoice_id IS NULL
    ),

    settled AS (
        SELECT
            asking.bucket,
            asking.account_id,
            asking.invoice_id,
            asking.imported_invoice_id,
            asking.number_text,
            asking.kind,
            asking.issued_on,
            asking.payable_on,
            asking.currency,
            asking.payable_amount,
            asking.credited_amount,
            filled.amount AS filled_amount,
            asking.assigned_amount + filled.amount AS paid_amount,
            asking.payable_amount + asking.credited_amount
            - asking.assigned_amount - filled.amount AS open_amount
        FROM asking
        LEFT JOIN on_account
            ON
                asking.bucket = on_account.bucket
                AND asking.account_id = on_account.account_id
                AND asking.currency = on_account.currency
        CROSS JOIN LATERAL (
            SELECT
                greatest(
                    least(
                        asking.asked_amount,
                        coalesce(on_account.amount, 0) - asking.asked_before
                    ),
                    0
                ) AS amount
        ) AS filled
    )

    SELECT
        settled.bucket,
        settled.account_id,
        settled.invoice_id,
        settled.imported_invoice_id,
        settled.number_text,
        settled.kind,
        settled.issued_on,
        settled.payable_on,
        settled.currency,
        settled.payable_amount,
        settled.credited_amount,
        settled.paid_amount,
        settled.open_amount,
        CASE
            WHEN settled.open_amount = 0 THEN 'paid'
            WHEN sign(settled.open_amount)
                <> CASE WHEN settled.kind = 'credit_note' THEN -1 ELSE 1 END
                THEN 'overpaid'
            -- More paid back than was paid is no part of a payment.
            WHEN sign(settled.paid_amount) = sign(settled.open_amount) THEN 'partly_paid'
            ELSE 'open'
        END
    FROM settled
    UNION ALL
    SELECT
        on_account.bucket,
        on_account.account_id,
        NULL,
        NULL,
        NULL,
        'on_account',
        NULL,
        NULL,
        on_account.currency,
        0,
        0,
        on_account.amount - coalesce(used.amount, 0),
        coalesce(used.amount, 0) - on_account.amount,
        'overpaid'
    FROM on_account
    LEFT JOIN (
        SELECT
            settled.bucket,
            settled.account_id,
            settled.currency,
            sum(settled.filled_amount) AS amount
        FROM settled
        GROUP BY settled.bucket, settled.account_id, settled.currency
    ) AS used
        ON
            on_account.bucket = used.bucket
            AND on_account.account_id = used.account_id
            AND on_account.currency = used.currency
    WHERE on_account.amount <> coalesce(used.amount, 0);
$$;

COMMENT ON FUNCTION pgbill.receivables_at IS
'Every document that was issued up to a day, old ones included, with what of it was paid by '
'then; of kind on_account: what an account has paid without a document to fill.';
