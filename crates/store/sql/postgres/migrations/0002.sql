-- Schema 2: documents, dead letters by cause, earlier versions of edited messages.

-- Whatever is kept beside the messages; shelf says what it is. Listed by rank, from the highest.
CREATE TABLE doc (
  shelf smallint NOT NULL,
  tenant text NOT NULL,
  id text COLLATE "C" NOT NULL,
  version int NOT NULL CHECK (version > 0),
  rank bigint NOT NULL,
  due bigint,
  updated_at bigint NOT NULL,
  topic text COLLATE "C",
  body text NOT NULL,              -- JSON
  PRIMARY KEY (shelf, tenant, id)
) WITH (fillfactor = 80);

CREATE INDEX doc_by_rank ON doc (shelf, tenant, rank, id);

CREATE INDEX doc_by_topic ON doc (shelf, tenant, topic, rank, id) WHERE topic IS NOT NULL;

CREATE INDEX doc_by_due ON doc (shelf, due, id) WHERE due IS NOT NULL;

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
  slot smallint NOT NULL,
  tenant text NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (cause, slot)
) WITH (fillfactor = 50);

-- The dead letters.
CREATE TABLE dead_letter (
  key bigint PRIMARY KEY,
  cause bigint NOT NULL,
  tenant text NOT NULL
);

CREATE INDEX dead_letter_by_cause ON dead_letter (cause, key);

DROP INDEX dead;

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
