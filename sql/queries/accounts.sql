-- How a file of accounts becomes accounts. `complete_account` has a row for each row of the
-- file, with the defaults filled in.

-- name: create
CREATE TEMPORARY TABLE staged_account (
    line bigint NOT NULL,
    key text NOT NULL,
    seller text NOT NULL,
    legal_name text NOT NULL,
    street text NOT NULL,
    street_2 text,
    postal_code text,
    city text NOT NULL,
    region text,
    country text NOT NULL,
    tax_status text,
    vat_id text,
    registration_id text,
    customer_number text,
    language text,
    currency text,
    zone text,
    first_period_on date NOT NULL,
    billing_interval text,
    anchor_on text,
    net_days integer,
    end_of_month boolean,
    discount_percent numeric,
    discount_days integer,
    payment_means text,
    buyer_reference text,
    electronic_address text,
    electronic_address_scheme text,
    email jsonb,
    recipients jsonb,
    delivery_channel text
);

-- name: drop
DROP TABLE IF EXISTS pg_temp.staged_account, pg_temp.complete_account;

-- name: lock_leases
-- First, as migrations begin here too.
LOCK TABLE pgbill.lease IN ROW EXCLUSIVE MODE;

-- name: lock_accounts
-- Imports of accounts queue; a run does not notice.
LOCK TABLE pgbill.account IN SHARE ROW EXCLUSIVE MODE;

-- name: complete
CREATE TEMPORARY TABLE complete_account AS
SELECT
    staged.line,
    pgbill.bucket_of(staged.key) AS bucket,
    staged.key,
    account.account_id,
    staged.seller AS seller_key,
    seller.seller_id,
    staged.legal_name,
    staged.street,
    staged.street_2,
    coalesce(staged.postal_code, '') AS postal_code,
    staged.city,
    staged.region,
    staged.country,
    coalesce(
        staged.tax_status,
        CASE WHEN staged.vat_id IS NULL THEN 'consumer' ELSE 'business' END
    ) AS tax_status,
    staged.vat_id,
    staged.registration_id,
    staged.customer_number,
    coalesce(staged.language, 'en') AS language,
    coalesce(staged.currency, account.currency, seller.home_currency) AS currency,
    coalesce(staged.zone, account.zone, seller.zone) AS zone,
    staged.first_period_on,
    given.billing_interval,
    CASE
        WHEN staged.anchor_on = 'calendar' THEN given.calendar_on
        ELSE coalesce(staged.anchor_on::date, account.anchor_on, staged.first_period_on)
    END AS anchor_on,
    coalesce(staged.net_days, 30) AS net_days,
    coalesce(staged.end_of_month, FALSE) AS end_of_month,
    staged.discount_percent,
    staged.discount_days,
    coalesce(staged.payment_means, '30') AS payment_means,
    staged.buyer_reference,
    staged.electronic_address,
    staged.electronic_address_scheme,
    staged.email IS NOT NULL AND staged.recipients IS NOT NULL AS has_both,
    coalesce(staged.delivery_channel, 'email') AS delivery_channel,
    coalesce(
        staged.recipients,
        CASE WHEN staged.email <> '[]' THEN jsonb_build_object('invoice', staged.email) END,
        -- A folder needs no address, but its messages carry one: the account's key.
        CASE
            WHEN staged.delivery_channel = 'folder'
                THEN jsonb_build_object('invoice', jsonb_build_array(staged.key))
        END
    ) AS recipients
FROM pg_temp.staged_account AS staged
LEFT JOIN pgbill.seller ON staged.seller = seller.key
LEFT JOIN pgbill.account
    ON account.bucket = pgbill.bucket_of(staged.key) AND staged.key = account.key
