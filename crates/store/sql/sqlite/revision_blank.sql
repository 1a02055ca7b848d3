-- key, version, what stands for what was said
UPDATE revision SET body = ?3, note = NULL WHERE key = ?1 AND version = ?2
