-- what a copy does not bring along, cluster, database and table; and whether anything was ever written
SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system())::text || '/' || (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())::text
       || '/' || 'meta'::regclass::oid::text,
       EXISTS (SELECT FROM audit)
