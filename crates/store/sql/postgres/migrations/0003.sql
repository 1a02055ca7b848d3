-- Schema 3: whom campaigns write to; counters that are only added to.

-- A campaign's list. The campaign itself is a document.
CREATE TABLE roster (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  campaign text COLLATE "C" NOT NULL,
  UNIQUE (tenant, campaign)
);

CREATE TABLE recipient (
  roster bigint NOT NULL,
  number bigint NOT NULL CHECK (number > 0),
  line bigint NOT NULL,            -- where it stood in what was read
  message bigint,
  nonce bigint,
  standing smallint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  address text NOT NULL,
  person text,                     -- what tells this one from others; none if nobody can be written to by it
  digest bytea,                    -- of the person, who may be too long for an index
  payload text,                    -- JSON
  reason text,
  PRIMARY KEY (roster, number)
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX recipient_by_person ON recipient (roster, digest) WHERE digest IS NOT NULL;

CREATE INDEX recipient_by_standing ON recipient (roster, standing, number);

CREATE UNIQUE INDEX recipient_by_message ON recipient (message) WHERE message IS NOT NULL;

-- Campaigns and lines that were changed lately, of which nodes hear by looking.
CREATE INDEX doc_by_change ON doc (updated_at) WHERE shelf IN (7, 8);

-- What groups add to counters, until it is added up into tally and cause_count. A row that every group changes
-- leaves what it was behind, for as long as anybody looks at an older state, and every change walks past all that.
CREATE TABLE tally_added (
  count bigint NOT NULL,
  hour int NOT NULL,
  what smallint NOT NULL,
  tenant text NOT NULL,
  channel text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE cause_added (
  cause bigint NOT NULL,
  count bigint NOT NULL,
  tenant text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Counters, one row each. hour is hours since the epoch, 0 for all time.
CREATE TABLE tally_sum (
  count bigint NOT NULL,
  hour int NOT NULL,
  what smallint NOT NULL,
  tenant text NOT NULL,
  channel text NOT NULL,
  PRIMARY KEY (hour, tenant, channel, what)
) WITH (fillfactor = 50);

ALTER TABLE tally NO FORCE ROW LEVEL SECURITY;

INSERT INTO tally_sum (count, hour, what, tenant, channel)
SELECT sum(count), hour, what, tenant, channel FROM tally GROUP BY hour, what, tenant, channel;

DROP TABLE tally;
ALTER TABLE tally_sum RENAME TO tally;
ALTER INDEX tally_sum_pkey RENAME TO tally_pkey;

-- How many letters of each cause wait.
CREATE TABLE cause_sum (
  cause bigint NOT NULL,
  count bigint NOT NULL,
  tenant text NOT NULL,
  PRIMARY KEY (tenant, cause)
) WITH (fillfactor = 50);

ALTER TABLE cause_count NO FORCE ROW LEVEL SECURITY;

INSERT INTO cause_sum (cause, count, tenant) SELECT cause, sum(count), tenant FROM cause_count GROUP BY cause, tenant;

DROP TABLE cause_count;
ALTER TABLE cause_sum RENAME TO cause_count;
ALTER INDEX cause_sum_pkey RENAME TO cause_count_pkey;
