-- What accounts have used, and up to which import an invoice has seen it.

CREATE TABLE pgbill.usage_import_state (
    only_row boolean PRIMARY KEY DEFAULT TRUE
        CONSTRAINT usage_import_state_has_one_row CHECK (only_row),
    last_import_seq bigint NOT NULL DEFAULT 0
);

COMMENT ON TABLE pgbill.usage_import_state IS
'One row. An import of usage updates it first and holds it until it commits, so '
'imports queue.';

INSERT INTO pgbill.usage_import_state (only_row) VALUES (TRUE) ON CONFLICT DO NOTHING;

CREATE TABLE pgbill.usage_watermark (
    bucket integer NOT NULL,
    import_seq bigint NOT NULL,
    earliest_at timestamptz NOT NULL,
    record_count bigint NOT NULL,
    PRIMARY KEY (bucket, import_seq)
);

COMMENT ON TABLE pgbill.usage_watermark IS
'The imports that touched a bucket. The newest is the watermark that a closing stores.';
COMMENT ON COLUMN pgbill.usage_watermark.earliest_at IS
'The earliest time in the import; tells rating how far back late usage can lie.';

CREATE TABLE pgbill.usage_record (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    key text NOT NULL
        CONSTRAINT usage_record_key_is_not_empty CHECK (key <> ''),
    occurred_at timestamptz NOT NULL,
    meter_id integer NOT NULL REFERENCES pgbill.meter (meter_id),
    quantity numeric NOT NULL
        CONSTRAINT usage_record_quantity_is_not_negative CHECK (quantity >= 0),
    import_seq bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, key, occurred_at),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id)
) PARTITION BY RANGE (occurred_at);

CREATE INDEX usage_record_rating ON pgbill.usage_record (bucket, account_id, meter_id, occurred_at);
CREATE INDEX usage_record_meter ON pgbill.usage_record (meter_id);

COMMENT ON TABLE pgbill.usage_record IS
'Quantities of meters, by account and time, insert-only, partitioned by month '
'(UTC). Which line bills a record is told by the view usage_state.';
COMMENT ON COLUMN pgbill.usage_record.key IS
'The producer''s key, unique within the account; importing it again changes nothing.';
COMMENT ON COLUMN pgbill.usage_record.import_seq IS
'The import that brought it; a closing with a watermark below it has not seen it.';
