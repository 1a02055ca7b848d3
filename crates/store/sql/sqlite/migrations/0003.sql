-- Schema 3. What providers say later of messages that were sent, and the doubt that an attempt leaves.

-- By which id a provider speaks of a message: hash is a keyed hash of channel and id. Led by the slice, as the
-- messages by recipient are, so that inserts stay within a small part of the tree.
CREATE TABLE receipt (
  slice INTEGER NOT NULL,
  hash INTEGER NOT NULL,
  key INTEGER NOT NULL,
  PRIMARY KEY (slice, hash)
) STRICT, WITHOUT ROWID;

-- The furthest report on a message that was sent.
CREATE TABLE delivery (
  key INTEGER PRIMARY KEY,
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 6),
  at INTEGER NOT NULL,
  detail TEXT
) STRICT;

-- Some attempt up to this row may have been sent, though it failed.
ALTER TABLE history ADD COLUMN doubtful INTEGER NOT NULL DEFAULT 0 CHECK (doubtful IN (0, 1));

UPDATE history SET doubtful = 1 WHERE EXISTS (
  SELECT 1 FROM history AS earlier
  WHERE earlier.key = history.key AND earlier.seq <= history.seq AND earlier.failure ->> '$.perhaps_sent'
);
