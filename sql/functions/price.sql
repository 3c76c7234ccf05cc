-- The amount of a line, from its rating input alone: what was issued can be computed again.

CREATE OR REPLACE FUNCTION pgbill.price(p_rating_input jsonb)
RETURNS numeric
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN pgbill.price_of(
    (p_rating_input ->> 'quantity')::numeric,
    (p_rating_input ->> 'unit_amount')::numeric,
    (p_rating_input ->> 'part_days')::integer,
    (p_rating_input ->> 'whole_days')::integer,
    (p_rating_input ->> 'digits')::integer
);

COMMENT ON FUNCTION pgbill.price IS
'The amount that a rating input gives; pure, so that an audit can compute issued '
'lines again.';
