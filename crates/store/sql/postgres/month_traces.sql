-- from, to; what else is known of the messages in between
WITH a AS (DELETE FROM delivery WHERE key >= $1 AND key < $2),
b AS (DELETE FROM receipt WHERE key >= $1 AND key < $2),
c AS (DELETE FROM blob_use WHERE key >= $1 AND key < $2),
d AS (DELETE FROM refused WHERE key >= $1 AND key < $2),
e AS (DELETE FROM revision WHERE key >= $1 AND key < $2)
DELETE FROM idempotency WHERE key >= $1 AND key < $2
