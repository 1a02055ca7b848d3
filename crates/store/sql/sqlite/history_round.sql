-- key; since when it is in its round, if it was reprocessed: a range of the primary key
SELECT finished_at FROM history WHERE key = ?1 AND outcome = 13 ORDER BY seq DESC LIMIT 1
