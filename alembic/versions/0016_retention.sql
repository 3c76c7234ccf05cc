-- What usage is no longer kept, and when charges came.

CREATE TABLE pgbill.usage_retention (
    bucket integer NOT NULL,
    import_seq bigint NOT NULL,
    month_on date NOT NULL
        CONSTRAINT usage_retention_is_of_a_month CHECK (extract(DAY FROM month_on) = 1),
    record_count bigint NOT NULL
        CONSTRAINT usage_retention_record_count_is_positive CHECK (record_count > 0),
    earliest_at timestamptz NOT NULL,
    dropped_by text NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, import_seq, month_on)
);

CREATE INDEX usage_retention_month ON pgbill.usage_retention (month_on);

COMMENT ON TABLE pgbill.usage_retention IS
'How many records of which import were dropped with which month of usage, insert-only. '
'They had all been billed or rejected; no import may bring records of the month again.';
COMMENT ON COLUMN pgbill.usage_retention.month_on IS 'The first day of the month (UTC).';
COMMENT ON COLUMN pgbill.usage_retention.earliest_at IS 'The earliest time of these records.';

-- Of charges that are there already, the time of the migration is as good as any.
ALTER TABLE pgbill.charge
ADD COLUMN imported_at timestamptz NOT NULL DEFAULT clock_timestamp();

COMMENT ON COLUMN pgbill.charge.imported_at IS
'By the clock of the database. Nothing is decided by it: an audit asks whether a closing '
'that came later has billed the charge.';
