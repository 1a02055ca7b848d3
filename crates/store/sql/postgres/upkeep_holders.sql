-- what has kept dead rows from being removed for more than a minute, the oldest first: what it is, its name or
-- process, for how many seconds (none if nobody knows), and how many transactions ago it began
SELECT * FROM (
  SELECT CASE WHEN backend_type = 'walsender' THEN 'standby' ELSE 'session' END, pid::text,
         extract(epoch FROM clock_timestamp() - xact_start)::bigint,
         greatest(age(backend_xmin), age(backend_xid))::bigint
  FROM pg_catalog.pg_stat_activity
  WHERE pid <> pg_backend_pid() AND pid NOT IN (SELECT pid FROM pg_catalog.pg_stat_progress_vacuum)
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND (datname IS NULL OR datname = current_database())
  UNION ALL
  SELECT 'prepared transaction', gid, extract(epoch FROM clock_timestamp() - prepared)::bigint, age(transaction)::bigint
  FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()
  UNION ALL
  SELECT 'replication slot', slot_name::text, NULL, age(xmin)::bigint
  FROM pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL
) AS holder (what, name, seconds, transactions)
WHERE seconds > 60 OR seconds IS NULL AND transactions > 100000
ORDER BY transactions DESC NULLS LAST LIMIT 1
