-- after id, limit; primary key, and its counts, with what is not added up yet
SELECT c.id, c.id, c.tenant, c.channel, c.category, c.text, (
  coalesce((SELECT n.count FROM cause_count n WHERE n.tenant = c.tenant AND n.cause = c.id), 0)
  + coalesce((SELECT sum(n.count) FROM cause_added n WHERE n.tenant = c.tenant AND n.cause = c.id), 0)
)::bigint
FROM (SELECT * FROM cause WHERE id > $1 ORDER BY id LIMIT $2) AS c ORDER BY c.id
