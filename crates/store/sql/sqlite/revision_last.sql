-- key; one seek in the primary key
SELECT version, seq FROM revision WHERE key = ?1 ORDER BY version DESC LIMIT 1
