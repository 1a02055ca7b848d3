-- before, since, limit, keyed hash of the recipient, stretches of 19 hours; in each one seek in index
-- message_by_recipient, whose order is named whole: row level security lets the planner see no shorter one in it
SELECT found.key FROM unnest($5) AS stretch (number) CROSS JOIN LATERAL (
  SELECT key FROM message WHERE key >> 47 = stretch.number AND recipient = $4 AND key < $1 AND key >= $2
  ORDER BY key >> 47 DESC, recipient DESC, key DESC LIMIT $3
) found ORDER BY found.key DESC LIMIT $3
