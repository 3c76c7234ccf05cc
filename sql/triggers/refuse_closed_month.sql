-- What is closed has been declared and handed over: no document is dated into it any more,
-- whatever code writes it. Closing a month locks the table of documents, so whoever issues
-- is either counted by the closing or sees it here.

CREATE OR REPLACE FUNCTION pgbill.refuse_closed_month()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
DECLARE
    v_closed_until date;
    v_issued_on date;
BEGIN
    SELECT (max(closed_month.month_on) + interval '1 month')::date INTO v_closed_until
    FROM pgbill.closed_month;

    SELECT min(written.issued_on) INTO v_issued_on
    FROM written;

    IF v_issued_on < v_closed_until THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV008',
            MESSAGE = format(
                'a document cannot be dated %s: the books are closed until %s',
                v_issued_on, v_closed_until - 1
            ),
            HINT = 'Issue it with a later date.';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.refuse_closed_month IS
'Refuse documents that are dated into a closed month, or before it (IV008).';

CREATE OR REPLACE TRIGGER _20_refuse_closed_month
AFTER INSERT ON pgbill.invoice
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.refuse_closed_month();
