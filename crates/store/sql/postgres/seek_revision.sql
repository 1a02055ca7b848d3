-- after key, version, limit; primary key. What messages said before, whosever
SELECT r.key, r.version::bigint, r.tenant, m.nonce, r.body, q.channel
FROM revision r JOIN message m ON m.key = r.key JOIN queue q ON q.id = m.queue
WHERE (r.key, r.version) > ($1, $2) ORDER BY r.key, r.version LIMIT $3
