-- Put a tax service's answer into the lines of a draft.

CREATE OR REPLACE FUNCTION pgbill.with_tax(p_draft jsonb, p_answer jsonb)
RETURNS pgbill.draft
LANGUAGE sql
STABLE
PARALLEL SAFE
AS $$
    SELECT jsonb_populate_record(
        NULL::pgbill.draft,
        CASE
            WHEN p_draft #> '{lines,0}' IS NULL THEN p_draft
            ELSE jsonb_set(
                p_draft,
                '{lines}',
                (
                    SELECT
                        jsonb_agg(
                            line.content || jsonb_build_object(
                                'tax_category', told.content ->> 'category',
                                'tax_rate', told.content ->> 'rate',
                                'legal_text', told.content ->> 'legal_text'
                            )
                            ORDER BY line.line_no
                        )
                    FROM jsonb_array_elements(p_draft -> 'lines')
                        WITH ORDINALITY AS line (content, line_no)
                    INNER JOIN jsonb_array_elements(p_answer -> 'lines') AS told (content)
                        ON line.line_no = (told.content ->> 'line_no')::bigint
                )
            )
        END
    );
$$;

COMMENT ON FUNCTION pgbill.with_tax IS
'The draft as pgbill.issue takes it, with category, rate and legal text of each line.';
