-- Runs that hold mail and drafts back, retries with a delay, and who has acted.

ALTER TABLE pgbill.billing_run
ADD COLUMN hold_mail boolean NOT NULL DEFAULT FALSE,
ADD COLUMN mail_released_at timestamptz,
ADD COLUMN mail_released_by text,
ADD CONSTRAINT billing_run_mail_is_released_by_somebody
CHECK ((mail_released_at IS NULL) = (mail_released_by IS NULL));

COMMENT ON COLUMN pgbill.billing_run.hold_mail IS
'Its messages wait until a person releases them: pgbill outbox release.';
COMMENT ON COLUMN pgbill.billing_run.mail_released_at IS
'When a person first released its messages; null: nobody has.';

ALTER TABLE pgbill.outbox_message
ADD COLUMN held_at timestamptz,
ADD COLUMN released_at timestamptz,
ADD COLUMN released_by text,
ADD CONSTRAINT outbox_message_release_says_of_what_and_by_whom
CHECK (
    (released_at IS NULL) = (released_by IS NULL)
    AND (released_at IS NULL OR held_at IS NOT NULL)
),
ADD CONSTRAINT outbox_message_that_is_held_is_not_claimed
CHECK (holder IS NULL OR held_at IS NULL OR released_at IS NOT NULL);

CREATE INDEX outbox_message_held ON pgbill.outbox_message (bucket, account_id, invoice_id)
WHERE held_at IS NOT NULL AND released_at IS NULL;

COMMENT ON COLUMN pgbill.outbox_message.held_at IS
'Since when no relay takes it, because its run holds mail; null: it was never held.';
COMMENT ON COLUMN pgbill.outbox_message.released_at IS
'When a person released it; null: it is still held, or never was.';
COMMENT ON COLUMN pgbill.outbox_message.due_at IS
'Not tried before; moved on when deferred; infinity while it is held, and while it is '
'uncertain and a person is asked.';

ALTER TABLE pgbill.lease
ADD COLUMN retry_at timestamptz,
ADD COLUMN draft_at timestamptz,
ADD COLUMN acted_by text,
DROP CONSTRAINT lease_outcome_is_known,
ADD CONSTRAINT lease_outcome_is_known
CHECK (
    outcome IN (
        'invoiced', 'nothing_to_bill', 'carried_forward', 'given_back', 'failed', 'parked',
        'unparked', 'revoked', 'held', 'approved', 'discarded', 'retried'
    )
),
ADD CONSTRAINT lease_retry_is_of_a_failure
CHECK (retry_at IS NULL OR failed_run_id IS NOT NULL);

COMMENT ON COLUMN pgbill.lease.failed_run_id IS
'The run in which the account failed; that run does not try it again before retry_at.';
COMMENT ON COLUMN pgbill.lease.retry_at IS
'When the run in which the account failed tries it again; null: it does not.';
COMMENT ON COLUMN pgbill.lease.draft_at IS
'Since when a draft waits for review, so that no run takes the account; null: none does.';
COMMENT ON COLUMN pgbill.lease.acted_by IS
'Who has parked, unparked, approved or discarded it since the last claim; null: no person.';

ALTER TABLE pgbill.lease_event ADD COLUMN acted_by text;

COMMENT ON COLUMN pgbill.lease_event.acted_by IS
'The person behind it; null: a worker, or nobody, was.';

CREATE SEQUENCE pgbill.held_draft_id;

CREATE TABLE pgbill.held_draft (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    held_draft_id bigint NOT NULL DEFAULT nextval('pgbill.held_draft_id'),
    period_start date NOT NULL,
    period_end date NOT NULL,
    run_id bigint NOT NULL,
    held_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reasons text[] NOT NULL
        CONSTRAINT held_draft_has_a_reason CHECK (cardinality(reasons) > 0),
    currency text NOT NULL,
    net_amount numeric NOT NULL,
    tax_amount numeric NOT NULL,
    gross_amount numeric NOT NULL,
    previous_gross_amount numeric,
    draft jsonb NOT NULL,
    digest text NOT NULL,
    fencing_token bigint NOT NULL,
    PRIMARY KEY (bucket, account_id, held_draft_id),
    CONSTRAINT held_draft_gross_is_net_plus_tax CHECK (gross_amount = net_amount + tax_amount)
);

CREATE INDEX held_draft_run ON pgbill.held_draft (run_id);

COMMENT ON TABLE pgbill.held_draft IS
'What an invoice would have been that a run has held back for review, fenced and never '
'changed. It has no number and no message.';
COMMENT ON COLUMN pgbill.held_draft.reasons IS 'Sentences: what the policy of the run found.';
COMMENT ON COLUMN pgbill.held_draft.previous_gross_amount IS
'Of the invoice before, which it was compared with; null: there is none.';
COMMENT ON COLUMN pgbill.held_draft.draft IS 'As pgbill.rate has made it, with its tax.';
COMMENT ON COLUMN pgbill.held_draft.digest IS
'Of what a reviewer sees: an approval counts for a draft with the same one.';

CREATE TABLE pgbill.draft_decision (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    held_draft_id bigint NOT NULL,
    decision text NOT NULL
        CONSTRAINT draft_decision_is_known CHECK (decision IN ('approved', 'discarded')),
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided_by text NOT NULL,
    reason text,
    PRIMARY KEY (bucket, account_id, held_draft_id),
    FOREIGN KEY (bucket, account_id, held_draft_id)
    REFERENCES pgbill.held_draft (bucket, account_id, held_draft_id)
);

COMMENT ON TABLE pgbill.draft_decision IS
'What a person has decided about a held draft; the first decision counts.';
COMMENT ON COLUMN pgbill.draft_decision.decision IS
'approved: the next run issues it, if it rates it the same; discarded: the next run '
'rates it anew.';
COMMENT ON COLUMN pgbill.draft_decision.reason IS 'Null: none was given.';

-- They have other parameters or answers now.
DROP FUNCTION IF EXISTS pgbill.release(integer[], bigint[], bigint[], text[], text[], integer);
DROP FUNCTION IF EXISTS pgbill.unpark(integer, bigint, text);
DROP FUNCTION IF EXISTS pgbill.open_run(date, date, text, text, jsonb, text, text);
DROP FUNCTION IF EXISTS pgbill.due_count(date, bigint, bigint);
