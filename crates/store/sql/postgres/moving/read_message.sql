-- after key, limit, bytes; the partitions' primary keys. An audit row that is not sealed yet is given as -1 - batch
SELECT m.key, m.key, m.nonce, m.queue, m.priority, m.due, m.send_at, m.expires_at, m.ordering_key, m.type, m.template,
       m.reference, m.recipient, coalesce(a.sequence, -1 - m.batch), m.body
FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY key) - octet_length(body) AS before
  FROM (SELECT * FROM message WHERE key > $1 ORDER BY key LIMIT $2) AS few
) AS m LEFT JOIN audit a ON a.batch = m.batch
WHERE m.before < $3 ORDER BY m.key
