-- names of tables; how many rows of each are dead and how many are not, as far as the server has counted, and how
-- many bytes it and its indexes have
SELECT relname::text, n_dead_tup, n_live_tup, pg_total_relation_size(relid)
FROM pg_catalog.pg_stat_user_tables
WHERE schemaname = 'pombo' AND relname = ANY ($1)
