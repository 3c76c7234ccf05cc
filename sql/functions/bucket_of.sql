-- Which bucket an account belongs to: told by its key alone, for ever.

CREATE OR REPLACE FUNCTION pgbill.bucket_of(p_key text)
RETURNS integer
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN ('x' || substr(md5(p_key), 1, 2))::bit(8)::integer;

COMMENT ON FUNCTION pgbill.bucket_of IS
'The first byte of the MD5 of an account''s key, 0 to 255; a constraint on account '
'holds them together.';
