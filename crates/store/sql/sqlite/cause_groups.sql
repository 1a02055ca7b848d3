-- tenant, limit; the largest by index cause_by_count, and the newest and the oldest letter of each by dead_letter_by_cause
SELECT c.id, c.channel, c.category, c.text, c.count, m.key, m.nonce,
       (SELECT finished_at FROM history WHERE history.key = m.key ORDER BY seq DESC LIMIT 1),
       (SELECT finished_at FROM history
        WHERE history.key = (SELECT min(key) FROM dead_letter WHERE cause = c.id) ORDER BY seq DESC LIMIT 1)
FROM cause c CROSS JOIN message m ON m.key = (SELECT max(key) FROM dead_letter WHERE cause = c.id)
WHERE c.tenant = ?1 AND c.count > 0 ORDER BY c.count DESC, c.id LIMIT ?2
