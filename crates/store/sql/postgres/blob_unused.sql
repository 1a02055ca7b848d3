-- how many; attachments that no message has, held so that none can come to have them
SELECT digest FROM blob WHERE NOT EXISTS (SELECT FROM blob_use WHERE blob_use.digest = blob.digest)
LIMIT $1 FOR UPDATE SKIP LOCKED
