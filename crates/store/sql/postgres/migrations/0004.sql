-- Schema 4: counters have a detail, and a sum of what lasts.

-- The channel is empty where something is of none, the detail where there is none. sum is in milliseconds.
ALTER TABLE tally_added ADD COLUMN sum bigint NOT NULL DEFAULT 0, ADD COLUMN detail text NOT NULL DEFAULT '';
ALTER TABLE tally ADD COLUMN sum bigint NOT NULL DEFAULT 0, ADD COLUMN detail text NOT NULL DEFAULT '';
ALTER TABLE tally DROP CONSTRAINT tally_pkey;
ALTER TABLE tally ADD PRIMARY KEY (hour, tenant, channel, what, detail);

-- What waits or is being sent (38), by lane: in queues, behind others of its order, or in the journal.
ALTER TABLE tally NO FORCE ROW LEVEL SECURITY;
ALTER TABLE queue NO FORCE ROW LEVEL SECURITY;
ALTER TABLE message NO FORCE ROW LEVEL SECURITY;
ALTER TABLE history NO FORCE ROW LEVEL SECURITY;

INSERT INTO tally (hour, tenant, channel, what, detail, count)
SELECT 0, q.tenant, q.channel, 38, q.lane, count(*)
FROM (
  SELECT queue FROM ready
  UNION ALL
  SELECT m.queue FROM ordered o JOIN message m ON m.key = o.key WHERE NOT o.active
  UNION ALL
  SELECT m.queue
  FROM claim c
  CROSS JOIN generate_series(0, octet_length(c.members) - 20, 20) AS start
  CROSS JOIN LATERAL (
    SELECT sum(get_byte(c.members, start + n)::bigint << (8 * n))::bigint AS key FROM generate_series(0, 7) AS n
  ) k
  CROSS JOIN LATERAL (
    SELECT sum(get_byte(c.members, start + 16 + n)::bigint << (8 * n))::bigint AS steps FROM generate_series(0, 3) AS n
  ) s
  JOIN message m ON m.key = k.key
  WHERE NOT EXISTS (SELECT FROM history h WHERE h.key = k.key AND h.seq = s.steps)
) unfinished
JOIN queue q ON q.id = unfinished.queue
GROUP BY q.tenant, q.channel, q.lane;

ALTER TABLE tally FORCE ROW LEVEL SECURITY;
ALTER TABLE queue FORCE ROW LEVEL SECURITY;
ALTER TABLE message FORCE ROW LEVEL SECURITY;
ALTER TABLE history FORCE ROW LEVEL SECURITY;
