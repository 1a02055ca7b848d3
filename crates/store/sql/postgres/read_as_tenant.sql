-- tenant; the rest of the transaction sees nobody else's rows
SELECT set_config('pombo.tenant', $1, true),
       (SELECT set_config('role', rolname, true) FROM pg_catalog.pg_roles WHERE rolname = 'pombo_reader')
