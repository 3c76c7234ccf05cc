-- The few words that rating itself puts on a line.

CREATE OR REPLACE FUNCTION pgbill.word(p_key text, p_language text)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE
    WHEN left(p_language, 2) = 'de'
        THEN CASE p_key
            WHEN 'minimum' THEN 'Mindestbetrag'
            WHEN 'minimum_billed' THEN 'Mindestbetrag, bereits berechnet'
            ELSE 'Höchstbetrag'
        END
    WHEN left(p_language, 2) = 'fr'
        THEN CASE p_key
            WHEN 'minimum' THEN 'Montant minimum'
            WHEN 'minimum_billed' THEN 'Montant minimum déjà facturé'
            ELSE 'Montant maximum'
        END
    ELSE CASE p_key
        WHEN 'minimum' THEN 'Minimum'
        WHEN 'minimum_billed' THEN 'Minimum billed before'
        ELSE 'Maximum'
    END
END;

COMMENT ON FUNCTION pgbill.word IS
'What a minimum or maximum amount is called, in the language of an account; in English if '
'that is not known.';
