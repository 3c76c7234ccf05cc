-- A month of usage gets its partition when its first record comes. Nobody who reads or
-- writes usage waits for it: the month is built aside and attached, which takes SHARE UPDATE
-- EXCLUSIVE on usage_record; its foreign keys take SHARE ROW EXCLUSIVE on account and meter,
-- so an import of accounts waits a moment, and a run does not. Make it a transaction of its
-- own, or that moment lasts as long as the caller's.

CREATE OR REPLACE FUNCTION pgbill.create_usage_partitions(p_months date[])
RETURNS integer
LANGUAGE plpgsql
SET search_path = ''
AS $$
DECLARE
    v_months date[];
    v_month date;
    v_name text;
    v_created_count integer := 0;
BEGIN
    -- The usual case: all are there, and nothing is locked.
    SELECT array_agg(DISTINCT date_trunc('month', wanted.month)::date) INTO v_months
    FROM unnest(p_months) AS wanted (month)
    WHERE to_regclass('pgbill.usage_record_' || to_char(wanted.month, 'YYYY_MM')) IS NULL;

    IF v_months IS NULL THEN
        RETURN 0;
    END IF;

    -- The first lock that a migration takes, so that the two meet here and nowhere else.
    LOCK TABLE pgbill.usage_import_state IN ROW EXCLUSIVE MODE;
    -- Two imports may want the same month: the second waits, and finds it.
    LOCK TABLE pgbill.usage_record IN SHARE UPDATE EXCLUSIVE MODE;

    FOREACH v_month IN ARRAY v_months LOOP
        v_name := 'usage_record_' || to_char(v_month, 'YYYY_MM');

        IF to_regclass('pgbill.' || v_name) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE pgbill.%I '
                '(LIKE pgbill.usage_record INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
                v_name
            );
            EXECUTE format(
                'COMMENT ON TABLE pgbill.%I IS %L',
                v_name, to_char(v_month, 'YYYY-MM') || ' (UTC) of usage_record.'
            );
            -- A statement trigger of the parent does not see who names the partition.
            EXECUTE format(
                'CREATE TRIGGER _20_freeze BEFORE UPDATE OR DELETE OR TRUNCATE ON pgbill.%I '
                'FOR EACH STATEMENT EXECUTE FUNCTION pgbill.freeze()',
                v_name
            );
            EXECUTE format(
                'GRANT SELECT ON pgbill.%I TO pgbill_worker, pgbill_reader', v_name
            );
            EXECUTE format(
                'ALTER TABLE pgbill.usage_record ATTACH PARTITION pgbill.%I '
                'FOR VALUES FROM (%L) TO (%L)',
                v_name,
                v_month::timestamp AT TIME ZONE 'UTC',
                (v_month + INTERVAL '1 month') AT TIME ZONE 'UTC'
            );
            v_created_count := v_created_count + 1;
        END IF;
    END LOOP;

    RETURN v_created_count;
END;
$$;

COMMENT ON FUNCTION pgbill.create_usage_partitions IS
'Create what is missing of the partitions for the months (UTC) of these days; '
'returns how many.';
