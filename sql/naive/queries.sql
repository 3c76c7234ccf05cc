-- What the naive pipeline asks, and what the replay asks of it. Not among the queries of
-- pgbill: they fit the schema of schema.sql, which is there during a replay alone.

-- name: drop
DROP SCHEMA IF EXISTS naive CASCADE;

-- name: fill
INSERT INTO naive.account (
    key, position, country, seller_country, tax_status, currency, recipients
)
SELECT
    account.key,
    row_number() OVER (ORDER BY account.bucket, account.account_id),
    account.country,
    seller.country AS seller_country,
    account.tax_status,
    account.currency,
    array(SELECT jsonb_array_elements_text(account.recipients -> 'invoice'))
FROM pgbill.lease
INNER JOIN pgbill.account USING (bucket, account_id)
INNER JOIN pgbill.seller ON account.seller_id = seller.seller_id
WHERE lease.due_on <= :through_on::date + 1 AND lease.parked_at IS NULL;

-- name: open
-- What is not invoiced and not locked, for a worker to try.
SELECT
    account.key,
    account.country,
    account.seller_country,
    account.tax_status,
    account.currency,
    account.recipients
FROM naive.account
WHERE NOT EXISTS (
        SELECT FROM naive.invoice
        WHERE invoice.account_key = account.key
    )
    AND NOT EXISTS (
        SELECT FROM naive.lock
        WHERE lock.key = account.key AND lock.expires_at > clock_timestamp()
    )
ORDER BY account.position
LIMIT :limit;

-- name: left
SELECT count(*) AS how_many
FROM naive.account
WHERE NOT EXISTS (
        SELECT FROM naive.invoice
        WHERE invoice.account_key = account.key
    );

-- name: lock
WITH locked AS (
    INSERT INTO naive.lock AS held (key, value, expires_at)
    VALUES (:key, :claim, clock_timestamp() + make_interval(secs => :ttl_seconds))
    ON CONFLICT (key) DO UPDATE
        SET
            value = excluded.value,
            expires_at = excluded.expires_at
        WHERE held.expires_at <= clock_timestamp()
    RETURNING held.key, held.value
)

INSERT INTO naive.event (account_key, kind, claim)
SELECT locked.key, 'claimed', locked.value
FROM locked
RETURNING claim;

-- name: is_invoiced
SELECT count(*) AS how_many
FROM naive.invoice
WHERE invoice.account_key = :key;

-- name: invoice
WITH issued AS (
    INSERT INTO naive.invoice (account_key, claim, tax)
    VALUES (:key, :claim, :tax)
    RETURNING invoice.account_key, invoice.claim
)

INSERT INTO naive.event (account_key, kind, claim)
SELECT issued.account_key, 'invoiced', issued.claim
FROM issued;

-- name: mailed
INSERT INTO naive.event (account_key, kind, claim)
VALUES (:key, 'mailed', :claim);

-- name: unlock
-- DEL key. That the key may be somebody else's by now is the mistake of the story.
WITH unlocked AS (
    DELETE FROM naive.lock
    WHERE lock.key = :key
    RETURNING lock.value
)

INSERT INTO naive.event (account_key, kind, claim, detail)
SELECT :key, 'released', :claim, (SELECT unlocked.value FROM unlocked);

-- name: held
SELECT
    lock.key AS account,
    split_part(lock.value, ':', 2)::integer AS pid,
    lock.value AS claim,
    lock.expires_at
FROM naive.lock
WHERE lock.expires_at > clock_timestamp();

-- name: events
SELECT
    event.account_key AS account,
    event.occurred_at AS at,
    event.kind,
    event.claim,
    split_part(event.claim, ':', 1) || ':' || split_part(event.claim, ':', 2) AS holder,
    event.detail
FROM naive.event
ORDER BY event.occurred_at, event.event_id;
