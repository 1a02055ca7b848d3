-- key, new detail, the detail that was read
UPDATE delivery SET detail = ?2 WHERE key = ?1 AND detail = ?3
