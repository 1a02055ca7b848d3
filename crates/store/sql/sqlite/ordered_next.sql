-- tenant, ordering key; index ordered_by_turn: who came first
SELECT key FROM ordered WHERE tenant = ?1 AND ordering_key = ?2 ORDER BY turn LIMIT 1
