-- key, nonce, tenant; a range of the primary key
SELECT r.version, r.replaced_at, r.actor, r.note, r.body
FROM revision r JOIN message m ON m.key = r.key
WHERE r.key = $1 AND m.key = $1 AND m.nonce = $2 AND r.tenant = $3 ORDER BY r.version
