-- after key and version, limit, bytes; primary key
SELECT key, version, key, version, seq, replaced_at, actor, note, body FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY key, version) - octet_length(body) AS before
  FROM (SELECT * FROM revision WHERE (key, version) > ($1, $2) ORDER BY key, version LIMIT $3) AS few
) AS r WHERE before < $4 ORDER BY key, version
