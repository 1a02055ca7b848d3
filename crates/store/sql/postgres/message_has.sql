-- keys; those that are a message's already
SELECT key FROM message WHERE key = ANY ($1)
