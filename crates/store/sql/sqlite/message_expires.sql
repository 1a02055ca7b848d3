-- key, expires_at; in its new round
UPDATE message SET expires_at = ?2 WHERE key = ?1
