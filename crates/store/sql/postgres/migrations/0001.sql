-- Schema 1. Times are milliseconds since the epoch; keys are the upper 63 bits of a message's id. Texts are escaped,
-- since PostgreSQL's hold no NUL; whatever is found by a text of any length is found by a digest of it.

CREATE TABLE meta (
  name text PRIMARY KEY,
  value bytea NOT NULL
);

-- Processes that make ids: the slot is a part of every id that its holder makes.
CREATE TABLE slot (
  id smallint PRIMARY KEY CHECK (id BETWEEN 0 AND 126),
  holder bigint NOT NULL,
  until bigint NOT NULL
);

-- Engines, and until when each one's claims hold.
CREATE TABLE node (
  id bigint PRIMARY KEY,
  lease_until bigint NOT NULL
) WITH (fillfactor = 50);

-- Who does what only one process should do at a time.
CREATE TABLE office (
  name text PRIMARY KEY,
  holder bigint NOT NULL,
  until bigint NOT NULL
) WITH (fillfactor = 50);

-- Whatever can make messages wait together. Few rows, which every node keeps in memory.
CREATE TABLE queue (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest bytea NOT NULL UNIQUE,    -- of the five names
  tenant text NOT NULL,
  lane text NOT NULL,
  channel text NOT NULL,
  destination text NOT NULL,
  campaign text NOT NULL,          -- '' for none
  weight int NOT NULL DEFAULT 1
);

