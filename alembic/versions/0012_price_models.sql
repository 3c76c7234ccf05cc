-- How usage is measured, and the ways in which a measure becomes an amount.

ALTER TABLE pgbill.meter
ADD COLUMN aggregation text NOT NULL DEFAULT 'sum'
CONSTRAINT meter_aggregation_is_known
CHECK (
    aggregation IN ('sum', 'count', 'maximum', 'last', 'unique_count', 'time_weighted')
),
ADD COLUMN unique_dimension text,
ADD COLUMN quantity_digits integer
CONSTRAINT meter_quantity_digits_are_0_to_12 CHECK (quantity_digits BETWEEN 0 AND 12),
ADD COLUMN quantity_rounding text NOT NULL DEFAULT 'half_up'
CONSTRAINT meter_quantity_rounding_is_known
CHECK (quantity_rounding IN ('half_up', 'half_down', 'half_even', 'down', 'up')),
ADD CONSTRAINT meter_unique_count_names_a_dimension
CHECK ((aggregation = 'unique_count') = (unique_dimension IS NOT NULL));

COMMENT ON COLUMN pgbill.meter.aggregation IS
'How the records of a period become one quantity. time_weighted: each record changes a '
'level that begins at 0; the quantity is its average over the period.';
COMMENT ON COLUMN pgbill.meter.unique_dimension IS
'The dimension whose different values unique_count counts; else null.';
COMMENT ON COLUMN pgbill.meter.quantity_digits IS
'The quantity is rounded to so many decimals before it is priced; null: it is not.';

ALTER TABLE pgbill.price
DROP CONSTRAINT price_model_is_known,
DROP CONSTRAINT price_model_flat_has_no_meter,
ADD CONSTRAINT price_model_is_known
CHECK (
    model IN (
        'flat', 'per_unit', 'package', 'graduated', 'volume', 'stairstep',
        'stairstep_cumulative', 'capacity', 'percentage', 'graduated_percentage', 'minimum',
        'maximum'
    )
),
ADD COLUMN group_by text,
ADD COLUMN tax_included boolean NOT NULL DEFAULT FALSE,
ADD COLUMN billing_interval text
CONSTRAINT price_billing_interval_is_known
CHECK (billing_interval IN ('weekly', 'monthly', 'quarterly', 'half_yearly', 'yearly')),
ADD CONSTRAINT price_model_goes_with_its_meter
CHECK (
    CASE
        WHEN model IN ('flat', 'minimum', 'maximum') THEN meter_id IS NULL
        WHEN model IN ('per_unit', 'percentage', 'graduated_percentage')
            THEN meter_id IS NOT NULL
        ELSE TRUE
    END
),
ADD CONSTRAINT price_of_spend_is_in_arrears
CHECK (model NOT IN ('minimum', 'maximum') OR timing = 'arrears'),
ADD CONSTRAINT price_grouped_has_a_meter CHECK (group_by IS NULL OR meter_id IS NOT NULL),
ADD CONSTRAINT price_of_usage_follows_the_account
CHECK (billing_interval IS NULL OR meter_id IS NULL);

COMMENT ON COLUMN pgbill.price.model IS
'How a quantity becomes an amount, see docs/prices.md; minimum and maximum are of what '
'its subscription is billed for a period.';
COMMENT ON COLUMN pgbill.price.meter_id IS
'Null: the quantity is that of the subscription, such as its seats.';
COMMENT ON COLUMN pgbill.price.group_by IS
'The dimension of usage whose values are billed on lines of their own; null: none.';
COMMENT ON COLUMN pgbill.price.tax_included IS 'Whether its amounts include tax.';
COMMENT ON COLUMN pgbill.price.billing_interval IS
'The period that its amount is for; null: that of the account.';

