-- Schema 5: what belongs to a message can be found by its key, so that it can leave with it; and idempotency keys that
-- outlast their messages.

CREATE INDEX receipt_by_key ON receipt (key);

CREATE INDEX blob_use_by_key ON blob_use (key);

-- Until when, once the message is gone.
ALTER TABLE idempotency ADD COLUMN until bigint;

-- Of messages that are there, by age; and of those that are gone.
CREATE INDEX idempotency_by_key ON idempotency (key);

CREATE INDEX idempotency_by_end ON idempotency (until) WHERE until IS NOT NULL;
