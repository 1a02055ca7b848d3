-- after key and version, limit; primary key
SELECT key, version, key, version, seq, replaced_at, actor, note, body
FROM revision WHERE (key, version) > (?1, ?2) ORDER BY key, version LIMIT ?3
