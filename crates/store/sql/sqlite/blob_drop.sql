-- digest; if no message has it by now
DELETE FROM blob WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.digest = ?1)
