-- key; by receipt_by_key
DELETE FROM receipt WHERE key = ?1
