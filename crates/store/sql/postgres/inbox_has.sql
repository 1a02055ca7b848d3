-- keys; those that no node has looked at yet
SELECT key FROM inbox WHERE key = ANY ($1)
