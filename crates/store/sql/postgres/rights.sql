-- Who may do what, after the roles are there. Any number of times, by the owner of the schema.
--
-- pombo_engine works for all tenants; pombo_reader sees the one that pombo.tenant names; pombo_app, applications in
-- their own transactions, the one that table app gives to the role. Row level security is forced, so that the owner
-- is bound as well, and partitions can be reached only through their parents.
GRANT USAGE ON SCHEMA pombo TO pombo_engine, pombo_reader, pombo_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA pombo TO pombo_engine;
GRANT USAGE ON SEQUENCE enqueue_count TO pombo_app;

DO $rights$
DECLARE
  -- Nothing in them is any tenant's: times, counters, keys without what they open, digests.
  plain CONSTANT name[] := '{meta,slot,node,office,board,flow,audit_tip,ready,claim,ordered,expiry,receipt}';
  -- Read for one tenant at a time; and what applications look at.
  by_reader CONSTANT name[] := '{queue,message,history,delivery,template,tally,tally_added,doc,cause,cause_count,cause_added,dead_letter,revision,roster,recipient}';
  by_app CONSTANT name[] := '{channel,inbox,refused,idempotency}';
  t record;
  p record;
BEGIN
  FOR t IN
    SELECT oid, relname AS name, relispartition AS part, relrowsecurity AND relforcerowsecurity AS forced
    FROM pg_catalog.pg_class
    WHERE relnamespace = 'pombo'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname
  LOOP
    IF t.name = 'audit' THEN
      -- A record is added once and sealed once. Nothing of it is changed or removed after that, by anybody's verbs.
      REVOKE UPDATE, DELETE ON audit FROM pombo_engine;
      GRANT SELECT, INSERT, UPDATE (sequence, position, hash) ON audit TO pombo_engine;
      DROP POLICY IF EXISTS engine ON audit;
    ELSIF t.name = 'audit_tip' THEN
      REVOKE INSERT, DELETE ON audit_tip FROM pombo_engine;
      GRANT SELECT, UPDATE ON audit_tip TO pombo_engine;
    ELSIF NOT t.part THEN
      EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO pombo_engine', t.name);
    END IF;
    CONTINUE WHEN t.name = ANY (plain);
    IF NOT t.forced THEN
      EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', t.name);
    END IF;
    CONTINUE WHEN t.part;
    FOR p IN
      SELECT 'engine' AS name, 'FOR ALL TO pombo_engine USING (true) WITH CHECK (true)' AS rule
      WHERE t.name <> 'audit'
      UNION ALL
      SELECT * FROM (VALUES
        ('engine_reads', 'FOR SELECT TO pombo_engine USING (true)'),
        ('engine_adds', 'FOR INSERT TO pombo_engine WITH CHECK (true)'),
        ('engine_seals', 'FOR UPDATE TO pombo_engine USING (sequence IS NULL) WITH CHECK (sequence IS NOT NULL)')
      ) AS once WHERE t.name = 'audit'
      UNION ALL
      SELECT 'reader', 'FOR SELECT TO pombo_reader USING (tenant = current_setting(''pombo.tenant'', true))'
      WHERE t.name = ANY (by_reader)
      UNION ALL
      SELECT 'app', 'FOR SELECT TO pombo_app USING (tenant = (SELECT pombo.tenant()))'
      WHERE t.name = ANY (by_app)
      UNION ALL
      SELECT 'app_adds', 'FOR INSERT TO pombo_app WITH CHECK (tenant = (SELECT pombo.tenant()))'
      WHERE t.name IN ('inbox', 'command')
      UNION ALL
      SELECT 'own', 'FOR SELECT USING (role IN (current_user, session_user))' WHERE t.name = 'app'
    LOOP
      IF NOT EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid = t.oid AND polname = p.name) THEN
        EXECUTE format('CREATE POLICY %I ON %I %s', p.name, t.name, p.rule);
      END IF;
    END LOOP;
    IF t.name = ANY (by_reader) THEN
      EXECUTE format('GRANT SELECT ON %I TO pombo_reader', t.name);
    ELSIF t.name = ANY (by_app) THEN
      EXECUTE format('GRANT SELECT ON %I TO pombo_app', t.name);
    END IF;
  END LOOP;
END
$rights$;

-- Everything else in these rows is filled in by their defaults, so that nobody can write another's name into them.
GRANT INSERT (request) ON inbox TO pombo_app;
GRANT INSERT (verb, key, nonce, detail) ON command TO pombo_app;
GRANT SELECT ON app TO PUBLIC;
