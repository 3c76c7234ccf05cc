-- How the payment of each invoice stands now, for lists and for people who query.

CREATE OR REPLACE VIEW pgbill.invoice_payment_state AS
SELECT
    receivable.bucket,
    receivable.account_id,
    receivable.invoice_id,
    receivable.imported_invoice_id,
    account.key AS account_key,
    seller.key AS seller_key,
    receivable.number_text,
    receivable.kind,
    receivable.issued_on,
    receivable.payable_on,
    receivable.currency,
    receivable.payable_amount,
    receivable.credited_amount,
    receivable.paid_amount,
    receivable.open_amount,
    receivable.state
FROM pgbill.receivables_at('infinity') AS receivable
INNER JOIN pgbill.account
    ON receivable.bucket = account.bucket AND receivable.account_id = account.account_id
INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
WHERE receivable.kind <> 'on_account';

COMMENT ON VIEW pgbill.invoice_payment_state IS
'What of each invoice is paid, with those of a system before; what was paid on account fills '
'the invoices that were payable first.';
COMMENT ON COLUMN pgbill.invoice_payment_state.invoice_id IS
'Null: another system has issued it.';
COMMENT ON COLUMN pgbill.invoice_payment_state.payable_amount IS
'After prepaid credit; of a system before, what was open when it was imported.';
COMMENT ON COLUMN pgbill.invoice_payment_state.credited_amount IS
'The credit notes that correct it, below zero.';
COMMENT ON COLUMN pgbill.invoice_payment_state.open_amount IS
'payable_amount + credited_amount - paid_amount; below zero the account is owed it.';
COMMENT ON COLUMN pgbill.invoice_payment_state.state IS
'open, partly_paid, paid (nothing is open) or overpaid.';
