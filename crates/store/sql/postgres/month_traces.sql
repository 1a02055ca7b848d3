-- from, to, how much of each at most, until when idempotency keys stay; what else is known of the messages in between, and
-- how much of it was found. By the keys and indexes of each table.
WITH a AS (
  DELETE FROM delivery WHERE key IN (SELECT key FROM delivery WHERE key >= $1 AND key < $2 LIMIT $3) RETURNING key
), b AS (
  DELETE FROM receipt WHERE (slice, hash) IN (SELECT slice, hash FROM receipt WHERE key >= $1 AND key < $2 LIMIT $3)
  RETURNING key
), c AS (
  DELETE FROM blob_use WHERE (digest, key) IN (SELECT digest, key FROM blob_use WHERE key >= $1 AND key < $2 LIMIT $3)
  RETURNING key
), d AS (
  DELETE FROM refused WHERE key IN (SELECT key FROM refused WHERE key >= $1 AND key < $2 LIMIT $3) RETURNING key
), e AS (
  DELETE FROM revision
  WHERE (key, version) IN (SELECT key, version FROM revision WHERE key >= $1 AND key < $2 LIMIT $3) RETURNING key
), f AS (
  UPDATE recipient SET message = NULL, nonce = NULL WHERE (roster, number) IN (
    SELECT roster, number FROM recipient WHERE message >= $1 AND message < $2 LIMIT $3
  ) RETURNING number
), g AS (
  UPDATE idempotency SET until = $4 WHERE digest IN (
    SELECT digest FROM idempotency WHERE key >= $1 AND key < $2 AND until IS NULL LIMIT $3
  ) RETURNING key
)
SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) + (SELECT count(*) FROM c) + (SELECT count(*) FROM d)
  + (SELECT count(*) FROM e) + (SELECT count(*) FROM f) + (SELECT count(*) FROM g)
