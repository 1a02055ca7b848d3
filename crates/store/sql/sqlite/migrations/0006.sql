-- Schema 6: counters have a detail, and a sum of what lasts.

ALTER TABLE tally RENAME TO tally_without_detail;

-- hour is hours since the epoch, 0 for all time. The channel is empty where something is of none, the detail where there
-- is none. sum is in milliseconds.
CREATE TABLE tally (
  hour INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  channel TEXT NOT NULL,
  what INTEGER NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  count INTEGER NOT NULL,
  sum INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (hour, tenant, channel, what, detail)
) STRICT, WITHOUT ROWID;

INSERT INTO tally (hour, tenant, channel, what, count)
SELECT hour, tenant, channel, what, count FROM tally_without_detail;

DROP TABLE tally_without_detail;
