-- name, value: rows as JSON, each into the table that its name names
WITH r AS (
  SELECT split_part(name, '/', 2) AS of, convert_from(value, 'UTF8')::jsonb AS it
  FROM unnest($1::text[], $2::bytea[]) AS u (name, value)
), one AS (
  INSERT INTO inbox SELECT p.* FROM r, jsonb_populate_record(NULL::inbox, r.it) AS p WHERE r.of = 'inbox'
), two AS (
  INSERT INTO command OVERRIDING SYSTEM VALUE
  SELECT p.* FROM r, jsonb_populate_record(NULL::command, r.it) AS p WHERE r.of = 'command'
), three AS (
  INSERT INTO refused SELECT p.* FROM r, jsonb_populate_record(NULL::refused, r.it) AS p WHERE r.of = 'refused'
), four AS (
  INSERT INTO channel SELECT p.* FROM r, jsonb_populate_record(NULL::channel, r.it) AS p WHERE r.of = 'channel'
)
INSERT INTO app SELECT p.* FROM r, jsonb_populate_record(NULL::app, r.it) AS p WHERE r.of = 'app'
