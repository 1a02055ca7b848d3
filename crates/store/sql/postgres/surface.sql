-- What applications use by SQL: two views and a few functions, for role pombo_app. Any number of times, after the
-- rights, by the owner of the schema.
--
-- The views belong to pombo_engine, which sees all tenants, and show each caller its own; they are barriers, so that
-- no condition of a query runs on rows that its author may not see. The functions do what they do as the caller.

-- JSON that some jsonb cannot hold, since it says NUL or half a character, with U+FFFD in its place.
CREATE OR REPLACE FUNCTION cleaned(json text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
  RETURN regexp_replace(regexp_replace(regexp_replace(json,
    '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g'),
    '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g'),
    '(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)((?:\\\\)*)\\u[dD][c-fC-F][0-9a-fA-F]{2}', '\1\\ufffd', 'g');

-- Whether a value is sealed: nobody can read it here.
CREATE OR REPLACE FUNCTION is_sealed(value bytea) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN substring(value FROM 1 FOR 1) IN ('\x01', '\x02');

-- A text, if it can be read here.
CREATE OR REPLACE FUNCTION shown(words text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN CASE WHEN left(words, 2) = U&'\0002s' THEN '[encrypted]' ELSE words END;

-- A message's document; none if it is no jsonb, whatever is wrong with it.
CREATE OR REPLACE FUNCTION document(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF pombo.is_sealed(body) THEN
    RETURN '{"payload": "[encrypted]"}';
  END IF;
  RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  BEGIN
    RETURN pombo.cleaned(convert_from(body, 'UTF8'))::jsonb;
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
  END;
END
$$;

-- One text of it, whatever the others hold.
CREATE OR REPLACE FUNCTION document_text(body bytea, field text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF pombo.is_sealed(body) THEN
    RETURN '[encrypted]';
  END IF;
  RETURN convert_from(body, 'UTF8')::json ->> field;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  BEGIN
    RETURN pombo.cleaned(convert_from(body, 'UTF8'))::json ->> field;
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
  END;
END
$$;

CREATE OR REPLACE FUNCTION failure_text(failure text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  said CONSTANT jsonb := pombo.document(convert_to(failure, 'UTF8'));
BEGIN
  IF pombo.is_sealed(convert_to(failure, 'UTF8')) THEN
    RETURN '[encrypted]';
  END IF;
  RETURN nullif(concat_ws(' ', nullif(said ->> 'code', ''), nullif(said ->> 'text', '')), '');
END
$$;

CREATE OR REPLACE FUNCTION uuid_in(word text) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT
  RETURN CASE WHEN word ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN word::uuid END;

-- How often a message may be tried again: by its own wish, else by its channel's policy.
CREATE OR REPLACE FUNCTION retries_max(retry jsonb, attempts int) RETURNS int LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN retry ->> 'attempts' ~ '^[0-9]{1,5}$' THEN (retry ->> 'attempts')::int ELSE attempts END - 1;

CREATE OR REPLACE FUNCTION instant(millis bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN to_timestamp(millis::float8 / 1000);

CREATE OR REPLACE FUNCTION millis(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN floor(extract(epoch FROM at) * 1000);

-- What stands for two texts in an index, as nodes compute it.
CREATE OR REPLACE FUNCTION digest(first text, second text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN sha256(int8send(octet_length(convert_to(first, 'UTF8'))) || convert_to(first, 'UTF8')
    || int8send(octet_length(convert_to(second, 'UTF8'))) || convert_to(second, 'UTF8'));

-- By which a repeat of a request is told from another with its idempotency key.
CREATE OR REPLACE FUNCTION fingerprint(request jsonb) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN substring(sha256(convert_to((request - 'idempotency_key')::text, 'UTF8')) FOR 16);

-- The key in an id; none if Pombo cannot have made it.
CREATE OR REPLACE FUNCTION message_key(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT key FROM (
    SELECT ((((high >> 16) & 281474976710655) - 1577836800000) << 21) | ((high & 4095) << 9) | ((low >> 53) & 511) AS key,
           low & 9007199254740991 AS nonce
    FROM (SELECT ('x' || left(hex, 16))::bit(64)::bigint AS high, ('x' || right(hex, 16))::bit(64)::bigint AS low
          FROM (SELECT encode(uuid_send(id), 'hex') AS hex) written) halves
  ) parts
  WHERE key >= 0 AND pombo.message_uuid(key, nonce) = id;
END;

CREATE OR REPLACE FUNCTION message_nonce(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN ('x' || right(encode(uuid_send(id), 'hex'), 16))::bit(64)::bigint & 9007199254740991;

-- A number from its bytes, the least first.
CREATE OR REPLACE FUNCTION number_from(bytes bytea) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN (SELECT bit_or(get_byte(bytes, nth)::bigint << (8 * nth)) FROM generate_series(0, length(bytes) - 1) AS nth);

-- The messages that a row of the claim journal lists. Its names are bound here, not by whoever asks: it sees all rows.
CREATE OR REPLACE FUNCTION members(members bytea) RETURNS TABLE (key bigint, due bigint, steps int)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 16
BEGIN ATOMIC
  SELECT pombo.number_from(substring(members FROM first FOR 8)), pombo.number_from(substring(members FROM first + 8 FOR 8)),
         pombo.number_from(substring(members FROM first + 16 FOR 4))::int
  FROM generate_series(1, length(members), 20) AS first;
END;

GRANT CREATE ON SCHEMA pombo TO pombo_engine;

-- The views are the engine's, who sees all rows. They are whoever's restored a dump that names no owners.
DO $$
DECLARE
  foreign_view regclass;
BEGIN
  FOR foreign_view IN SELECT oid FROM pg_catalog.pg_class
    WHERE relnamespace = 'pombo'::regnamespace AND relname IN ('email_queue', 'email_logs', 'email_due')
    AND relkind = 'v' AND relowner <> 'pombo_engine'::regrole
  LOOP
    EXECUTE format('ALTER VIEW %s OWNER TO pombo_engine', foreign_view);
  END LOOP;
END
$$;

SET LOCAL ROLE pombo_engine;

-- The e-mails. Each state is read from where it stands, so that those that wait are found without those that have
-- ended, and no row is ever locked: what waits or is being sent, in ready, claim and ordered; what waits for an
-- operator, in dead_letter; what has ended, in history; what no node has looked at yet, in inbox; what none could take,
-- in refused. Bounds on id and created_at reach index message_by_age; status = 'failed' reaches dead_letter and index
-- discarded. retries and max_retries are of the present round.
CREATE OR REPLACE VIEW email_queue WITH (security_barrier) AS
SELECT message_uuid(e.key, e.nonce) AS id,
       uuid_in(document_text(e.body, 'user_id')) AS user_id,
       e.type AS template_type,
       document_text(e.body, 'to') AS recipient_email,
       document(e.body) -> 'payload' AS payload,
       e.status,
       e.retries,
       retries_max(document(e.body) -> 'retry', e.attempts) AS max_retries,
       (SELECT instant(h.finished_at) FROM history h
        WHERE h.key = e.key AND h.number > 0 ORDER BY h.seq DESC LIMIT 1) AS last_attempt_at,
       instant(e.due) AS next_retry_at,
       coalesce((SELECT failure_text(h.failure) FROM history h
        WHERE h.key = e.key AND h.failure IS NOT NULL ORDER BY h.seq DESC LIMIT 1), e.why) AS error_message,
       document_text(convert_to(e.receipt, 'UTF8'), 'provider_id') AS resend_id,
       message_time(e.key) AS created_at,
       coalesce(instant(e.moved), message_time(e.key)) AS updated_at
FROM (
  SELECT m.key, m.nonce, coalesce(m.template, m.type) AS type, m.body, c.attempts, 'pending' AS status,
         coalesce((SELECT h.attempts FROM history h WHERE h.key = m.key ORDER BY h.seq DESC LIMIT 1), 0)::int AS retries,
         coalesce((SELECT h.next_due FROM history h WHERE h.key = m.key ORDER BY h.seq DESC LIMIT 1), m.due) AS due,
         NULL::text AS why, NULL::text AS receipt,
         coalesce(live.since, (SELECT h.finished_at FROM history h
          WHERE h.key = m.key ORDER BY h.seq DESC LIMIT 1)) AS moved
  FROM (
    SELECT key, NULL::bigint AS since FROM ready
    UNION ALL
    SELECT member.key, claim.at FROM claim, members(claim.members) member
    WHERE NOT EXISTS (SELECT FROM history h WHERE h.key = member.key AND h.seq = member.steps)
    UNION ALL
    SELECT key, NULL FROM ordered WHERE NOT active
  ) live
  JOIN message m ON m.key = live.key
  JOIN queue q ON q.id = m.queue
  JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
  WHERE m.tenant = (SELECT tenant())
UNION ALL
  SELECT m.key, m.nonce, coalesce(m.template, m.type), m.body, c.attempts, 'sent',
         greatest(h.attempts - 1, 0)::int, NULL, NULL, h.receipt, h.finished_at
  FROM history h
  JOIN message m ON m.key = h.key
  JOIN queue q ON q.id = m.queue
  JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
  WHERE h.outcome = 1 AND m.tenant = (SELECT tenant())
UNION ALL
  SELECT m.key, m.nonce, coalesce(m.template, m.type), m.body, c.attempts, 'failed',
         CASE h.outcome WHEN 3 THEN greatest(h.attempts - 1, 0) ELSE h.attempts END::int, NULL, shown(h.explanation), NULL,
         h.finished_at
  FROM dead_letter d
  JOIN message m ON m.key = d.key
  JOIN queue q ON q.id = m.queue
  JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
  CROSS JOIN LATERAL (SELECT * FROM history WHERE history.key = d.key ORDER BY seq DESC LIMIT 1) h
  WHERE m.tenant = (SELECT tenant())
UNION ALL
  -- Discarded; the row before says how it failed.
  SELECT m.key, m.nonce, coalesce(m.template, m.type), m.body, c.attempts, 'failed',
         CASE h.outcome WHEN 3 THEN greatest(h.attempts - 1, 0) ELSE h.attempts END::int, NULL, shown(h.explanation), NULL,
         d.finished_at
  FROM history d
  JOIN history h ON h.key = d.key AND h.seq = d.seq - 1
  JOIN message m ON m.key = d.key
  JOIN queue q ON q.id = m.queue
  JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
  WHERE d.outcome = 12 AND m.tenant = (SELECT tenant())
UNION ALL
  SELECT m.key, m.nonce, coalesce(m.template, m.type), m.body, c.attempts, 'cancelled',
         h.attempts::int, NULL, NULL, NULL, h.finished_at
  FROM history h
  JOIN message m ON m.key = h.key
  JOIN queue q ON q.id = m.queue
  JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
  WHERE h.outcome = 10 AND m.tenant = (SELECT tenant())
UNION ALL
  SELECT i.key, i.nonce, coalesce(i.request ->> 'template', i.request ->> 'type'), convert_to(i.request::text, 'UTF8'),
         c.attempts, 'pending', 0, coalesce(millis((i.request ->> 'send_at')::timestamptz), (i.key >> 21) + 1577836800000), NULL, NULL, NULL
  FROM inbox i
  JOIN channel c ON c.name = i.request ->> 'channel' AND c.kind IN ('smtp', 'resend')
  WHERE i.tenant = (SELECT tenant())
UNION ALL
  SELECT r.key, r.nonce, coalesce(r.request ->> 'template', r.request ->> 'type'), convert_to(r.request::text, 'UTF8'),
         c.attempts, 'failed', 0, NULL, r.why, NULL, r.at
  FROM refused r
  JOIN channel c ON c.name = r.request ->> 'channel' AND c.kind IN ('smtp', 'resend')
  WHERE r.tenant = (SELECT tenant())
) e;

-- One row an attempt. A bound on queue_id reaches index message_by_age; one on created_at reads all attempts.
CREATE OR REPLACE VIEW email_logs WITH (security_barrier) AS
SELECT md5(message_uuid(m.key, m.nonce)::text || '/' || h.seq)::uuid AS id,
       message_uuid(m.key, m.nonce) AS queue_id,
       uuid_in(document_text(m.body, 'user_id')) AS user_id,
       coalesce(m.template, m.type) AS template_type,
       document_text(m.body, 'to') AS recipient_email,
       CASE h.outcome WHEN 1 THEN 'sent' ELSE 'failed' END AS status,
       failure_text(h.failure) AS error_message,
       document_text(convert_to(h.receipt, 'UTF8'), 'provider_id') AS resend_id,
       h.number::int AS attempt,
       instant(h.finished_at) AS created_at
FROM history h
JOIN message m ON m.key = h.key
JOIN queue q ON q.id = m.queue
JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
WHERE h.number > 0 AND m.tenant = (SELECT tenant());

-- The e-mails that wait and are due, of each queue those that have waited longest.
CREATE OR REPLACE VIEW email_due WITH (security_barrier) AS
SELECT head.due, message_uuid(m.key, m.nonce) AS id
FROM queue q
JOIN channel c ON c.name = q.channel AND c.kind IN ('smtp', 'resend')
CROSS JOIN generate_series(0, 19) AS ranks (number)
CROSS JOIN LATERAL (
  SELECT ready.due, ready.key FROM ready
  WHERE ready.queue = q.id AND ready.rank = ranks.number AND ready.due <= millis(now())
  ORDER BY ready.due, ready.key LIMIT 1000
) head
JOIN message m ON m.key = head.key
WHERE q.tenant = (SELECT tenant())
UNION ALL
SELECT due, id FROM (
  SELECT coalesce(millis((i.request ->> 'send_at')::timestamptz), (i.key >> 21) + 1577836800000) AS due, message_uuid(i.key, i.nonce) AS id
  FROM inbox i JOIN channel c ON c.name = i.request ->> 'channel' AND c.kind IN ('smtp', 'resend')
  WHERE i.tenant = (SELECT tenant()) ORDER BY i.key LIMIT 1000
) fresh WHERE due <= millis(now());

GRANT SELECT ON email_queue, email_logs, email_due TO pombo_app;
SET LOCAL ROLE NONE;
REVOKE CREATE ON SCHEMA pombo FROM pombo_engine;

-- Says what is wrong, why, and what to do, as the API does.
CREATE OR REPLACE FUNCTION refuse(what text, why text, hint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE invalid_parameter_value USING MESSAGE = format('%s %s', what, why), HINT = hint;
END
$$;

-- A short text that is stored beside the message and searched for.
CREATE OR REPLACE FUNCTION check_words(what text, words text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF words = '' OR length(words) > 256 THEN
    PERFORM pombo.refuse(what, 'is not 1 to 256 characters long', 'shorten it, or leave it out');
  ELSIF words ~ '[\x01-\x1f\x7f-\x9f]' THEN
    PERFORM pombo.refuse(what, 'has a line break or control character', 'write it on one line');
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION check_object(what text, value jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF jsonb_typeof(value) NOT IN ('object', 'null') THEN
    PERFORM pombo.refuse(what, format('is of type %s, not an object', jsonb_typeof(value)), 'write {"name": "value"}');
  END IF;
END
$$;

-- Takes in a message, as POST /v1/messages does, within the caller's transaction: rolled back with it, and sent soon
-- after it commits. Answers the message's id. What only a node can tell (a template that does not exist, content that
-- the channel cannot express) ends as failed, with the reason.
CREATE OR REPLACE FUNCTION enqueue(
  channel text,
  recipient text,
  type text DEFAULT NULL,
  template text DEFAULT NULL,
  payload jsonb DEFAULT NULL,
  content jsonb DEFAULT NULL,
  lane text DEFAULT NULL,
  priority int DEFAULT NULL,
  send_at timestamptz DEFAULT NULL,
  expires_after interval DEFAULT NULL,
  reference text DEFAULT NULL,
  user_id text DEFAULT NULL,
  ordering_key text DEFAULT NULL,
  metadata jsonb DEFAULT NULL,
  retry jsonb DEFAULT NULL,
  idempotency_key text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
  own CONSTANT text := pombo.tenant();
  -- The first key of a moment ago.
  recent CONSTANT bigint := (pombo.millis(clock_timestamp()) - 50 - 1577836800000) << 21;
  names text;
  asked jsonb;
  given record;
BEGIN
  IF NOT EXISTS (SELECT FROM pombo.channel c WHERE c.name = channel AND c.configured) THEN
    SELECT string_agg(c.name, ', ' ORDER BY c.name) INTO names FROM pombo.channel c WHERE c.configured;
    PERFORM pombo.refuse('channel', format('%L is not configured for tenant %L', channel, own), coalesce(
      'there are ' || names, 'none is: add one to the configuration and start a node, which makes it known here'));
  END IF;
  IF coalesce(recipient, '') = '' OR octet_length(recipient) > 4096 THEN
    PERFORM pombo.refuse('recipient', 'is not 1 to 4096 bytes long', 'give one recipient, as the channel writes it');
  ELSIF (template IS NULL) = (content IS NULL) THEN
    PERFORM pombo.refuse('content', CASE WHEN content IS NULL THEN 'is missing' ELSE 'is given beside a template' END,
      'give one of content and template');
  ELSIF payload IS NOT NULL AND template IS NULL THEN
    PERFORM pombo.refuse('payload', 'is given without a template', 'put data of your own in metadata');
  ELSIF priority NOT BETWEEN 0 AND 9 THEN
    PERFORM pombo.refuse('priority', 'is not from 0 to 9', '9 goes first; 5 if left out');
  ELSIF NOT isfinite(send_at) OR send_at < now() - interval '1 minute' THEN
    PERFORM pombo.refuse('send_at', 'is in the past', 'give a time to come, or leave it out to send at once');
  ELSIF expires_after < interval '1 millisecond' OR expires_after > interval '3650 days' THEN
    PERFORM pombo.refuse('expires_after', 'is not from one millisecond to ten years', 'write for example 48 hours');
  ELSIF idempotency_key !~ '^[!-~]([ -~]{0,253}[!-~])?$' OR length(idempotency_key) > 256 THEN
    PERFORM pombo.refuse('idempotency_key', 'is not 1 to 256 visible ASCII characters',
      'use a UUID, or your own id for what this message is about');
  END IF;
  PERFORM pombo.check_words('type', type), pombo.check_words('template', template),
    pombo.check_words('reference', reference), pombo.check_words('user_id', user_id),
    pombo.check_words('ordering_key', ordering_key), pombo.check_object('payload', payload),
    pombo.check_object('content', content), pombo.check_object('metadata', metadata),
    pombo.check_object('retry', retry);

  SELECT jsonb_object_agg(field, value) INTO asked FROM (VALUES
    ('channel', to_jsonb(channel)), ('to', to_jsonb(recipient)), ('type', to_jsonb(type)),
    ('template', to_jsonb(template)), ('payload', payload), ('content', content), ('lane', to_jsonb(lane)),
    ('priority', to_jsonb(priority)),
    ('send_at', to_jsonb(to_char(send_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))),
    ('expires_after', to_jsonb(floor(extract(epoch FROM expires_after) * 1000) || 'ms')),
    ('reference', to_jsonb(reference)), ('user_id', to_jsonb(user_id)), ('ordering_key', to_jsonb(ordering_key)),
    ('metadata', metadata), ('retry', retry), ('idempotency_key', to_jsonb(idempotency_key))
  ) AS fields (field, value) WHERE value IS NOT NULL;

  -- A NOTIFY makes commits wait for each other. Where something came a moment ago and is still here, a node has been
  -- told of it and looks again.
  IF NOT EXISTS (SELECT FROM pombo.inbox i WHERE i.key >= recent) THEN
    PERFORM pg_notify('pombo', '');
  END IF;

  IF idempotency_key IS NULL THEN
    INSERT INTO pombo.inbox AS i (request) VALUES (asked) RETURNING i.key, i.nonce INTO given;
    RETURN pombo.message_uuid(given.key, given.nonce);
  END IF;
  LOOP
    SELECT k.key, k.nonce, k.fingerprint = pombo.fingerprint(asked) AS same INTO given
    FROM pombo.idempotency k WHERE k.digest = pombo.digest(own, idempotency_key);
    EXIT WHEN FOUND;
    BEGIN
      INSERT INTO pombo.inbox AS i (request) VALUES (asked) ON CONFLICT DO NOTHING
        RETURNING i.key, i.nonce, true AS same INTO given;
      IF FOUND THEN
        -- Unless a node has just made a message of the same, and so made room for it here.
        EXIT WHEN NOT EXISTS (SELECT FROM pombo.idempotency k WHERE k.digest = pombo.digest(own, idempotency_key));
        RAISE SQLSTATE 'PB001';
      END IF;
    EXCEPTION WHEN SQLSTATE 'PB001' THEN
      CONTINUE;
    END;
    SELECT i.key, i.nonce, i.request = asked AS same INTO given
    FROM pombo.inbox i WHERE i.tenant = own AND i.request ->> 'idempotency_key' = idempotency_key;
    EXIT WHEN FOUND;
    -- A node has just made a message of it. Who sees only what was there when the transaction began cannot tell.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE serialization_failure USING MESSAGE = 'another transaction has used this idempotency key',
        HINT = 'run the transaction again';
    END IF;
  END LOOP;
  IF NOT given.same THEN
    RAISE unique_violation USING
      MESSAGE = format('idempotency_key was used for another request, which became %s',
        pombo.message_uuid(given.key, given.nonce)),
      HINT = 'use a new key for a new message; a repeat must be the same request, and come by SQL as well';
  END IF;
  RETURN pombo.message_uuid(given.key, given.nonce);
END
$$;

-- Takes in an e-mail for a template, by the names that applications know. The channel is the one that the tenant has
-- for e-mail.
CREATE OR REPLACE FUNCTION enqueue_email(
  p_user_id uuid,
  p_template_type text,
  p_recipient_email text,
  p_payload jsonb DEFAULT '{}',
  p_channel text DEFAULT NULL,
  p_send_at timestamptz DEFAULT NULL,
  p_expires_after interval DEFAULT NULL,
  p_idempotency_key text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  names text[];
BEGIN
  IF p_channel IS NULL THEN
    -- Those that are set up, if any is.
    SELECT array_agg(name ORDER BY name) INTO names FROM (
      SELECT name, ready, bool_or(ready) OVER () AS any_ready FROM pombo.channel
      WHERE configured AND kind IN ('smtp', 'resend')
    ) mail WHERE ready OR NOT any_ready;
    IF cardinality(names) > 1 THEN
      PERFORM pombo.refuse('p_channel', 'is needed: several channels send e-mail',
        format('choose one of %s, as in p_channel => %L', array_to_string(names, ', '), names[1]));
    ELSIF names IS NULL THEN
      PERFORM pombo.refuse('p_channel', format('cannot be chosen: tenant %L has no channel for e-mail', pombo.tenant()),
        'add one to the configuration and start a node, which makes it known here');
    END IF;
  END IF;
  RETURN pombo.enqueue(
    channel => coalesce(p_channel, names[1]), recipient => p_recipient_email, type => p_template_type,
    template => p_template_type, payload => p_payload, user_id => p_user_id::text, send_at => p_send_at,
    expires_after => p_expires_after, idempotency_key => p_idempotency_key);
END
$$;

-- Counts as an attempt that failed with these words: a node puts the message back for its next attempt, or ends it
-- after the last. Nothing is sent and nobody is blamed. One that has failed already stays as it is.
CREATE OR REPLACE FUNCTION mark_email_failed(p_queue_id uuid, p_error_message text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  stands text;
BEGIN
  SELECT status INTO stands FROM pombo.email_queue WHERE id = p_queue_id;
  IF stands IS NULL THEN
    RAISE no_data_found USING MESSAGE = format('there is no e-mail %s', p_queue_id),
      HINT = 'an id is what enqueue_email answered, or the column id of email_queue';
  ELSIF stands IN ('sent', 'cancelled') THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = format('the e-mail %s is %s', p_queue_id, stands),
      HINT = 'only one that is pending can be marked';
  ELSIF stands = 'pending' THEN
    INSERT INTO pombo.command (verb, key, nonce, detail) VALUES
      ('mark_failed', pombo.message_key(p_queue_id), pombo.message_nonce(p_queue_id),
       left(coalesce(p_error_message, ''), 2048));
    PERFORM pg_notify('pombo', '');
  END IF;
END
$$;

-- The e-mails that are due, those that have waited longest first. The nodes are woken, and send them: whoever calls
-- this has nothing to send.
CREATE OR REPLACE FUNCTION process_pending_emails_for_retry(batch int DEFAULT 10) RETURNS SETOF email_queue
LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
BEGIN
  IF batch IS NULL OR batch NOT BETWEEN 1 AND 1000 THEN
    PERFORM pombo.refuse('batch', 'is not from 1 to 1000', '10 if left out');
  END IF;
  PERFORM pg_notify('pombo', '');
  RETURN QUERY SELECT e.* FROM pombo.email_queue e
    WHERE e.status = 'pending' AND e.id = ANY (ARRAY(SELECT id FROM pombo.email_due ORDER BY due LIMIT batch))
    ORDER BY e.next_retry_at, e.id;
END
$$;
