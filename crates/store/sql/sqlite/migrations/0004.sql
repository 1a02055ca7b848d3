-- Schema 4: documents, dead letters by cause, earlier versions of edited messages, and their place in an order.

-- Whatever is kept beside the messages; shelf says what it is. Listed by rank, from the highest.
CREATE TABLE doc (
  shelf INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  rank INTEGER NOT NULL,
  topic TEXT,
  due INTEGER,
  updated_at INTEGER NOT NULL,
  body TEXT NOT NULL,              -- JSON
  PRIMARY KEY (shelf, tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX doc_by_rank ON doc (shelf, tenant, rank, id);

CREATE INDEX doc_by_topic ON doc (shelf, tenant, topic, rank, id) WHERE topic IS NOT NULL;

CREATE INDEX doc_by_due ON doc (shelf, due, id) WHERE due IS NOT NULL;

-- What dead letters have in common, and how many wait; a row stays when none does.
CREATE TABLE cause (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  channel TEXT NOT NULL,
  category TEXT NOT NULL,
  text TEXT NOT NULL,
  count INTEGER NOT NULL CHECK (count >= 0)
) STRICT;

CREATE INDEX cause_by_count ON cause (tenant, count) WHERE count > 0;

-- The dead letters.
CREATE TABLE dead_letter (
  key INTEGER PRIMARY KEY,
  cause INTEGER NOT NULL
) STRICT;

CREATE INDEX dead_letter_by_cause ON dead_letter (cause, key);

DROP INDEX dead;

-- What messages said before they were edited.
CREATE TABLE revision (
  key INTEGER NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  seq INTEGER NOT NULL,            -- of the history row that would have come next
  replaced_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  note TEXT,
  body BLOB NOT NULL,
  PRIMARY KEY (key, version)
) STRICT, WITHOUT ROWID;

-- The round whose key the provider is shown.
ALTER TABLE history ADD COLUMN keyed INTEGER NOT NULL DEFAULT 0;

-- As accepted or reprocessed, which keys do not tell.
ALTER TABLE ordered ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
