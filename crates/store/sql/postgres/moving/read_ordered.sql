-- after digest and key, limit; primary key, then each message by its own
SELECT o.digest, o.key, m.tenant, m.ordering_key, o.key, o.active, o.turn
FROM (SELECT * FROM ordered WHERE (digest, key) > ($1, $2) ORDER BY digest, key LIMIT $3) AS o
JOIN message m ON m.key = o.key ORDER BY o.digest, o.key
