-- What a usage record is about, and which one it corrects.

ALTER TABLE pgbill.usage_record
DROP CONSTRAINT usage_record_quantity_is_not_negative,
ADD COLUMN dimensions jsonb
CONSTRAINT usage_record_dimensions_are_an_object
CHECK (jsonb_typeof(dimensions) = 'object'),
ADD COLUMN corrects_key text
CONSTRAINT usage_record_corrects_another CHECK (corrects_key <> key);

COMMENT ON COLUMN pgbill.usage_record.quantity IS
'Of its meter''s unit; below zero only where it corrects another, or changes a level.';
COMMENT ON COLUMN pgbill.usage_record.dimensions IS
'What prices group by and meters count, {"region": "eu"}; null: nothing is said.';
COMMENT ON COLUMN pgbill.usage_record.corrects_key IS
'The key of the record, at the same time, that its quantity is added to; null: none.';
