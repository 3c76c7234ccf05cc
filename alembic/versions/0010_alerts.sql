-- Alerts know which incident they are about, and are mailed in digests.
--
-- An incident is one claim that went wrong, or one attempt of which nobody knows the outcome.
-- Each kind of alert is raised once for an incident; several kinds of one incident (the lease
-- expired, then a late write was refused) are shown, counted and acknowledged as one.

CREATE SEQUENCE pgbill.digest_id;

CREATE TABLE pgbill.alert_digest (
    digest_id bigint PRIMARY KEY DEFAULT nextval('pgbill.digest_id'),
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL,
    sent_to text NOT NULL,
    alert_count bigint NOT NULL
        CONSTRAINT alert_digest_is_about_alerts CHECK (alert_count > 0)
);

COMMENT ON TABLE pgbill.alert_digest IS
'A mail about alerts, sent at most once; committed, with its alerts, before it goes out.';
COMMENT ON COLUMN pgbill.alert_digest.holder IS 'The relay that sends it.';
COMMENT ON COLUMN pgbill.alert_digest.alert_count IS
'How many alerts were in it; those of a mail that was not taken go into another.';

CREATE TABLE pgbill.alert_digest_outcome (
    digest_id bigint PRIMARY KEY REFERENCES pgbill.alert_digest (digest_id),
    outcome text NOT NULL
        CONSTRAINT alert_digest_outcome_is_known
        CHECK (outcome IN ('accepted', 'deferred', 'failed')),
    reply_code integer,
    reply_text text NOT NULL,
    recorded_by text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE pgbill.alert_digest_outcome IS
'What became of a mail about alerts. Without one it is unknown whether it was taken.';
COMMENT ON COLUMN pgbill.alert_digest_outcome.reply_code IS
'The SMTP reply; null if there was none.';

ALTER TABLE pgbill.alert
ADD COLUMN fencing_token bigint,
ADD COLUMN message_id bigint,
ADD COLUMN attempt_no integer,
ADD COLUMN run_id bigint,
ADD COLUMN digest_id bigint REFERENCES pgbill.alert_digest (digest_id),
ADD COLUMN incident text NOT NULL GENERATED ALWAYS AS (
    CASE
        WHEN fencing_token IS NOT NULL
            THEN 'claim ' || account_id::text || '.' || fencing_token::text
        WHEN message_id IS NOT NULL
            THEN 'attempt ' || message_id::text || '.' || attempt_no::text
        ELSE 'alert ' || alert_id::text
    END
) STORED,
DROP CONSTRAINT alert_kind_is_known,
ADD CONSTRAINT alert_kind_is_known CHECK (
    kind IN (
        'lease_expired', 'write_refused', 'account_parked', 'hard_limit', 'message_uncertain'
    )
),
ADD CONSTRAINT alert_of_a_claim_names_the_account
CHECK (fencing_token IS NULL OR account_id IS NOT NULL),
ADD CONSTRAINT alert_of_a_message_names_the_attempt
CHECK ((message_id IS NULL) = (attempt_no IS NULL));

CREATE UNIQUE INDEX alert_is_raised_once ON pgbill.alert (bucket, incident, kind);
CREATE INDEX alert_digest_of ON pgbill.alert (digest_id);
CREATE INDEX alert_waits_for_mail ON pgbill.alert (alert_id)
WHERE digest_id IS NULL AND acked_at IS NULL;

COMMENT ON COLUMN pgbill.alert.summary IS
'Sentences: what happened, to whom, what pgbill has done, what is to be done.';
COMMENT ON COLUMN pgbill.alert.fencing_token IS
'Of the claim that it is about; null: it is about no claim.';
COMMENT ON COLUMN pgbill.alert.message_id IS
'The message that it is about; null: it is about no message.';
COMMENT ON COLUMN pgbill.alert.attempt_no IS 'The attempt whose outcome nobody knows.';
COMMENT ON COLUMN pgbill.alert.run_id IS 'The run that found it; null: no run did.';
COMMENT ON COLUMN pgbill.alert.digest_id IS
'The mail that it is in; null: in none, or the mail was not taken.';
COMMENT ON COLUMN pgbill.alert.incident IS
'The same for alerts of the same mishap; each kind is raised once for it.';
