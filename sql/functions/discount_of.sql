-- What the discounts of a line take off under a key.

CREATE OR REPLACE FUNCTION pgbill.discount_of(p_discounts jsonb, p_key text)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
AS $$
    SELECT coalesce(sum((discount.content ->> 'amount')::numeric), 0)
    FROM jsonb_array_elements(p_discounts) AS discount (content)
    WHERE discount.content ->> 'key' = p_key;
$$;

COMMENT ON FUNCTION pgbill.discount_of IS
'The sum of a line''s discounts of a key; zero if there is none.';