CROSS JOIN LATERAL (
    SELECT
        chosen.billing_interval,
        CASE chosen.billing_interval
            WHEN 'weekly' THEN date_trunc('week', staged.first_period_on::timestamp)::date
            WHEN 'monthly' THEN date_trunc('month', staged.first_period_on::timestamp)::date
            WHEN 'quarterly'
                THEN date_trunc('quarter', staged.first_period_on::timestamp)::date
            WHEN 'half_yearly'
                THEN make_date(
                    extract(YEAR FROM staged.first_period_on)::integer,
                    CASE WHEN extract(MONTH FROM staged.first_period_on) < 7 THEN 1 ELSE 7 END,
                    1
                )
            WHEN 'yearly' THEN date_trunc('year', staged.first_period_on::timestamp)::date
        END AS calendar_on
    FROM (
        SELECT coalesce(staged.billing_interval, account.billing_interval, 'monthly')
    ) AS chosen (billing_interval)
) AS given;

-- name: problems
WITH zone AS MATERIALIZED (
    SELECT pg_timezone_names.name
    FROM pg_catalog.pg_timezone_names
    WHERE pg_timezone_names.name !~ '^(posix|right)/|^(localtime|posixrules|Factory)$'
),

repeated AS (
    SELECT
        content.line,
        content.key,
        first_value(content.line) OVER same_key AS first_line,
        content.whole,
        first_value(content.whole) OVER same_key AS first_whole
    FROM (
        SELECT
            complete_account.line,
            complete_account.key,
            to_jsonb(complete_account) - 'line' AS whole
        FROM pg_temp.complete_account
    ) AS content
    WINDOW same_key AS (PARTITION BY content.key ORDER BY content.line)
),

