-- The few words that rating itself puts on a line.

CREATE OR REPLACE FUNCTION pgbill.word(p_key text, p_language text)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE left(p_language, 2)
    WHEN 'de' THEN CASE p_key WHEN 'minimum' THEN 'Mindestbetrag' ELSE 'Höchstbetrag' END
    WHEN 'fr' THEN CASE p_key WHEN 'minimum' THEN 'Montant minimum' ELSE 'Montant maximum' END
    ELSE CASE p_key WHEN 'minimum' THEN 'Minimum' ELSE 'Maximum' END
END;

COMMENT ON FUNCTION pgbill.word IS
'What a minimum or maximum amount is called, in the language of an account; in English if '
'that is not known.';