-- The time and the id of a message as SQL writes them. They stand in an index: what they answer can never change.
CREATE FUNCTION message_time(key bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN to_timestamp(((key >> 21) + 1577836800000)::float8 / 1000);

CREATE FUNCTION message_uuid(key bigint, nonce bigint) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN encode(
    int8send((((key >> 21) + 1577836800000) << 16) | 28672 | ((key >> 9) & 4095))
      || int8send((-9223372036854775807 - 1) | ((key & 511) << 53) | (nonce & 9007199254740991)),
    'hex')::uuid;

-- Written once, never updated. By month.
CREATE TABLE message (
  key bigint NOT NULL,
  nonce bigint NOT NULL,
  queue bigint NOT NULL,
  priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
  due bigint NOT NULL,             -- of the first attempt
  send_at bigint,
  expires_at bigint,
  recipient bigint NOT NULL,       -- keyed hash
  referred bigint,                 -- keyed hash of the reference
  batch bigint NOT NULL,           -- audit row of the acceptance
  tenant text NOT NULL,
  ordering_key text,
  type text,
  template text,
  reference text,
  body bytea NOT NULL,
  PRIMARY KEY (key)
) PARTITION BY RANGE (key);

CREATE TABLE message_rest PARTITION OF message DEFAULT;

CREATE INDEX message_by_reference ON message (referred, key) WHERE referred IS NOT NULL;

-- Led by a stretch of 19 hours, so that inserts stay within a small part of the tree; a search looks once into each.
CREATE INDEX message_by_recipient ON message ((key >> 47), recipient, key);

-- For those who ask by SQL: a few pages for each month.
CREATE INDEX message_by_age ON message USING brin (message_time(key), message_uuid(key, nonce))
  WITH (autosummarize = on);

-- What waits and can go when it is due. rank is 9 - priority, and 10 more for what was tried before. Rows are only
-- ever inserted and deleted, and soon, so that the table and its index stay small if they are vacuumed often.
CREATE TABLE ready (
  queue bigint NOT NULL,
  due bigint NOT NULL,
  key bigint NOT NULL,
  steps int NOT NULL,
  rank smallint NOT NULL,
  PRIMARY KEY (queue, rank, due, key)
) WITH (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0
);

-- The claim journal: one row a batch, deleted when its last message is settled. members holds, for each message,
-- key, due (8 bytes each) and steps (4 bytes), little endian. A message that is given back, or taken over, leaves it.
CREATE SEQUENCE claim_id;

CREATE TABLE claim (
  id bigint PRIMARY KEY,
  node bigint NOT NULL,
  at bigint NOT NULL,
  members bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE claim ALTER members SET STORAGE EXTERNAL;

-- Everything that happened to a message after acceptance, in order. Its last row says where the message stands.
-- outcome: 1 sent, 2 retry, 3 failed, 4 held, 10 cancelled, 11 expired, 12 discarded, 13 reprocessed. By month, too,
-- in which the message was accepted.
CREATE TABLE history (
  key bigint NOT NULL,
  started_at bigint NOT NULL,
  finished_at bigint NOT NULL,
  next_due bigint,
  delay bigint,
  batch bigint NOT NULL,
  seq int NOT NULL,
  outcome smallint NOT NULL,
  round smallint NOT NULL,
  number smallint NOT NULL,        -- of the attempt; 0 where there was none
  attempts smallint NOT NULL,      -- that counted in the round, after this
  crashes smallint NOT NULL,       -- in a row, after this
  reason smallint,
  doubtful boolean NOT NULL,       -- some attempt up to this row may have been sent, though it failed
  tenant text NOT NULL,
  failure text,                    -- JSON: verdict, category, code, text
  receipt text,                    -- JSON: provider's id, code
  explanation text,
  policy text,                     -- the one that applied, in one line, where it decided anything
  actor text,
  PRIMARY KEY (key, seq),
  CHECK ((outcome IN (3, 11)) = (reason IS NOT NULL)),
  CHECK ((outcome IN (2, 4, 13)) = (next_due IS NOT NULL)),
  CHECK ((outcome IN (10, 12)) = (actor IS NOT NULL))
) PARTITION BY RANGE (key);

CREATE TABLE history_rest PARTITION OF history DEFAULT;

-- The dead letters. A reprocessing turns the failed row's outcome into one outside this index.
CREATE INDEX dead ON history (key) WHERE outcome IN (3, 11);

-- Unfinished messages that share an ordering key; one of them is active, the others wait outside the queues.
CREATE TABLE ordered (
  digest bytea NOT NULL,           -- of tenant and ordering key
  key bigint NOT NULL,
  active boolean NOT NULL,
  turn bigint GENERATED ALWAYS AS IDENTITY,  -- as accepted, which keys from several nodes do not tell
  PRIMARY KEY (digest, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ordered_by_turn ON ordered (digest, turn);

-- Deadlines of messages that are not finished.
CREATE TABLE expiry (
  at bigint NOT NULL,
  key bigint NOT NULL,
  PRIMARY KEY (at, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE idempotency (
  digest bytea PRIMARY KEY,        -- of tenant and key
  key bigint NOT NULL,
  nonce bigint NOT NULL,
  tenant text NOT NULL,
  idempotency_key text NOT NULL,   -- for the way to another store, whose digests may differ
  fingerprint bytea NOT NULL
);

-- What makes a channel or one destination of it (null for the whole channel) wait.
CREATE TABLE block (
  digest bytea PRIMARY KEY,        -- of channel and destination
  channel text NOT NULL,
  destination text,
  body text NOT NULL,              -- JSON
  probe bigint                     -- the message that is trying it
) WITH (fillfactor = 50);

-- Moves with every change of a block, so that nobody works with old ones.
CREATE TABLE board (
  version bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO board VALUES (0);

-- How far ahead of its rate a bounded place is.
CREATE TABLE flow (
  digest bytea PRIMARY KEY,        -- of channel and destination
  channel text NOT NULL,
  destination text,
  next bigint NOT NULL,
  at bigint NOT NULL
) WITH (fillfactor = 50);

-- Counters, kept as things happen, by each process in rows of its own. hour is hours since the epoch, 0 for all time.
CREATE TABLE tally (
  count bigint NOT NULL,
  hour int NOT NULL,
  slot smallint NOT NULL,
  what smallint NOT NULL,
  tenant text NOT NULL,
  channel text NOT NULL,
  PRIMARY KEY (hour, tenant, channel, what, slot)
) WITH (fillfactor = 50);

-- The audit: one row a commit, which becomes a block of the chain when it is sealed.
CREATE TABLE audit (
  batch bigint PRIMARY KEY,        -- by which messages and their history name it
  turn bigint NOT NULL UNIQUE,     -- given at the very end of the transaction: sealed in this order, causes come first
  at bigint NOT NULL,
  sequence bigint UNIQUE,
  position bigint UNIQUE,
  count int NOT NULL,
  hash bytea,
  entries bytea NOT NULL
) WITH (fillfactor = 90);

ALTER TABLE audit ALTER entries SET STORAGE EXTERNAL;

CREATE SEQUENCE audit_batch;

CREATE SEQUENCE audit_turn;

CREATE INDEX audit_unsealed ON audit (turn) WHERE sequence IS NULL;

-- Where the chain ends. Whoever seals holds this row.
CREATE TABLE audit_tip (
  sequence bigint NOT NULL,        -- of the next block
  position bigint NOT NULL,        -- of the next record
  hash bytea NOT NULL
) WITH (fillfactor = 50);

INSERT INTO audit_tip VALUES (0, 0, decode(repeat('00', 32), 'hex'));

CREATE TABLE api_key (
  id text PRIMARY KEY,
  tenant text NOT NULL,
  role text NOT NULL,
  label text NOT NULL,
  digest bytea NOT NULL UNIQUE,
  created_at bigint NOT NULL
);

-- Every version of every template, written once.
CREATE TABLE template (
  tenant text NOT NULL,
  name text COLLATE "C" NOT NULL,  -- listed in the order of its bytes, whatever the database's is
  version int NOT NULL CHECK (version > 0),
  created_at bigint NOT NULL,
  actor text NOT NULL,
  body text NOT NULL,              -- JSON: subject, text, html, whatsapp
  PRIMARY KEY (tenant, name, version)
);

-- Attachments, each once however many messages have it, by SHA-256.
CREATE TABLE blob (
  digest bytea PRIMARY KEY,
  bytes bytea NOT NULL
);

ALTER TABLE blob ALTER bytes SET STORAGE EXTERNAL;

-- Which message has which, so that pruning knows when nobody needs a blob any more.
CREATE TABLE blob_use (
  digest bytea NOT NULL,
  key bigint NOT NULL,
  PRIMARY KEY (digest, key)
);

-- By which id a provider speaks of a message: hash is a keyed hash of channel and id, slice the stretch of 19 hours
-- in which it was sent.
CREATE TABLE receipt (
  slice bigint NOT NULL,
  hash bigint NOT NULL,
  key bigint NOT NULL,
  PRIMARY KEY (slice, hash)
);

-- The furthest report on a message that was sent.
CREATE TABLE delivery (
  key bigint PRIMARY KEY,
  at bigint NOT NULL,
  state smallint NOT NULL CHECK (state BETWEEN 1 AND 6),
  tenant text NOT NULL,
  detail text
) WITH (fillfactor = 80);

-- Whose messages an application enqueues and sees by SQL; the default tenant's if its role is not here.
CREATE TABLE app (
  role name PRIMARY KEY,
  tenant text NOT NULL CHECK (tenant ~ '^[a-z0-9][a-z0-9_-]{0,63}$')
);

CREATE FUNCTION tenant() RETURNS text LANGUAGE sql STABLE
  RETURN coalesce((SELECT app.tenant FROM app WHERE app.role = current_user),
                  (SELECT app.tenant FROM app WHERE app.role = session_user), 'default');

-- Ids that are given out by SQL: those of slot 127, which no process has.
CREATE SEQUENCE enqueue_count MINVALUE 0 MAXVALUE 16383 CYCLE;

CREATE FUNCTION enqueue_key() RETURNS bigint LANGUAGE sql VOLATILE
  RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 21)
    | (127 << 14) | nextval('enqueue_count');

-- 53 bits of a random UUID.
CREATE FUNCTION enqueue_nonce() RETURNS bigint LANGUAGE sql VOLATILE
  RETURN ('x' || right(gen_random_uuid()::text, 12))::bit(48)::bigint << 5
    | (get_byte(uuid_send(gen_random_uuid()), 0) & 31);

-- What applications enqueue by SQL, in transactions of their own. The id is given already; a node makes the message.
CREATE TABLE inbox (
  key bigint PRIMARY KEY DEFAULT enqueue_key(),
  nonce bigint NOT NULL DEFAULT enqueue_nonce(),
  tenant text NOT NULL DEFAULT tenant(),
  -- As large as a message with attachments can be, as text.
  request jsonb NOT NULL CHECK (jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 40000000)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX inbox_by_idempotency ON inbox (tenant, (request ->> 'idempotency_key'))
  WHERE request ->> 'idempotency_key' IS NOT NULL;

-- What came that way and cannot be a message, and why.
CREATE TABLE refused (
  key bigint PRIMARY KEY,
  nonce bigint NOT NULL,
  at bigint NOT NULL,
  tenant text NOT NULL,
  request jsonb NOT NULL,
  why text NOT NULL
);

-- What applications want done with a message by SQL.
CREATE TABLE command (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()) * 1000),
  tenant text NOT NULL DEFAULT tenant(),
  actor text NOT NULL DEFAULT current_user,
  verb text NOT NULL CHECK (verb IN ('mark_failed')),
  key bigint NOT NULL,
  nonce bigint NOT NULL,
  detail text NOT NULL
);

-- The channels as nodes are configured, for those who ask by SQL. One that is no longer configured stays, since it
-- has messages.
CREATE TABLE channel (
  name text PRIMARY KEY,
  kind text NOT NULL,
  tenant text NOT NULL,
  attempts int NOT NULL,           -- that its policy allows in a round
  configured boolean NOT NULL,
  ready boolean NOT NULL           -- set up, so that something can be sent through it
);
