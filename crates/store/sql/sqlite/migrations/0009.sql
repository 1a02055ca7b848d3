-- Schema 9: fewer pages in a commit.
--
-- A recipient's place in an index has nothing to do with when a message came, so a commit wrote a page of it for each of
-- its messages. Now messages are entered by the thousand, in the order of the index, and those that are not yet are found
-- without one: there are few.

CREATE TABLE directory (
  slice INTEGER NOT NULL,          -- the message's
  recipient INTEGER NOT NULL,      -- keyed hash
  key INTEGER NOT NULL,
  PRIMARY KEY (slice, recipient, key)
) STRICT, WITHOUT ROWID;

-- Messages up to this key are in the directory, and no others.
CREATE TABLE directory_end (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  key INTEGER NOT NULL
) STRICT;

INSERT INTO directory (slice, recipient, key)
SELECT slice, recipient, key FROM message INDEXED BY message_by_recipient ORDER BY slice, recipient, key;

INSERT INTO directory_end (id, key) SELECT 1, coalesce(max(key), 0) FROM message;

DROP INDEX message_by_recipient;

-- Positions rise with the sequence, by which they are found.
DROP INDEX audit_by_position;
