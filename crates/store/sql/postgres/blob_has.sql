-- digests; those that are there, and stay until the transaction ends
SELECT digest FROM blob WHERE digest = ANY ($1) ORDER BY digest FOR KEY SHARE
