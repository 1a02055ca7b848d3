-- Schema 2: documents, dead letters by cause, earlier versions of edited messages.

-- Whatever is kept beside the messages; shelf says what it is. Listed by rank, from the highest.
CREATE TABLE doc (
  shelf smallint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  version int NOT NULL CHECK (version > 0),
  rank bigint NOT NULL,
  due bigint,
  updated_at bigint NOT NULL,
  topic text COLLATE "C",
  topic_hash bigint GENERATED ALWAYS AS (hashtextextended(topic, 0)) STORED,  -- a topic may be too long for an index
  body text NOT NULL,              -- JSON
  PRIMARY KEY (shelf, tenant, id)
) WITH (fillfactor = 80);

CREATE INDEX doc_by_rank ON doc (shelf, tenant, rank, id);

CREATE INDEX doc_by_topic ON doc (shelf, tenant, topic_hash, rank, id) WHERE topic_hash IS NOT NULL;

CREATE INDEX doc_by_due ON doc (shelf, due, id, tenant) WHERE due IS NOT NULL;

-- Keys are documents from now on, each in the place that its digest names. Whoever owns the table may be nobody special,
-- and sees all of it only so.
ALTER TABLE api_key NO FORCE ROW LEVEL SECURITY;

INSERT INTO doc (shelf, tenant, id, version, rank, topic, updated_at, body)
SELECT 1, tenant, encode(digest, 'hex'), 1, created_at, id, created_at, json_build_object(
  'id', id, 'role', role, 'label', label, 'created_by', 'pombo',
  'created_at', to_char(to_timestamp(created_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
FROM api_key;

DROP TABLE api_key;

-- What dead letters have in common.
CREATE TABLE cause (
  id bigint PRIMARY KEY,
  tenant text NOT NULL,
  channel text NOT NULL,
  category text NOT NULL,
  text text NOT NULL
);

-- How many of each wait, counted by each process in rows of its own, so that none waits for another.
CREATE TABLE cause_count (
  cause bigint NOT NULL,
  count bigint NOT NULL,
  slot smallint NOT NULL,
  tenant text NOT NULL,
  PRIMARY KEY (tenant, cause, slot)
) WITH (fillfactor = 50);

-- The dead letters.
CREATE TABLE dead_letter (
  key bigint PRIMARY KEY,
  cause bigint NOT NULL,
  tenant text NOT NULL
);

-- Those that there are. Their causes, which SQL cannot tell, are found out next. Until then the owner is not bound by
-- row level security.
ALTER TABLE queue NO FORCE ROW LEVEL SECURITY;
ALTER TABLE message NO FORCE ROW LEVEL SECURITY;
ALTER TABLE history NO FORCE ROW LEVEL SECURITY;

INSERT INTO dead_letter (key, cause, tenant) SELECT key, 0, tenant FROM history WHERE outcome IN (3, 11) AND NOT EXISTS (
  SELECT FROM history AS later WHERE later.key = history.key AND later.seq > history.seq
);

CREATE INDEX dead_letter_by_cause ON dead_letter (cause, key);

DROP INDEX dead;

-- Those that were given up.
CREATE INDEX discarded ON history (key) WHERE outcome = 12;

-- What messages said before they were edited.
CREATE TABLE revision (
  key bigint NOT NULL,
  version int NOT NULL CHECK (version > 0),
  seq int NOT NULL,                -- of the history row that would have come next
  replaced_at bigint NOT NULL,
  tenant text NOT NULL,
  actor text NOT NULL,
  note text,
  body bytea NOT NULL,
  PRIMARY KEY (key, version)
);

-- The round whose key the provider is shown.
ALTER TABLE history ADD COLUMN keyed smallint NOT NULL DEFAULT 0;

-- Who, where the outcome is 13. For the others that have somebody it is the actor.
ALTER TABLE history ADD COLUMN reprocessed_by text;
