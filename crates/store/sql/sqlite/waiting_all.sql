-- how many messages of each queue wait, in it or behind others of their order
SELECT queue, count(*) FROM (
  SELECT queue FROM ready
  UNION ALL SELECT message.queue FROM ordered JOIN message ON message.key = ordered.key WHERE active = 0
) GROUP BY queue
