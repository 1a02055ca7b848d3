-- digests; those that no message has, held so that none can come to have them
SELECT digest FROM blob WHERE digest = ANY ($1)
  AND NOT EXISTS (SELECT FROM blob_use WHERE blob_use.digest = blob.digest)
ORDER BY digest FOR UPDATE SKIP LOCKED
