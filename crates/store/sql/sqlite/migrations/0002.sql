-- Schema 2: templates, and attachments apart from the messages that they came with.

-- Every version of every template, written once.
CREATE TABLE template (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  created_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  body TEXT NOT NULL,              -- JSON: subject, text, html, whatsapp
  PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;

-- Attachments, each once however many messages have it, by SHA-256.
CREATE TABLE blob (
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  bytes BLOB NOT NULL
) STRICT;

-- Which message has which, so that pruning knows when nobody needs a blob any more.
CREATE TABLE blob_use (
  digest BLOB NOT NULL,
  key INTEGER NOT NULL,
  PRIMARY KEY (digest, key)
) STRICT, WITHOUT ROWID;
