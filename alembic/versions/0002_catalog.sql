-- What is counted, what it costs, and how it is taxed.

CREATE SEQUENCE pgbill.meter_id AS integer;

CREATE TABLE pgbill.meter (
    meter_id integer PRIMARY KEY DEFAULT nextval('pgbill.meter_id'),
    key text NOT NULL UNIQUE,
    unit_code text NOT NULL,
    name text NOT NULL
);

COMMENT ON TABLE pgbill.meter IS 'What usage records count. Written by pgbill catalog apply.';
COMMENT ON COLUMN pgbill.meter.unit_code IS 'UN/ECE recommendation 20 code of the unit, such as C62.';

CREATE SEQUENCE pgbill.price_id AS integer;

CREATE TABLE pgbill.price (
    price_id integer PRIMARY KEY DEFAULT nextval('pgbill.price_id'),
    key text NOT NULL UNIQUE,
    seller_id integer NOT NULL REFERENCES pgbill.seller (seller_id),
    currency text NOT NULL REFERENCES pgbill.currency (currency),
    model text NOT NULL
        CONSTRAINT price_model_is_known CHECK (model IN ('flat', 'per_unit')),
    timing text NOT NULL
        CONSTRAINT price_timing_is_known CHECK (timing IN ('advance', 'arrears')),
    meter_id integer REFERENCES pgbill.meter (meter_id),
    unit_code text NOT NULL,
    tax_class text NOT NULL,
    revenue_account text,
    line_texts jsonb NOT NULL,
    UNIQUE (price_id, seller_id, currency),
    UNIQUE (price_id, meter_id),
    CONSTRAINT price_model_flat_has_no_meter CHECK ((model = 'flat') = (meter_id IS NULL)),
    CONSTRAINT price_of_usage_is_in_arrears CHECK (meter_id IS NULL OR timing = 'arrears'),
    CONSTRAINT price_line_texts_are_not_empty
    CHECK (jsonb_typeof(line_texts) = 'object' AND line_texts <> '{}')
);

CREATE INDEX price_seller ON pgbill.price (seller_id);
CREATE INDEX price_meter ON pgbill.price (meter_id);

COMMENT ON TABLE pgbill.price IS
'What a period, or a unit of a meter, costs; its amounts stand in price_tier, by '
'version.';
COMMENT ON COLUMN pgbill.price.model IS
'flat: an amount for each billing period; per_unit: an amount for each unit of the '
'meter.';
COMMENT ON COLUMN pgbill.price.timing IS
'advance: billed at the boundary where its period begins; arrears: where it ends.';
COMMENT ON COLUMN pgbill.price.meter_id IS 'Null for flat prices.';
COMMENT ON COLUMN pgbill.price.line_texts IS 'Text of the invoice line, by language.';

CREATE TABLE pgbill.price_version (
    price_id integer NOT NULL REFERENCES pgbill.price (price_id),
    begins_on date NOT NULL,
    PRIMARY KEY (price_id, begins_on)
);

COMMENT ON TABLE pgbill.price_version IS
'A price is never edited: from begins_on a new version counts for service that '
'begins then.';

CREATE TABLE pgbill.price_tier (
    price_id integer NOT NULL,
    begins_on date NOT NULL,
    tier_no integer NOT NULL
        CONSTRAINT price_tier_no_is_positive CHECK (tier_no > 0),
    up_to numeric
        CONSTRAINT price_tier_up_to_is_positive CHECK (up_to > 0),
    unit_amount numeric NOT NULL
        CONSTRAINT price_tier_unit_amount_is_not_negative CHECK (unit_amount >= 0),
    PRIMARY KEY (price_id, begins_on, tier_no),
    FOREIGN KEY (price_id, begins_on) REFERENCES pgbill.price_version (price_id, begins_on)
);

COMMENT ON TABLE pgbill.price_tier IS
'The amounts of a version of a price; flat and per-unit prices have one tier.';
COMMENT ON COLUMN pgbill.price_tier.up_to IS 'The last quantity of the tier; null has no end.';
COMMENT ON COLUMN pgbill.price_tier.unit_amount IS
'Major units of the currency for each unit; any number of decimals.';

CREATE SEQUENCE pgbill.tax_rate_id AS integer;

CREATE TABLE pgbill.tax_rate (
    tax_rate_id integer PRIMARY KEY DEFAULT nextval('pgbill.tax_rate_id'),
    seller_country text NOT NULL,
    buyer_country text NOT NULL,
    buyer_status text NOT NULL
        CONSTRAINT tax_rate_buyer_status_is_known
        CHECK (buyer_status IN ('business', 'consumer')),
    tax_class text NOT NULL,
    category text NOT NULL
        CONSTRAINT tax_rate_category_is_known
        CHECK (category IN ('S', 'Z', 'E', 'AE', 'K', 'G', 'O', 'L', 'M', 'B')),
    rate numeric NOT NULL
        CONSTRAINT tax_rate_rate_is_0_to_100 CHECK (rate BETWEEN 0 AND 100),
    valid_period daterange NOT NULL,
    legal_text text,
    CONSTRAINT tax_rate_only_one_is_valid_on_a_day
    EXCLUDE USING gist (
        seller_country WITH =,
        buyer_country WITH =,
        buyer_status WITH =,
        tax_class WITH =,
        valid_period WITH &&
    )
);

CREATE INDEX tax_rate_lookup
ON pgbill.tax_rate (buyer_country, tax_class, seller_country, buyer_status);

COMMENT ON TABLE pgbill.tax_rate IS
'The table of tax rates, chosen by the last day of the service.';
COMMENT ON COLUMN pgbill.tax_rate.category IS 'UNTDID 5305 code as used by EN 16931: S, Z, E, AE, …';
COMMENT ON COLUMN pgbill.tax_rate.rate IS 'Percent: 19 is 19 %.';
COMMENT ON COLUMN pgbill.tax_rate.legal_text IS
'The sentence that the law wants on the invoice, for reverse charge and exemptions.';
