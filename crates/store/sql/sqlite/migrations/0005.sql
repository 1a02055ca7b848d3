-- Schema 5: whom campaigns write to.

-- A campaign's list. The campaign itself is a document.
CREATE TABLE roster (
  id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  campaign TEXT NOT NULL,
  UNIQUE (tenant, campaign)
) STRICT;

CREATE TABLE recipient (
  roster INTEGER NOT NULL,
  number INTEGER NOT NULL CHECK (number > 0),
  line INTEGER NOT NULL,           -- where it stood in what was read
  address TEXT NOT NULL,
  person TEXT,                     -- what tells this one from others; none if nobody can be written to by it
  payload TEXT,                    -- JSON
  standing INTEGER NOT NULL,
  reason TEXT,
  message INTEGER,
  nonce INTEGER,
  PRIMARY KEY (roster, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX recipient_by_person ON recipient (roster, person) WHERE person IS NOT NULL;

CREATE INDEX recipient_by_standing ON recipient (roster, standing, number);

CREATE UNIQUE INDEX recipient_by_message ON recipient (message) WHERE message IS NOT NULL;
