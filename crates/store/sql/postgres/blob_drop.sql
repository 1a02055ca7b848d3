-- digests; those of them that no message has by now
DELETE FROM blob WHERE digest = ANY ($1)
  AND NOT EXISTS (SELECT FROM blob_use WHERE blob_use.digest = blob.digest)
