-- keys, the least of them, the greatest; everything else that is known of these messages, and the attachments that they had
WITH a AS (DELETE FROM message WHERE key BETWEEN $2 AND $3 AND key = ANY ($1)),
b AS (DELETE FROM history WHERE key BETWEEN $2 AND $3 AND key = ANY ($1)),
c AS (DELETE FROM revision WHERE key = ANY ($1)),
d AS (DELETE FROM delivery WHERE key = ANY ($1)),
e AS (DELETE FROM receipt WHERE key = ANY ($1)),
f AS (DELETE FROM refused WHERE key = ANY ($1)),
g AS (UPDATE recipient SET message = NULL, nonce = NULL WHERE message = ANY ($1)),
h AS (DELETE FROM blob_use WHERE key = ANY ($1) RETURNING digest)
SELECT DISTINCT digest FROM h