problem AS (
    SELECT
        complete_account.line,
        'seller' AS column_name,
        format('there is no seller %s', complete_account.seller_key) AS reason
    FROM pg_temp.complete_account
    WHERE complete_account.seller_id IS NULL
    UNION ALL
    SELECT
        complete_account.line,
        'currency',
        format('there is no currency %s', complete_account.currency)
    FROM pg_temp.complete_account
    WHERE complete_account.currency NOT IN (SELECT currency.currency FROM pgbill.currency)
    UNION ALL
    SELECT
        complete_account.line,
        'zone',
        format('there is no time zone %s (write it as in Europe/Berlin)', complete_account.zone)
    FROM pg_temp.complete_account
    WHERE complete_account.zone NOT IN (SELECT zone.name FROM zone)
    UNION ALL
    SELECT
        complete_account.line,
        'anchor_on',
        format(
            '%s is after first_period_on, %s',
            complete_account.anchor_on, complete_account.first_period_on
        )
    FROM pg_temp.complete_account
    WHERE complete_account.anchor_on > complete_account.first_period_on
    UNION ALL
    SELECT
        complete_account.line,
        'discount_percent',
        'an early-payment discount has both discount_percent and discount_days'
    FROM pg_temp.complete_account
    WHERE (complete_account.discount_percent IS NULL) <> (complete_account.discount_days IS NULL)
    UNION ALL
    SELECT
        complete_account.line,
        'discount_percent',
        format('%s is not above 0 and below 100', complete_account.discount_percent)
    FROM pg_temp.complete_account
    WHERE complete_account.discount_percent <= 0 OR complete_account.discount_percent >= 100
    UNION ALL
    SELECT
        complete_account.line,
        'electronic_address',
        'electronic_address and electronic_address_scheme belong together'
    FROM pg_temp.complete_account
    WHERE (complete_account.electronic_address IS NULL)
        <> (complete_account.electronic_address_scheme IS NULL)
    UNION ALL
    SELECT complete_account.line, 'email', 'give either email or recipients'
    FROM pg_temp.complete_account
    WHERE complete_account.has_both
    UNION ALL
    SELECT
        complete_account.line,
        'email',
        CASE complete_account.delivery_channel
            WHEN 'email' THEN 'the account has no address to send invoices to'
            ELSE 'the recipients have no address of role invoice'
        END
    FROM pg_temp.complete_account
    WHERE coalesce(complete_account.recipients #>> '{invoice,0}', '') = ''
    UNION ALL
    SELECT
        complete_account.line,
        fixed.column_name,
        format(
            'it is %s since the account was first imported, and cannot become %s',
            fixed.old_value, fixed.new_value
        )
    FROM pg_temp.complete_account
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
    CROSS JOIN LATERAL (
        VALUES
        ('seller', seller.key, complete_account.seller_key),
        ('currency', account.currency, complete_account.currency),
        (
            'billing_interval', account.billing_interval, complete_account.billing_interval
        ),
        (
            'first_period_on',
            account.first_period_on::text,
            complete_account.first_period_on::text
        ),
        ('anchor_on', account.anchor_on::text, complete_account.anchor_on::text)
    ) AS fixed (column_name, old_value, new_value)
    WHERE fixed.old_value <> fixed.new_value
    UNION ALL
    SELECT
        repeated.line,
        'key',
        format(
            '%s stands in line %s already, with another %s',
            repeated.key,
            repeated.first_line,
            (
                SELECT string_agg(member.key, ', ' ORDER BY member.key)
                FROM jsonb_each(repeated.whole) AS member
                WHERE member.value IS DISTINCT FROM repeated.first_whole -> member.key
                    AND member.key NOT IN ('seller_id', 'account_id')
            )
        )
    FROM repeated
    WHERE repeated.whole <> repeated.first_whole
)

SELECT
    problem.line,
    problem.column_name,
    problem.reason,
    count(*) OVER () AS problem_count
FROM problem
ORDER BY problem.line, problem.column_name, problem.reason
LIMIT 20;

-- name: revoke_leases
-- Rated lines depend on these: nobody may hold some that were rated before the change.
SELECT pgbill.revoke_leases(
    array_agg(account.bucket ORDER BY account.bucket, account.account_id),
    array_agg(account.account_id ORDER BY account.bucket, account.account_id),
    'the account was imported with changes'
)
FROM (
    SELECT DISTINCT
        complete_account.bucket, complete_account.account_id, complete_account.country,
        complete_account.tax_status, complete_account.vat_id, complete_account.language,
        complete_account.zone
    FROM pg_temp.complete_account
) AS complete
INNER JOIN pgbill.account USING (bucket, account_id)
WHERE (
    account.country, account.tax_status, account.vat_id, account.language, account.zone
) IS DISTINCT FROM (
    complete.country, complete.tax_status, complete.vat_id, complete.language, complete.zone
);

-- name: move_first_boundaries
-- Of accounts that were never closed nothing is cut yet: their first day begins in the new
-- zone. Of the others the boundary that is due stays where it is, and the next is counted
-- in the new zone. A thousand at a time, as the trigger on the lease compares each row that
-- a statement touches with each other (50,000 at once took more than ten minutes).
UPDATE pgbill.lease
SET due_at = moved.due_at
FROM (
    SELECT DISTINCT
        lease.bucket,
        lease.account_id,
        pgbill.local_midnight(lease.due_on, complete_account.zone) AS due_at
    FROM pg_temp.complete_account
    INNER JOIN pgbill.account USING (bucket, account_id)
    INNER JOIN pgbill.lease USING (bucket, account_id)
    WHERE complete_account.zone <> account.zone
        AND lease.due_at <> pgbill.local_midnight(lease.due_on, complete_account.zone)
        AND NOT EXISTS (
            SELECT
            FROM pgbill.billing_period
            WHERE billing_period.bucket = lease.bucket
                AND billing_period.account_id = lease.account_id
        )
    ORDER BY lease.bucket, lease.account_id
    LIMIT 1000
) AS moved
WHERE lease.bucket = moved.bucket AND lease.account_id = moved.account_id;

-- name: update
UPDATE pgbill.account
SET
    legal_name = complete.legal_name,
    street = complete.street,
    street_2 = complete.street_2,
    postal_code = complete.postal_code,
    city = complete.city,
    region = complete.region,
    country = complete.country,
    tax_status = complete.tax_status,
    vat_id = complete.vat_id,
    registration_id = complete.registration_id,
    customer_number = complete.customer_number,
    language = complete.language,
    zone = complete.zone,
    net_days = complete.net_days,
    end_of_month = complete.end_of_month,
    discount_percent = complete.discount_percent,
    discount_days = complete.discount_days,
    payment_means = complete.payment_means,
    buyer_reference = complete.buyer_reference,
    electronic_address = complete.electronic_address,
    electronic_address_scheme = complete.electronic_address_scheme,
    recipients = complete.recipients,
    delivery_channel = complete.delivery_channel
FROM (
    SELECT DISTINCT ON (complete_account.bucket, complete_account.account_id)
        complete_account.bucket,
        complete_account.account_id,
        complete_account.legal_name,
        complete_account.street,
        complete_account.street_2,
        complete_account.postal_code,
        complete_account.city,
        complete_account.region,
        complete_account.country,
        complete_account.tax_status,
        complete_account.vat_id,
        complete_account.registration_id,
        complete_account.customer_number,
        complete_account.language,
        complete_account.zone,
        complete_account.net_days,
        complete_account.end_of_month,
        complete_account.discount_percent,
        complete_account.discount_days,
        complete_account.payment_means,
        complete_account.buyer_reference,
        complete_account.electronic_address,
        complete_account.electronic_address_scheme,
        complete_account.recipients,
        complete_account.delivery_channel
    FROM pg_temp.complete_account
    WHERE complete_account.account_id IS NOT NULL
    ORDER BY complete_account.bucket, complete_account.account_id
) AS complete
WHERE account.bucket = complete.bucket
    AND account.account_id = complete.account_id
    AND (
        account.legal_name,
        account.street,
        account.street_2,
        account.postal_code,
        account.city,
        account.region,
        account.country,
        account.tax_status,
        account.vat_id,
        account.registration_id,
        account.customer_number,
        account.language,
        account.zone,
        account.net_days,
        account.end_of_month,
        account.discount_percent,
        account.discount_days,
        account.payment_means,
        account.buyer_reference,
        account.electronic_address,
        account.electronic_address_scheme,
        account.recipients,
        account.delivery_channel
    ) IS DISTINCT FROM (
        complete.legal_name,
        complete.street,
        complete.street_2,
        complete.postal_code,
        complete.city,
        complete.region,
        complete.country,
        complete.tax_status,
        complete.vat_id,
        complete.registration_id,
        complete.customer_number,
        complete.language,
        complete.zone,
        complete.net_days,
        complete.end_of_month,
        complete.discount_percent,
        complete.discount_days,
        complete.payment_means,
        complete.buyer_reference,
        complete.electronic_address,
        complete.electronic_address_scheme,
        complete.recipients,
        complete.delivery_channel
    );

-- name: insert
WITH written AS (
    INSERT INTO pgbill.account (
        bucket, key, seller_id, currency, zone, first_period_on, billing_interval, anchor_on,
        legal_name, street, street_2, postal_code, city, region,
        country, tax_status, vat_id, registration_id, customer_number, language,
        net_days, end_of_month, discount_percent, discount_days, payment_means, buyer_reference,
        electronic_address, electronic_address_scheme, recipients, delivery_channel
    )
    SELECT DISTINCT ON (complete_account.bucket, complete_account.key)
        complete_account.bucket,
        complete_account.key,
        complete_account.seller_id,
        complete_account.currency,
        complete_account.zone,
        complete_account.first_period_on,
        complete_account.billing_interval,
        complete_account.anchor_on,
        complete_account.legal_name,
        complete_account.street,
        complete_account.street_2,
        complete_account.postal_code,
        complete_account.city,
        complete_account.region,
        complete_account.country,
        complete_account.tax_status,
        complete_account.vat_id,
        complete_account.registration_id,
        complete_account.customer_number,
        complete_account.language,
        complete_account.net_days,
        complete_account.end_of_month,
        complete_account.discount_percent,
        complete_account.discount_days,
        complete_account.payment_means,
        complete_account.buyer_reference,
        complete_account.electronic_address,
        complete_account.electronic_address_scheme,
        complete_account.recipients,
        complete_account.delivery_channel
    FROM pg_temp.complete_account
    WHERE complete_account.account_id IS NULL
    ORDER BY complete_account.bucket, complete_account.key
    RETURNING account.account_id
)

SELECT count(*) AS count
FROM written;
