-- now; journal rows whose node has no lease, the oldest first, but for those that somebody works on
SELECT c.id, c.node, c.at, c.members FROM claim c
WHERE NOT EXISTS (SELECT FROM node n WHERE n.id = c.node AND n.lease_until > $1)
ORDER BY c.id FOR UPDATE OF c SKIP LOCKED
