-- tenant, ordering key; the last turn of those that are there, of whom one is active: index ordered_by_turn
SELECT turn FROM ordered WHERE tenant = ?1 AND ordering_key = ?2 ORDER BY turn DESC LIMIT 1
