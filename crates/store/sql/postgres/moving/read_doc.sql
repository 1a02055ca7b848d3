-- after shelf, tenant and id, limit, bytes; primary key
SELECT shelf, tenant, id, shelf, tenant, id, version, rank, topic, due, updated_at, body FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY shelf, tenant, id) - octet_length(body) AS before
  FROM (SELECT * FROM doc WHERE (shelf, tenant, id) > ($1, $2, $3) ORDER BY shelf, tenant, id LIMIT $4) AS few
) AS d WHERE before < $5 ORDER BY shelf, tenant, id
