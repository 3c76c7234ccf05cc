-- The late usage of a price whose amounts do not depend on each other: measured alone. Rare, so
-- it is not inlined: all that rating may need to scan is opened for every batch.

CREATE OR REPLACE FUNCTION pgbill.measured_since(
    p_bucket integer,
    p_account_id bigint,
    p_meter_id integer,
    p_aggregation text,
    p_unique_dimension text,
    p_group_by text,
    p_from_at timestamptz,
    p_until_at timestamptz,
    p_after_seq bigint,
    p_through_seq bigint
)
RETURNS TABLE (group_value text, quantity numeric, record_count bigint)
LANGUAGE plpgsql
STABLE
PARALLEL SAFE
AS $$
BEGIN
    RETURN QUERY
    SELECT late.group_value, late.quantity, late.record_count
    FROM pgbill.measured(
        p_bucket, p_account_id, p_meter_id, p_aggregation, p_unique_dimension, p_group_by,
        p_from_at, p_until_at, p_after_seq, p_through_seq
    ) AS late;
END;
$$;

COMMENT ON FUNCTION pgbill.measured_since IS
'As pgbill.measured, in a plan of its own.';
