-- keyed hashes of channel and provider's id, in order; for each the last message that was sent under it, by a seek in
-- the primary key for each slice from the newest on. It is locked, so that reports on one message go one by one.
SELECT asked.hash, found.key FROM unnest($1) AS asked (hash) CROSS JOIN LATERAL (
  SELECT key FROM receipt
  WHERE slice = ANY (ARRAY (SELECT generate_series(min(slice), max(slice)) FROM receipt)) AND receipt.hash = asked.hash
  ORDER BY slice DESC LIMIT 1 FOR UPDATE
) found
