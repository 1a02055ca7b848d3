-- Schema 1. Times are milliseconds since the epoch; keys are the upper 63 bits of a message's id.

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Whatever can make messages wait together. Few rows, read into memory at start.
CREATE TABLE queue (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  lane TEXT NOT NULL,
  channel TEXT NOT NULL,
  destination TEXT NOT NULL,
  campaign TEXT NOT NULL,          -- '' for none
  weight INTEGER NOT NULL DEFAULT 1,
  UNIQUE (tenant, lane, channel, destination, campaign)
) STRICT;

-- Written once, never updated.
CREATE TABLE message (
  key INTEGER PRIMARY KEY,
  nonce INTEGER NOT NULL,
  queue INTEGER NOT NULL,
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  due INTEGER NOT NULL,            -- of the first attempt
  send_at INTEGER,
  expires_at INTEGER,
  ordering_key TEXT,
  type TEXT,
  template TEXT,
  reference TEXT,
  slice INTEGER NOT NULL,          -- rises by one every 65,536 messages
  recipient INTEGER NOT NULL,      -- keyed hash
  block INTEGER NOT NULL,          -- audit block of the acceptance
  body BLOB NOT NULL
) STRICT;

CREATE INDEX message_by_reference ON message (reference) WHERE reference IS NOT NULL;

-- Led by the slice, so that inserts stay within a small part of the tree; a search looks once into each slice.
CREATE INDEX message_by_recipient ON message (slice, recipient);

-- What waits and can go when it is due. rank is 9 - priority. Nothing else is live on disk.
CREATE TABLE ready (
  queue INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  due INTEGER NOT NULL,
  key INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  PRIMARY KEY (queue, rank, due, key)
) STRICT, WITHOUT ROWID;

-- The claim journal: one row a batch, deleted when its last message is settled. members holds, for each message,
-- key, due (8 bytes each) and steps (4 bytes), little endian.
CREATE TABLE claim (
  id INTEGER PRIMARY KEY,
  node INTEGER NOT NULL,
  at INTEGER NOT NULL,
  members BLOB NOT NULL
) STRICT;

-- Everything that happened to a message after acceptance, in order. Its last row says where the message stands.
-- outcome: 1 sent, 2 retry, 3 failed, 4 held, 10 cancelled, 11 expired, 12 discarded, 13 reprocessed.
CREATE TABLE history (
  key INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  round INTEGER NOT NULL,
  number INTEGER NOT NULL,         -- of the attempt; 0 where there was none
  attempts INTEGER NOT NULL,       -- that counted in the round, after this
  crashes INTEGER NOT NULL,        -- in a row, after this
  started_at INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  reason INTEGER,
  next_due INTEGER,
  delay INTEGER,
  failure TEXT,                    -- JSON: verdict, category, code, text
  receipt TEXT,                    -- JSON: provider's id, code
  explanation TEXT,
  policy TEXT,                     -- the one that applied, in one line, where it decided anything
  actor TEXT,
  block INTEGER NOT NULL,
  PRIMARY KEY (key, seq),
  CHECK ((outcome IN (3, 11)) = (reason IS NOT NULL)),
  CHECK ((outcome = 2 OR outcome = 4 OR outcome = 13) = (next_due IS NOT NULL)),
  CHECK ((outcome IN (10, 12)) = (actor IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The dead letters. A reprocessing turns the failed row's outcome into one outside this index.
CREATE INDEX dead ON history (key) WHERE outcome IN (3, 11);

-- Unfinished messages that share an ordering key; one of them is active, the others wait outside the queues.
CREATE TABLE ordered (
  tenant TEXT NOT NULL,
  ordering_key TEXT NOT NULL,
  key INTEGER NOT NULL,
  active INTEGER NOT NULL CHECK (active IN (0, 1)),
  PRIMARY KEY (tenant, ordering_key, key)
) STRICT, WITHOUT ROWID;

-- Deadlines of messages that are not finished.
CREATE TABLE expiry (
  at INTEGER NOT NULL,
  key INTEGER NOT NULL,
  PRIMARY KEY (at, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  key INTEGER NOT NULL,
  nonce INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  PRIMARY KEY (tenant, idempotency_key)
) STRICT, WITHOUT ROWID;

-- What makes a channel or one destination of it ('' for the whole channel) wait.
CREATE TABLE block (
  channel TEXT NOT NULL,
  destination TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (channel, destination)
) STRICT, WITHOUT ROWID;

-- Counters, kept as things happen. hour is hours since the epoch, 0 for all time.
CREATE TABLE tally (
  hour INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  channel TEXT NOT NULL,
  what INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (hour, tenant, channel, what)
) STRICT, WITHOUT ROWID;

-- The audit chain: one block a commit.
CREATE TABLE audit (
  sequence INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  at INTEGER NOT NULL,
  count INTEGER NOT NULL,
  hash BLOB NOT NULL,
  entries BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX audit_by_position ON audit (position);

CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  role TEXT NOT NULL,
  label TEXT NOT NULL,
  digest BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
