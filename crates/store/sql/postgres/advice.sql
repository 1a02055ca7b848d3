-- what a crash or a failover may lose. Whoever may not see the details of replication sees a row with nothing in it:
-- that counts as a standby. Backups, archives and logical subscribers take over from nobody
SELECT current_setting('fsync') = 'on' AS flushes,
  current_setting('full_page_writes') = 'on' AS whole_pages,
  current_setting('synchronous_commit') NOT IN ('off', 'local')
    AND current_setting('synchronous_standby_names') <> '' AS waits,
  (SELECT count(*) FROM pg_stat_replication AS standby
    WHERE coalesce(state, 'streaming') IN ('catchup', 'streaming')
      AND coalesce(application_name, '') NOT IN ('pg_basebackup', 'pg_receivewal')
      AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE active_pid = standby.pid AND slot_type = 'logical')
  ) AS standbys
