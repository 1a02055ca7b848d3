-- beginning of the names, after key, limit; a few rows that came with a copy of a database
SELECT CAST(substr(name, length(?1) + 1) AS INTEGER) AS key, value FROM meta
WHERE substr(name, 1, length(?1)) = ?1 AND CAST(substr(name, length(?1) + 1) AS INTEGER) > ?2 ORDER BY key LIMIT ?3
