-- Runs, the leases that workers claim, and what happened to them.

CREATE SEQUENCE pgbill.run_id;

CREATE TABLE pgbill.billing_run (
    run_id bigint PRIMARY KEY DEFAULT nextval('pgbill.run_id'),
    through_on date,
    issue_on date,
    mode text NOT NULL
        CONSTRAINT billing_run_mode_is_known CHECK (mode IN ('live', 'test')),
    account_key text,
    settings jsonb NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_by text NOT NULL,
    pgbill_version text NOT NULL,
    sealed_at timestamptz,
    ending text
        CONSTRAINT billing_run_ending_is_known CHECK (ending IN ('finished', 'superseded')),
    summary jsonb,
    CONSTRAINT billing_run_sealed_has_ending_and_summary
    CHECK (num_nulls(sealed_at, ending, summary) IN (0, 3))
);

-- Two cron jobs that ask for the same join one run.
CREATE UNIQUE INDEX billing_run_one_is_open
ON pgbill.billing_run (through_on, issue_on, mode, account_key)
NULLS NOT DISTINCT
WHERE sealed_at IS NULL;

COMMENT ON TABLE pgbill.billing_run IS
'What was asked of a run, by whom; sealed at its end with its summary.';
COMMENT ON COLUMN pgbill.billing_run.through_on IS
'Inclusive: periods that ended by then; null: by yesterday in each account''s zone.';
COMMENT ON COLUMN pgbill.billing_run.issue_on IS
'The date of the invoices; null: today in the seller''s zone.';
COMMENT ON COLUMN pgbill.billing_run.account_key IS 'Null: all accounts.';
COMMENT ON COLUMN pgbill.billing_run.summary IS
'What it has done, as it was told at its end; null before.';
COMMENT ON COLUMN pgbill.billing_run.ending IS
'finished: nothing was left due; superseded: it was stopped and another run took over.';

CREATE SEQUENCE pgbill.fencing_token CACHE 1;

CREATE TABLE pgbill.lease (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    due_on date NOT NULL,
    due_at timestamptz NOT NULL,
    fencing_token bigint NOT NULL DEFAULT nextval('pgbill.fencing_token'),
    holder text,
    worker_id uuid,
    run_id bigint,
    claimed_at timestamptz,
    renewed_at timestamptz,
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    attempts integer NOT NULL DEFAULT 0
        CONSTRAINT lease_attempts_are_not_negative CHECK (attempts >= 0),
    outcome text
        CONSTRAINT lease_outcome_is_known
        CHECK (
            outcome IN (
                'invoiced', 'nothing_to_bill', 'given_back', 'failed', 'parked', 'unparked', 'revoked'
            )
        ),
    detail text,
    failed_run_id bigint,
    parked_at timestamptz,
    approved_on date,
    PRIMARY KEY (bucket, account_id),
    FOREIGN KEY (bucket, account_id) REFERENCES pgbill.account (bucket, account_id),
    CONSTRAINT lease_is_held_by_a_worker
    CHECK ((worker_id IS NULL) = (holder IS NULL) AND (worker_id IS NULL) = (claimed_at IS NULL)),
    CONSTRAINT lease_that_nobody_holds_is_expired
    CHECK (worker_id IS NOT NULL OR expires_at = '-infinity')
-- A claim, each renewal and the release update the row in place, within its page.
) WITH (fillfactor = 60);

-- Nothing that a claim or a renewal changes is indexed.
CREATE INDEX lease_due ON pgbill.lease (bucket, due_on, account_id) WHERE parked_at IS NULL;

