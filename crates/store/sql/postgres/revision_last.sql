-- keys; of those that were edited the last version before, by the primary key
SELECT asked.key, r.version, r.seq FROM unnest($1::bigint[]) AS asked (key) CROSS JOIN LATERAL (
  SELECT version, seq FROM revision WHERE revision.key = asked.key ORDER BY version DESC LIMIT 1
) r
