-- The roles of a server, which all of its databases share. For whoever may create roles, any number of times.
-- The setting pombo.login names the role that nodes log in as, if it is not the one that runs this.
DO $roles$
DECLARE
  login name := coalesce(nullif(current_setting('pombo.login', true), ''), current_user);
  -- Rights are for those who take the role, not for those who may.
  bare boolean := current_setting('server_version_num')::int >= 160000;
  wanted name;
BEGIN
  FOREACH wanted IN ARRAY '{pombo_engine,pombo_reader,pombo_app}'::name[] LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted);
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;  -- Somebody in another database was quicker.
    END;
  END LOOP;
  FOREACH wanted IN ARRAY '{pombo_engine,pombo_reader}'::name[] LOOP
    CONTINUE WHEN pg_has_role(login, wanted, CASE WHEN bare THEN 'SET' ELSE 'MEMBER' END);
    BEGIN
      EXECUTE format('GRANT %I TO %I', wanted, login)
        || CASE WHEN bare THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END;
    EXCEPTION WHEN unique_violation THEN
      NULL;
    END;
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE insufficient_privilege USING
    MESSAGE = format(
      'the role %I may not create the roles that Pombo needs; let an administrator of the server run: '
      'CREATE ROLE pombo_engine NOLOGIN; CREATE ROLE pombo_reader NOLOGIN; CREATE ROLE pombo_app NOLOGIN; '
      'GRANT pombo_engine, pombo_reader TO %I', current_user, login),
    HINT = '`pombo store migrate --print-roles` prints a script that does so, and may be run again';
END
$roles$;