COMMENT ON TABLE pgbill.lease IS
'One row for each account, for ever: what is due, who works on it, until when, with '
'which token.';
COMMENT ON COLUMN pgbill.lease.due_on IS
'The end of the account''s earliest period that is not closed, its first day not '
'included.';
COMMENT ON COLUMN pgbill.lease.due_at IS 'The instant at which due_on begins in the account''s zone.';
COMMENT ON COLUMN pgbill.lease.fencing_token IS
'Grows with each claim and each release; a write must carry the newest.';
COMMENT ON COLUMN pgbill.lease.holder IS 'Host and process, for people; null: nobody.';
COMMENT ON COLUMN pgbill.lease.worker_id IS 'Drawn at each process start; null: nobody.';
COMMENT ON COLUMN pgbill.lease.run_id IS 'The run of the last claim.';
COMMENT ON COLUMN pgbill.lease.expires_at IS '-infinity when nobody holds the lease.';
COMMENT ON COLUMN pgbill.lease.attempts IS
'Claims of this period that did not end well, the present one included.';
COMMENT ON COLUMN pgbill.lease.outcome IS 'How the last claim ended; null before the first.';
COMMENT ON COLUMN pgbill.lease.detail IS 'The reason of a failure or of parking.';
COMMENT ON COLUMN pgbill.lease.failed_run_id IS
'The run in which the account failed; that run does not try it again.';
COMMENT ON COLUMN pgbill.lease.parked_at IS 'Since when no run takes it; null: it is not parked.';
COMMENT ON COLUMN pgbill.lease.approved_on IS
'A person has approved all that is due up to this day, however many periods.';

CREATE SEQUENCE pgbill.lease_event_id;

CREATE TABLE pgbill.lease_event (
    bucket integer NOT NULL,
    account_id bigint NOT NULL,
    lease_event_id bigint NOT NULL DEFAULT nextval('pgbill.lease_event_id'),
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL
        CONSTRAINT lease_event_kind_is_known
        CHECK (kind IN ('claimed', 'expired', 'released', 'abandoned')),
    fencing_token bigint NOT NULL,
    holder text,
    worker_id uuid,
    run_id bigint,
    due_on date NOT NULL,
    outcome text,
    detail text,
    PRIMARY KEY (bucket, account_id, lease_event_id)
);

-- The summary of a run asks for what went wrong, not for the many that went well.
CREATE INDEX lease_event_mishap ON pgbill.lease_event (run_id, bucket, account_id)
WHERE kind IN ('expired', 'abandoned') OR outcome IN ('failed', 'parked');

COMMENT ON TABLE pgbill.lease_event IS
'What happened to each lease, in order; written by the trigger on lease, never by '
'hand.';
COMMENT ON COLUMN pgbill.lease_event.kind IS
'expired: the lease was taken over, or renewed too late; abandoned: its holder '
'noticed the loss.';
COMMENT ON COLUMN pgbill.lease_event.fencing_token IS 'The token of the claim that it is about.';
COMMENT ON COLUMN pgbill.lease_event.holder IS 'Host and process; null: nobody held it.';
COMMENT ON COLUMN pgbill.lease_event.worker_id IS 'Null: nobody held it.';
COMMENT ON COLUMN pgbill.lease_event.run_id IS 'The run of the claim; null: before the first.';
COMMENT ON COLUMN pgbill.lease_event.detail IS 'The reason; null where there is none to tell.';
COMMENT ON COLUMN pgbill.lease_event.outcome IS 'Of a release: how the claim ended.';

CREATE SEQUENCE pgbill.alert_id;

CREATE TABLE pgbill.alert (
    bucket integer NOT NULL,
    alert_id bigint NOT NULL DEFAULT nextval('pgbill.alert_id'),
    raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL
        CONSTRAINT alert_kind_is_known
        CHECK (kind IN ('lease_expired', 'account_parked', 'hard_limit', 'message_uncertain')),
    account_id bigint,
    summary text NOT NULL,
    acked_at timestamptz,
    acked_by text,
    PRIMARY KEY (bucket, alert_id),
    CONSTRAINT alert_acked_by_somebody CHECK ((acked_at IS NULL) = (acked_by IS NULL))
);

CREATE INDEX alert_open ON pgbill.alert (raised_at) WHERE acked_at IS NULL;

COMMENT ON TABLE pgbill.alert IS 'Something that a person must look at.';
COMMENT ON COLUMN pgbill.alert.bucket IS 'That of the account; 0 if it is about no account.';
COMMENT ON COLUMN pgbill.alert.account_id IS 'Null if it is about no account.';
