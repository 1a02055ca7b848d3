-- key, round; when the first attempt of the round had ended that is followed by another: a range of the primary key
SELECT finished_at FROM history WHERE key = ?1 AND round = ?2 AND outcome = 2 ORDER BY seq LIMIT 1
