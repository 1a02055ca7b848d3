-- Schema 8: what happened to messages stands in the order in which it happened.
--
-- A row used to stand beside the earlier rows of its message, so that retries of many messages wrote a page for each. Now
-- rows go to the end, and only the index, which is small, is written in many places.

ALTER TABLE history RENAME TO history_by_message;

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
  doubtful INTEGER NOT NULL DEFAULT 0 CHECK (doubtful IN (0, 1)),
  keyed INTEGER NOT NULL DEFAULT 0,
  reprocessed_by TEXT,
  PRIMARY KEY (key, seq),
  CHECK ((outcome IN (3, 11)) = (reason IS NOT NULL)),
  CHECK ((outcome = 2 OR outcome = 4 OR outcome = 13) = (next_due IS NOT NULL)),
  CHECK ((outcome IN (10, 12)) = (actor IS NOT NULL))
) STRICT;

INSERT INTO history (key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, policy, actor, block, doubtful, keyed, reprocessed_by)
SELECT key, seq, outcome, round, number, attempts, crashes, started_at, finished_at, reason, next_due, delay, failure, receipt, explanation, policy, actor, block, doubtful, keyed, reprocessed_by
FROM history_by_message ORDER BY key, seq;

DROP TABLE history_by_message;
