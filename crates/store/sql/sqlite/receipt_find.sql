-- slice, hash; primary key
SELECT key FROM receipt WHERE slice = ?1 AND hash = ?2
