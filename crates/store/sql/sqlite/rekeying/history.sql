-- key, seq, new failure and explanation, those that were read
UPDATE history SET failure = ?3, explanation = ?4
WHERE key = ?1 AND seq = ?2 AND failure IS ?5 AND explanation IS ?6
