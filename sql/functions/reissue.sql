-- Issue an invoice again: claim, cancel it if that is not done, rate its period anew, write,
-- release, number, in one statement and so in one transaction. A dry run does all of that,
-- and undoes it.
--
-- What is rated depends on what was cancelled, so a tax service cannot be asked before; and it
-- may take minutes, so not under the lease either. Where an answer is missing, all is undone
-- and the question is told; the caller asks, and comes again with the answer. If the question
-- is another one by then, it is told again.

CREATE OR REPLACE FUNCTION pgbill.reissue(
    p_bucket integer,
    p_account_id bigint,
    p_invoice_id bigint,
    p_reason text,
    p_issued_by text,
    p_worker_id uuid,
    p_tax_by_table boolean,
    p_question_hash text,
    p_answer jsonb,
    p_provider text,
    p_is_dry_run boolean
)
RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = ''
-- A worker that is committing goes first; a clerk does not wait for ever.
SET lock_timeout = '10s'
AS $$
DECLARE
    v_token bigint;
    v_period_end date;
    v_note_id bigint;
    v_invoice_id bigint;
    v_rated record;
    v_draft pgbill.draft;
    v_told jsonb;
BEGIN
    v_token := pgbill.claim_account(p_bucket, p_account_id, p_issued_by, p_worker_id);
    PERFORM pgbill.check_reissuable(p_bucket, p_account_id, p_invoice_id);

    SELECT invoice.period_end INTO v_period_end
    FROM pgbill.invoice
    WHERE invoice.bucket = p_bucket
        AND invoice.account_id = p_account_id
        AND invoice.invoice_id = p_invoice_id;

    IF NOT pgbill.is_cancelled(p_bucket, p_account_id, p_invoice_id) THEN
        v_note_id := pgbill.take_back(
            p_bucket, p_account_id, p_invoice_id, v_token, NULL, NULL, NULL, TRUE, p_reason,
            p_issued_by
        );
    END IF;

    IF p_tax_by_table THEN
        SELECT rate.outcome, rate.problem, rate.draft INTO v_rated
        FROM pgbill.rate(
            ARRAY[p_bucket], ARRAY[p_account_id], NULL, 1, TRUE, ARRAY[v_period_end]
        ) AS rate;
        v_draft := v_rated.draft;
    ELSE
        SELECT
            asked.outcome,
            asked.problem,
            asked.draft,
            asked.account_key,
            asked.question,
            asked.question_hash,
            asked.answer
        INTO v_rated
        FROM pgbill.rate_and_question(
            ARRAY[p_bucket], ARRAY[p_account_id], NULL, 1, ARRAY[v_period_end]
        ) AS asked;

        IF v_rated.answer IS NULL AND v_rated.question_hash = p_question_hash THEN
            v_rated.answer := p_answer;
            PERFORM pgbill.keep_tax_answers(
                ARRAY[p_bucket], ARRAY[p_account_id], ARRAY[v_token], ARRAY[v_period_end],
                ARRAY[v_rated.question_hash], ARRAY[v_rated.question], ARRAY[p_answer], p_provider
            );
        END IF;

        IF v_rated.outcome IS NULL AND v_rated.question IS NOT NULL AND v_rated.answer IS NULL THEN
            v_told := jsonb_build_object(
                'question', v_rated.question::text,
                'question_hash', v_rated.question_hash,
                'account_key', v_rated.account_key,
                'period_end', v_period_end
            );
            RAISE EXCEPTION USING ERRCODE = 'IV099', MESSAGE = 'undone';
        END IF;

        v_draft := pgbill.with_tax(v_rated.draft, coalesce(v_rated.answer, '{}'));
    END IF;

    IF v_rated.outcome IS NOT NULL OR v_draft.lines IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'IV007',
            MESSAGE = CASE
                WHEN v_rated.outcome IS NOT NULL
                    THEN format('its period cannot be billed again: %s', v_rated.problem)
                ELSE 'nothing would be billed for its period now: cancel it instead'
            END;
    END IF;

    v_invoice_id := pgbill.write_revision(
        p_bucket, p_account_id, p_invoice_id, v_token, v_draft, p_reason, p_issued_by
    );
    PERFORM pgbill.release_account(p_bucket, p_account_id, v_token);
    PERFORM pgbill.draw_numbers(
        ARRAY[p_bucket, p_bucket],
        ARRAY[p_account_id, p_account_id],
        array_remove(ARRAY[v_note_id, v_invoice_id], NULL)
    );
    v_told := jsonb_build_object(
        'credit_note', pgbill.document_told(p_bucket, p_account_id, v_note_id),
        'invoice', pgbill.document_told(p_bucket, p_account_id, v_invoice_id)
    );

    IF p_is_dry_run THEN
        RAISE EXCEPTION USING ERRCODE = 'IV099', MESSAGE = 'undone';
    END IF;

    RETURN v_told;
EXCEPTION
    WHEN SQLSTATE 'IV099' THEN
        -- What variables hold outlives what is undone; the numbers were not given.
        RETURN v_told #- '{credit_note,number}' #- '{invoice,number}';
END;
$$;

COMMENT ON FUNCTION pgbill.reissue IS
'Issue an invoice again, as a clerk, cancelling it if that is not done. Tells both documents, '
'or the question for the tax service if it has to be asked first. IV005 if a worker holds '
'the account, IV007 if it cannot be. Call it as a statement of its own.';
