-- Who issues invoices and who receives them, with all that an invoice says of both.

CREATE TABLE pgbill.currency (
    currency text PRIMARY KEY
        CONSTRAINT currency_is_three_capitals CHECK (currency ~ '^[A-Z]{3}$'),
    digits integer NOT NULL
        CONSTRAINT currency_digits_are_0_to_4 CHECK (digits BETWEEN 0 AND 4)
);

COMMENT ON TABLE pgbill.currency IS
'The currencies in use, with the minor digits of each (ISO 4217, list one).';
COMMENT ON COLUMN pgbill.currency.digits IS
'Amounts are rounded to this many decimals: 2 for EUR, 0 for JPY, 3 for KWD.';

-- ISO 4217 list one: active codes of money in circulation, without funds and metals.
INSERT INTO pgbill.currency (currency, digits)
SELECT listed.currency, grouped.digits
FROM (VALUES
    (0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'),
    (3, 'BHD IQD JOD KWD LYD OMR TND'),
    (2, 'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN'),
    (2, 'BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB'),
    (2, 'EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR'),
    (2, 'JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT'),
    (2, 'MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP'),
    (2, 'PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN'),
    (2, 'SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD'),
    (2, 'XCG YER ZAR ZMW ZWG')
) AS grouped (digits, currencies),
    regexp_split_to_table(grouped.currencies, ' ') AS listed (currency)
ON CONFLICT DO NOTHING;

CREATE SEQUENCE pgbill.seller_id AS integer;

CREATE TABLE pgbill.seller (
    seller_id integer PRIMARY KEY DEFAULT nextval('pgbill.seller_id'),
    key text NOT NULL UNIQUE,
    legal_name text NOT NULL,
    street text NOT NULL,
    street_2 text,
    postal_code text NOT NULL,
    city text NOT NULL,
    region text,
    country text NOT NULL
        CONSTRAINT seller_country_is_two_capitals CHECK (country ~ '^[A-Z]{2}$'),
    vat_id text,
    tax_number text,
    register_entry text,
    contact_name text,
    contact_email text,
    contact_phone text,
    bank_accounts jsonb NOT NULL DEFAULT '{}',
    legal_footers jsonb NOT NULL DEFAULT '{}',
    home_currency text NOT NULL REFERENCES pgbill.currency (currency),
    zone text NOT NULL,
    mail_from text NOT NULL
);

COMMENT ON TABLE pgbill.seller IS
'The legal entities that issue invoices. Written by pgbill catalog apply.';
COMMENT ON COLUMN pgbill.seller.bank_accounts IS
'By currency: {"EUR": {"iban": …, "bic": …, "bank": …}}.';
COMMENT ON COLUMN pgbill.seller.legal_footers IS 'By language: {"de": "…", "en": "…"}.';
COMMENT ON COLUMN pgbill.seller.zone IS
'IANA time zone; today in this zone is the default issue date.';
COMMENT ON COLUMN pgbill.seller.vat_id IS 'VAT id with its country prefix; null if it has none.';
COMMENT ON COLUMN pgbill.seller.region IS 'State or province, where addresses carry one.';

CREATE SEQUENCE pgbill.seller_snapshot_id AS integer;

CREATE TABLE pgbill.seller_snapshot (
    seller_snapshot_id integer PRIMARY KEY DEFAULT nextval('pgbill.seller_snapshot_id'),
    seller_id integer NOT NULL REFERENCES pgbill.seller (seller_id),
    content jsonb NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX seller_snapshot_newest
ON pgbill.seller_snapshot (seller_id, seller_snapshot_id);

COMMENT ON TABLE pgbill.seller_snapshot IS
'What a seller was, insert-only; an invoice names the newest of its day instead of '
'copying it.';
COMMENT ON COLUMN pgbill.seller_snapshot.content IS 'The row of seller as JSON.';

CREATE TABLE pgbill.number_series (
    series_id integer PRIMARY KEY,
    seller_id integer NOT NULL REFERENCES pgbill.seller (seller_id),
    kind text NOT NULL
        CONSTRAINT number_series_kind_is_known CHECK (kind IN ('invoice', 'credit_note')),
    mode text NOT NULL
        CONSTRAINT number_series_mode_is_known CHECK (mode IN ('live', 'test')),
    prefix text NOT NULL,
    digits integer NOT NULL DEFAULT 6
        CONSTRAINT number_series_digits_are_1_to_18 CHECK (digits BETWEEN 1 AND 18),
    last_number bigint NOT NULL DEFAULT 0
        CONSTRAINT number_series_last_number_is_not_negative CHECK (last_number >= 0),
    last_issued_on date NOT NULL DEFAULT '-infinity',
    last_issued_at timestamptz NOT NULL DEFAULT '-infinity',
    UNIQUE (seller_id, kind, mode),
    UNIQUE (seller_id, prefix)
);

CREATE SEQUENCE pgbill.series_id AS integer OWNED BY pgbill.number_series.series_id;
ALTER TABLE pgbill.number_series
ALTER COLUMN series_id SET DEFAULT nextval('pgbill.series_id');

COMMENT ON TABLE pgbill.number_series IS
'The gapless series of document numbers: one row, locked last in each issuing '
'transaction.';
COMMENT ON COLUMN pgbill.number_series.digits IS
'A number is written with at least this many digits, filled with zeros.';
COMMENT ON COLUMN pgbill.number_series.last_number IS '0 before the first document.';
COMMENT ON COLUMN pgbill.number_series.last_issued_on IS
'No document of the series is dated earlier than this; -infinity before the first.';

CREATE SEQUENCE pgbill.account_id;

CREATE TABLE pgbill.account (
    bucket integer NOT NULL,
    account_id bigint NOT NULL DEFAULT nextval('pgbill.account_id'),
    key text NOT NULL
        CONSTRAINT account_key_is_not_empty CHECK (key <> ''),
    seller_id integer NOT NULL REFERENCES pgbill.seller (seller_id),
    legal_name text NOT NULL
        CONSTRAINT account_legal_name_is_not_empty CHECK (legal_name <> ''),
    street text NOT NULL,
    street_2 text,
    postal_code text NOT NULL,
    city text NOT NULL,
    region text,
    country text NOT NULL
        CONSTRAINT account_country_is_two_capitals CHECK (country ~ '^[A-Z]{2}$'),
    tax_status text NOT NULL
        CONSTRAINT account_tax_status_is_known CHECK (tax_status IN ('business', 'consumer')),
    vat_id text,
    registration_id text,
    customer_number text,
    language text NOT NULL
        CONSTRAINT account_language_is_a_tag CHECK (language ~ '^[a-z]{2}(-[A-Z]{2})?$'),
    currency text NOT NULL REFERENCES pgbill.currency (currency),
    zone text NOT NULL,
    first_period_on date NOT NULL,
    anchor_on date NOT NULL,
    net_days integer NOT NULL DEFAULT 30
        CONSTRAINT account_net_days_are_0_to_365 CHECK (net_days BETWEEN 0 AND 365),
    end_of_month boolean NOT NULL DEFAULT FALSE,
    discount_percent numeric
        CONSTRAINT account_discount_percent_is_0_to_100
        CHECK (discount_percent > 0 AND discount_percent < 100),
    discount_days integer
        CONSTRAINT account_discount_days_are_not_negative CHECK (discount_days >= 0),
    payment_means text NOT NULL DEFAULT '30',
    buyer_reference text,
    electronic_address text,
    electronic_address_scheme text,
    recipients jsonb NOT NULL,
    delivery_channel text NOT NULL DEFAULT 'email'
        CONSTRAINT account_delivery_channel_is_known
        CHECK (delivery_channel IN ('email', 'folder')),
    PRIMARY KEY (bucket, account_id),
    UNIQUE (bucket, key),
    UNIQUE (bucket, account_id, seller_id, currency),
    -- The first byte of the key's MD5: the same on every machine and in every version.
    CONSTRAINT account_bucket_is_the_hash_of_its_key
    CHECK (bucket = ('x' || substr(md5(key), 1, 2))::bit(8)::integer),
    CONSTRAINT account_has_a_recipient_for_invoices
    CHECK (
        jsonb_typeof(recipients -> 'invoice') = 'array'
        AND jsonb_array_length(recipients -> 'invoice') > 0
    ),
    CONSTRAINT account_anchor_is_not_after_first_period CHECK (anchor_on <= first_period_on),
    CONSTRAINT account_discount_has_percent_and_days
    CHECK ((discount_percent IS NULL) = (discount_days IS NULL)),
    CONSTRAINT account_electronic_address_has_a_scheme
    CHECK ((electronic_address IS NULL) = (electronic_address_scheme IS NULL))
);

CREATE INDEX account_seller ON pgbill.account (seller_id);

COMMENT ON TABLE pgbill.account IS
'Billing accounts: who receives invoices. An invoice keeps a copy of what it used.';
COMMENT ON COLUMN pgbill.account.bucket IS
'0 to 255, the first byte of the MD5 of the key; never changes; first in every key.';
COMMENT ON COLUMN pgbill.account.key IS 'The key of the system that the account comes from.';
COMMENT ON COLUMN pgbill.account.zone IS
'IANA time zone; periods begin and end at midnight there.';
COMMENT ON COLUMN pgbill.account.first_period_on IS
'Nothing before this day is ever billed; advance fees are billed on it.';
COMMENT ON COLUMN pgbill.account.anchor_on IS
'Boundaries are this day plus n months, clamped to the end of the month.';
COMMENT ON COLUMN pgbill.account.net_days IS 'Days from issue until the invoice is payable.';
COMMENT ON COLUMN pgbill.account.end_of_month IS
'Whether payable_on moves to the end of the month that net_days reach.';
COMMENT ON COLUMN pgbill.account.discount_percent IS
'Early-payment discount in percent; null if none is granted.';
COMMENT ON COLUMN pgbill.account.discount_days IS
'Days within which the early-payment discount is granted.';
COMMENT ON COLUMN pgbill.account.payment_means IS
'UNTDID 4461 code: 30 credit transfer, 58 SEPA credit transfer, 59 SEPA direct debit.';
COMMENT ON COLUMN pgbill.account.electronic_address_scheme IS
'EAS code of the electronic address, such as 0088 or 9930.';
COMMENT ON COLUMN pgbill.account.recipients IS
'Addresses by role: {"invoice": ["ap@example.com"]}; the role invoice is never empty.';
COMMENT ON COLUMN pgbill.account.vat_id IS 'VAT id with its country prefix; null if it has none.';