ALTER TABLE pgbill.price_version
ADD COLUMN per_quantity numeric NOT NULL DEFAULT 1
CONSTRAINT price_version_per_quantity_is_positive CHECK (per_quantity > 0),
ADD COLUMN package_size numeric
CONSTRAINT price_version_package_size_is_positive CHECK (package_size > 0),
ADD COLUMN free_quantity numeric NOT NULL DEFAULT 0
CONSTRAINT price_version_free_quantity_is_not_negative CHECK (free_quantity >= 0),
ADD COLUMN fixed_amount numeric NOT NULL DEFAULT 0
CONSTRAINT price_version_fixed_amount_is_not_negative CHECK (fixed_amount >= 0),
ADD COLUMN free_amount numeric
CONSTRAINT price_version_free_amount_is_not_negative CHECK (free_amount >= 0),
ADD COLUMN free_count bigint
CONSTRAINT price_version_free_count_is_not_negative CHECK (free_count >= 0),
ADD COLUMN record_minimum numeric
CONSTRAINT price_version_record_minimum_is_not_negative CHECK (record_minimum >= 0),
ADD COLUMN record_maximum numeric
CONSTRAINT price_version_record_maximum_is_not_below_minimum
CHECK (record_maximum >= coalesce(record_minimum, 0)),
ADD COLUMN bills_zero boolean NOT NULL DEFAULT FALSE,
ADD COLUMN minimum_amount numeric
CONSTRAINT price_version_minimum_amount_is_not_negative CHECK (minimum_amount >= 0),
ADD COLUMN maximum_amount numeric
CONSTRAINT price_version_maximum_amount_is_not_below_minimum
CHECK (maximum_amount >= coalesce(minimum_amount, 0));

COMMENT ON COLUMN pgbill.price_version.per_quantity IS
'The unit amount is for so many units.';
COMMENT ON COLUMN pgbill.price_version.package_size IS
'Quantities are counted in packages of so many units, rounded up; null: in units.';
COMMENT ON COLUMN pgbill.price_version.free_quantity IS
'So many units of a period cost nothing; taken off before packages are counted.';
COMMENT ON COLUMN pgbill.price_version.fixed_amount IS
'Of a percentage: what each record costs besides.';
COMMENT ON COLUMN pgbill.price_version.free_amount IS
'Of a percentage: records cost nothing until their sum or their number reaches its limit; '
'null: the sum has none.';
COMMENT ON COLUMN pgbill.price_version.free_count IS
'Of a percentage: see free_amount; null: the number has no limit.';
COMMENT ON COLUMN pgbill.price_version.record_minimum IS
'Of a percentage: the least that a record costs; null: nothing.';
COMMENT ON COLUMN pgbill.price_version.record_maximum IS
'Of a percentage: the most that a record costs; null: anything.';
COMMENT ON COLUMN pgbill.price_version.bills_zero IS
'Whether the flat amount of the first tier is billed for a quantity of zero.';
COMMENT ON COLUMN pgbill.price_version.minimum_amount IS
'The least that the price brings in a period; a line of its own makes up for it. Null: '
'nothing.';
COMMENT ON COLUMN pgbill.price_version.maximum_amount IS
'The most that the price brings in a period; null: anything.';

ALTER TABLE pgbill.price_tier
DROP CONSTRAINT price_tier_pkey,
ADD COLUMN group_value text NOT NULL DEFAULT '',
ADD COLUMN flat_amount numeric NOT NULL DEFAULT 0
CONSTRAINT price_tier_flat_amount_is_not_negative CHECK (flat_amount >= 0),
ADD PRIMARY KEY (price_id, begins_on, group_value, tier_no),
-- Two tiers that end at the same quantity, or two that never end, would leave it open which counts.
ADD CONSTRAINT price_tier_ends_where_no_other_does
UNIQUE NULLS NOT DISTINCT (price_id, begins_on, group_value, up_to);

COMMENT ON TABLE pgbill.price_tier IS
'The amounts of a version of a price, by quantity; where quantities do not matter there is '
'one tier.';
COMMENT ON COLUMN pgbill.price_tier.up_to IS
'The last quantity of the tier, which begins where the one before ends; null has no end. '
'If the last tier has an end, more usage than that fails the account.';
COMMENT ON COLUMN pgbill.price_tier.unit_amount IS
'Major units of the currency for each unit, any number of decimals; of percentages a '
'fraction: 0.01 is 1 %.';
COMMENT ON COLUMN pgbill.price_tier.group_value IS
'The value of the dimension that it is for; empty: all that have no tier of their own.';
COMMENT ON COLUMN pgbill.price_tier.flat_amount IS
'Added once if the quantity exceeds the tier before.';

ALTER TABLE pgbill.tax_rate
ADD COLUMN components numeric[],
ADD CONSTRAINT tax_rate_is_the_sum_of_its_components
CHECK (
    components IS NULL
    OR cardinality(components) = 2 AND rate = components[1] + components[2]
    OR cardinality(components) = 3 AND rate = components[1] + components[2] + components[3]
);

COMMENT ON COLUMN pgbill.tax_rate.components IS
'Several taxes on the same amount, none on another; null: it is one tax.';

-- pgbill.price does its work now, for every model.
DROP FUNCTION IF EXISTS pgbill.price(jsonb);
DROP FUNCTION IF EXISTS pgbill.price_of(numeric, numeric, integer, integer, integer);
