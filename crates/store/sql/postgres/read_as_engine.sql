-- the rest of the transaction sees every tenant. A database without roles, such as one that its owner reads, stays as it is
SELECT set_config('role', rolname, true) FROM pg_catalog.pg_roles WHERE rolname = 'pombo_engine'
