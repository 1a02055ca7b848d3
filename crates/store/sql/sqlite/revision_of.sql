-- key, nonce, tenant; a range of the primary key
SELECT r.version, r.replaced_at, r.actor, r.note, r.body
FROM revision r JOIN message m ON m.key = r.key JOIN queue q ON q.id = m.queue
WHERE r.key = ?1 AND m.nonce = ?2 AND q.tenant = ?3 ORDER BY r.version
