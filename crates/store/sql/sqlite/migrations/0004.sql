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

-- Keys are documents from now on, each in the place that its digest names.
INSERT INTO doc (shelf, tenant, id, version, rank, topic, updated_at, body)
SELECT 1, tenant, lower(hex(digest)), 1, created_at, id, created_at, json_object(
  'id', id, 'role', role, 'label', label, 'created_by', 'pombo',
  'created_at', strftime('%Y-%m-%dT%H:%M:%f', created_at / 1000.0, 'unixepoch') || 'Z')
FROM api_key;

DROP TABLE api_key;

-- What dead letters have in common, and how many wait; a row stays when none does.
CREATE TABLE cause (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  channel TEXT NOT NULL,
  category TEXT NOT NULL,
  text TEXT NOT NULL,
  count INTEGER NOT NULL CHECK (count >= 0)
) STRICT;

-- The largest first.
CREATE INDEX cause_by_count ON cause (tenant, count DESC) WHERE count > 0;

-- The dead letters.
CREATE TABLE dead_letter (
  key INTEGER PRIMARY KEY,
  cause INTEGER NOT NULL
) STRICT;

-- Those that there are. Their causes, which SQL cannot tell, are found out next.
INSERT INTO dead_letter (key, cause) SELECT key, 0 FROM history INDEXED BY dead WHERE outcome IN (3, 11) AND NOT EXISTS (
  SELECT 1 FROM history AS later WHERE later.key = history.key AND later.seq > history.seq
);

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

-- Who, where the outcome is 13. For the others that have somebody it is the actor.
ALTER TABLE history ADD COLUMN reprocessed_by TEXT;

-- As accepted or reprocessed, which keys do not tell.
ALTER TABLE ordered ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

UPDATE ordered SET turn = nth FROM (
  SELECT tenant AS t, ordering_key AS o, key AS k, row_number() OVER (PARTITION BY tenant, ordering_key ORDER BY key) AS nth
  FROM ordered
) WHERE tenant = t AND ordering_key = o AND key = k;

CREATE INDEX ordered_by_turn ON ordered (tenant, ordering_key, turn);
