-- The minimum or maximum amount of a price, for the part of the period that it is for.

CREATE OR REPLACE FUNCTION pgbill.spend_limit(p_rating_input jsonb, p_name text)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN pgbill.rounded(
    (p_rating_input ->> p_name)::numeric
    * coalesce((p_rating_input ->> 'spend_part')::numeric, 1),
    coalesce((p_rating_input ->> 'spend_whole')::numeric, 1),
    (p_rating_input ->> 'digits')::integer,
    coalesce(p_rating_input ->> 'rounding', 'half_up')
);

COMMENT ON FUNCTION pgbill.spend_limit IS
'What a line''s price brings at least or at most in its service period, prorated; null: no '
'limit.';
