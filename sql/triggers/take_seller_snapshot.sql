-- Keep what a seller was: invoices name the snapshot, so a later edit never alters them.

CREATE OR REPLACE FUNCTION pgbill.take_seller_snapshot()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
AS $$
BEGIN
    INSERT INTO pgbill.seller_snapshot (seller_id, content)
    SELECT written.seller_id, to_jsonb(written)
    FROM written
    ORDER BY written.seller_id
    ON CONFLICT DO NOTHING;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION pgbill.take_seller_snapshot IS 'Copy a new or changed seller to seller_snapshot.';

CREATE OR REPLACE TRIGGER _30_take_seller_snapshot_of_new
AFTER INSERT ON pgbill.seller
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.take_seller_snapshot();

CREATE OR REPLACE TRIGGER _30_take_seller_snapshot_of_changed
AFTER UPDATE ON pgbill.seller
REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION pgbill.take_seller_snapshot();
