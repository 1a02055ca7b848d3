SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET row_security = off;
CREATE SCHEMA pombo;
CREATE FUNCTION pombo.check_object(what text, value jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF jsonb_typeof(value) NOT IN ('object', 'null') THEN
    PERFORM pombo.refuse(what, format('is of type %s, not an object', jsonb_typeof(value)), 'write {"name": "value"}');
  END IF;
END
$$;
CREATE FUNCTION pombo.check_words(what text, words text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF words = '' OR length(words) > 256 THEN
    PERFORM pombo.refuse(what, 'is not 1 to 256 characters long', 'shorten it, or leave it out');
  ELSIF words ~ '[\x01-\x1f\x7f-\x9f]' THEN
    PERFORM pombo.refuse(what, 'has a line break or control character', 'write it on one line');
  END IF;
END
$$;
CREATE FUNCTION pombo.cleaned(json text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT
    RETURN regexp_replace(regexp_replace(regexp_replace(json, '(?<!\\)((?:\\\\)*)\\u0000'::text, '\1\\ufffd'::text, 'g'::text), '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})'::text, '\1\\ufffd'::text, 'g'::text), '(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)((?:\\\\)*)\\u[dD][c-fC-F][0-9a-fA-F]{2}'::text, '\1\\ufffd'::text, 'g'::text);
CREATE FUNCTION pombo.digest(first text, second text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN sha256((((int8send((octet_length(convert_to(first, 'UTF8'::name)))::bigint) || convert_to(first, 'UTF8'::name)) || int8send((octet_length(convert_to(second, 'UTF8'::name)))::bigint)) || convert_to(second, 'UTF8'::name)));
CREATE FUNCTION pombo.document(body bytea) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT
    AS $$
BEGIN
  RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  BEGIN
    RETURN pombo.cleaned(convert_from(body, 'UTF8'))::jsonb;
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
  END;
END
$$;
CREATE FUNCTION pombo.document_text(body bytea, field text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT
    AS $$
BEGIN
  RETURN convert_from(body, 'UTF8')::json ->> field;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  BEGIN
    RETURN pombo.cleaned(convert_from(body, 'UTF8'))::json ->> field;
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
  END;
END
$$;
CREATE FUNCTION pombo.enqueue(channel text, recipient text, type text DEFAULT NULL::text, template text DEFAULT NULL::text, payload jsonb DEFAULT NULL::jsonb, content jsonb DEFAULT NULL::jsonb, lane text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, send_at timestamp with time zone DEFAULT NULL::timestamp with time zone, expires_after interval DEFAULT NULL::interval, reference text DEFAULT NULL::text, user_id text DEFAULT NULL::text, ordering_key text DEFAULT NULL::text, metadata jsonb DEFAULT NULL::jsonb, retry jsonb DEFAULT NULL::jsonb, idempotency_key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $_$
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
$_$;
CREATE FUNCTION pombo.enqueue_email(p_user_id uuid, p_template_type text, p_recipient_email text, p_payload jsonb DEFAULT '{}'::jsonb, p_channel text DEFAULT NULL::text, p_send_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_expires_after interval DEFAULT NULL::interval, p_idempotency_key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
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
CREATE SEQUENCE pombo.enqueue_count
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    MAXVALUE 16383
    CACHE 1
    CYCLE;
CREATE FUNCTION pombo.enqueue_key() RETURNS bigint
    LANGUAGE sql
    RETURN (((((floor((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric)))::bigint - '1577836800000'::bigint) << 21) | ((127 << 14))::bigint) | nextval('pombo.enqueue_count'::regclass));
CREATE FUNCTION pombo.enqueue_nonce() RETURNS bigint
    LANGUAGE sql
    RETURN ((((('x'::text || "right"((gen_random_uuid())::text, 12)))::bit(48))::bigint << 5) | ((get_byte(uuid_send(gen_random_uuid()), 0) & 31))::bigint);
CREATE FUNCTION pombo.failure_text(failure text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT
    AS $$
DECLARE
  said CONSTANT jsonb := pombo.document(convert_to(failure, 'UTF8'));
BEGIN
  RETURN nullif(concat_ws(' ', nullif(said ->> 'code', ''), nullif(said ->> 'text', '')), '');
END
$$;
CREATE FUNCTION pombo.fingerprint(request jsonb) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN SUBSTRING(sha256(convert_to(((request - 'idempotency_key'::text))::text, 'UTF8'::name)) FROM 1 FOR 16);
CREATE FUNCTION pombo.instant(millis bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_timestamp(((millis)::double precision / (1000)::double precision));
CREATE FUNCTION pombo.mark_email_failed(p_queue_id uuid, p_error_message text) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION pombo.number_from(bytes bytea) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT bit_or(((get_byte(number_from.bytes, nth.nth))::bigint << (8 * nth.nth))) AS bit_or FROM generate_series(0, (length(number_from.bytes) - 1)) nth(nth));
CREATE FUNCTION pombo.members(members bytea) RETURNS TABLE(key bigint, due bigint, steps integer)
    LANGUAGE sql IMMUTABLE STRICT ROWS 16 PARALLEL SAFE
    BEGIN ATOMIC
 SELECT pombo.number_from(SUBSTRING(members.members FROM first.first FOR 8)) AS number_from,
     pombo.number_from(SUBSTRING(members.members FROM (first.first + 8) FOR 8)) AS number_from,
     (pombo.number_from(SUBSTRING(members.members FROM (first.first + 16) FOR 4)))::integer AS number_from
    FROM generate_series(1, length(members.members), 20) first(first);
END;
CREATE FUNCTION pombo.message_uuid(key bigint, nonce bigint) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (encode((int8send((((((key >> 21) + '1577836800000'::bigint) << 16) | (28672)::bigint) | ((key >> 9) & (4095)::bigint))) || int8send(((('-9223372036854775807'::bigint - 1) | ((key & (511)::bigint) << 53)) | (nonce & '9007199254740991'::bigint)))), 'hex'::text))::uuid;
CREATE FUNCTION pombo.message_key(id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC
 SELECT parts.key
    FROM ( SELECT ((((((halves.high >> 16) & '281474976710655'::bigint) - '1577836800000'::bigint) << 21) | ((halves.high & (4095)::bigint) << 9)) | ((halves.low >> 53) & (511)::bigint)) AS key,
             (halves.low & '9007199254740991'::bigint) AS nonce
            FROM ( SELECT ((('x'::text || "left"(written.hex, 16)))::bit(64))::bigint AS high,
                     ((('x'::text || "right"(written.hex, 16)))::bit(64))::bigint AS low
                    FROM ( SELECT encode(uuid_send(message_key.id), 'hex'::text) AS hex) written) halves) parts
   WHERE ((parts.key >= 0) AND (pombo.message_uuid(parts.key, parts.nonce) = message_key.id));
END;
CREATE FUNCTION pombo.message_nonce(id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (((('x'::text || "right"(encode(uuid_send(id), 'hex'::text), 16)))::bit(64))::bigint & '9007199254740991'::bigint);
CREATE FUNCTION pombo.message_time(key bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_timestamp(((((key >> 21) + '1577836800000'::bigint))::double precision / (1000)::double precision));
CREATE FUNCTION pombo.millis(at timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN floor((EXTRACT(epoch FROM at) * (1000)::numeric));
CREATE FUNCTION pombo.retries_max(retry jsonb, attempts integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN (CASE WHEN ((retry ->> 'attempts'::text) ~ '^[0-9]{1,5}$'::text) THEN ((retry ->> 'attempts'::text))::integer ELSE attempts END - 1);
CREATE TABLE pombo.app (
    role name NOT NULL,
    tenant text NOT NULL,
    CONSTRAINT app_tenant_check CHECK ((tenant ~ '^[a-z0-9][a-z0-9_-]{0,63}$'::text))
);
ALTER TABLE ONLY pombo.app FORCE ROW LEVEL SECURITY;
CREATE FUNCTION pombo.tenant() RETURNS text
    LANGUAGE sql STABLE
    RETURN COALESCE((SELECT app.tenant FROM pombo.app WHERE (app.role = CURRENT_USER)), (SELECT app.tenant FROM pombo.app WHERE (app.role = SESSION_USER)), 'default'::text);
CREATE FUNCTION pombo.uuid_in(word text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT
    RETURN CASE WHEN (word ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'::text) THEN (word)::uuid ELSE NULL::uuid END;
CREATE TABLE pombo.channel (
    name text NOT NULL,
    kind text NOT NULL,
    tenant text NOT NULL,
    attempts integer NOT NULL,
    configured boolean NOT NULL,
    ready boolean NOT NULL
);
ALTER TABLE ONLY pombo.channel FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.claim (
    id bigint NOT NULL,
    node bigint NOT NULL,
    at bigint NOT NULL,
    members bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY pombo.claim ALTER COLUMN members SET STORAGE EXTERNAL;
CREATE TABLE pombo.history (
    key bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    next_due bigint,
    delay bigint,
    batch bigint NOT NULL,
    seq integer NOT NULL,
    outcome smallint NOT NULL,
    round smallint NOT NULL,
    number smallint NOT NULL,
    attempts smallint NOT NULL,
    crashes smallint NOT NULL,
    reason smallint,
    doubtful boolean NOT NULL,
    tenant text NOT NULL,
    failure text,
    receipt text,
    explanation text,
    policy text,
    actor text,
    CONSTRAINT history_check CHECK (((outcome = ANY (ARRAY[3, 11])) = (reason IS NOT NULL))),
    CONSTRAINT history_check1 CHECK (((outcome = ANY (ARRAY[2, 4, 13])) = (next_due IS NOT NULL))),
    CONSTRAINT history_check2 CHECK (((outcome = ANY (ARRAY[10, 12])) = (actor IS NOT NULL)))
)
PARTITION BY RANGE (key);
ALTER TABLE ONLY pombo.history FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.inbox (
    key bigint DEFAULT pombo.enqueue_key() NOT NULL,
    nonce bigint DEFAULT pombo.enqueue_nonce() NOT NULL,
    tenant text DEFAULT pombo.tenant() NOT NULL,
    request jsonb NOT NULL,
    CONSTRAINT inbox_request_check CHECK (((jsonb_typeof(request) = 'object'::text) AND (octet_length((request)::text) <= 40000000)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY pombo.inbox FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.message (
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    queue bigint NOT NULL,
    priority smallint NOT NULL,
    due bigint NOT NULL,
    send_at bigint,
    expires_at bigint,
    recipient bigint NOT NULL,
    referred bigint,
    batch bigint NOT NULL,
    tenant text NOT NULL,
    ordering_key text,
    type text,
    template text,
    reference text,
    body bytea NOT NULL,
    CONSTRAINT message_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
)
PARTITION BY RANGE (key);
ALTER TABLE ONLY pombo.message FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.ordered (
    digest bytea NOT NULL,
    key bigint NOT NULL,
    active boolean NOT NULL,
    turn bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE pombo.queue (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    tenant text NOT NULL,
    lane text NOT NULL,
    channel text NOT NULL,
    destination text NOT NULL,
    campaign text NOT NULL,
    weight integer DEFAULT 1 NOT NULL
);
ALTER TABLE ONLY pombo.queue FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.ready (
    queue bigint NOT NULL,
    due bigint NOT NULL,
    key bigint NOT NULL,
    steps integer NOT NULL,
    rank smallint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='50000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE pombo.refused (
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    at bigint NOT NULL,
    tenant text NOT NULL,
    request jsonb NOT NULL,
    why text NOT NULL
);
ALTER TABLE ONLY pombo.refused FORCE ROW LEVEL SECURITY;
CREATE VIEW pombo.email_queue WITH (security_barrier='true') AS
 SELECT pombo.message_uuid(e.key, e.nonce) AS id,
    pombo.uuid_in(pombo.document_text(e.body, 'user_id'::text)) AS user_id,
    e.type AS template_type,
    pombo.document_text(e.body, 'to'::text) AS recipient_email,
    (pombo.document(e.body) -> 'payload'::text) AS payload,
    e.status,
    e.retries,
    pombo.retries_max((pombo.document(e.body) -> 'retry'::text), e.attempts) AS max_retries,
    ( SELECT pombo.instant(h.finished_at) AS instant
           FROM pombo.history h
          WHERE ((h.key = e.key) AND (h.number > 0))
          ORDER BY h.seq DESC
         LIMIT 1) AS last_attempt_at,
    pombo.instant(e.due) AS next_retry_at,
    COALESCE(( SELECT pombo.failure_text(h.failure) AS failure_text
           FROM pombo.history h
          WHERE ((h.key = e.key) AND (h.failure IS NOT NULL))
          ORDER BY h.seq DESC
         LIMIT 1), e.why) AS error_message,
    pombo.document_text(convert_to(e.receipt, 'UTF8'::name), 'provider_id'::text) AS resend_id,
    pombo.message_time(e.key) AS created_at,
    COALESCE(pombo.instant(e.moved), pombo.message_time(e.key)) AS updated_at
   FROM ( SELECT m.key,
            m.nonce,
            COALESCE(m.template, m.type) AS type,
            m.body,
            c.attempts,
            'pending'::text AS status,
            COALESCE((( SELECT h.attempts
                   FROM pombo.history h
                  WHERE (h.key = m.key)
                  ORDER BY h.seq DESC
                 LIMIT 1))::integer, 0) AS retries,
            COALESCE(( SELECT h.next_due
                   FROM pombo.history h
                  WHERE (h.key = m.key)
                  ORDER BY h.seq DESC
                 LIMIT 1), m.due) AS due,
            NULL::text AS why,
            NULL::text AS receipt,
            COALESCE(live.since, ( SELECT h.finished_at
                   FROM pombo.history h
                  WHERE (h.key = m.key)
                  ORDER BY h.seq DESC
                 LIMIT 1)) AS moved
           FROM (((( SELECT ready.key,
                    NULL::bigint AS since
                   FROM pombo.ready
                UNION ALL
                 SELECT member.key,
                    claim.at
                   FROM pombo.claim,
                    LATERAL pombo.members(claim.members) member(key, due, steps)
                  WHERE (NOT (EXISTS ( SELECT
                           FROM pombo.history h
                          WHERE ((h.key = member.key) AND (h.seq = member.steps)))))
                UNION ALL
                 SELECT ordered.key,
                    NULL::bigint
                   FROM pombo.ordered
                  WHERE (NOT ordered.active)) live
             JOIN pombo.message m ON ((m.key = live.key)))
             JOIN pombo.queue q ON ((q.id = m.queue)))
             JOIN pombo.channel c ON (((c.name = q.channel) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE (m.tenant = ( SELECT pombo.tenant() AS tenant))
        UNION ALL
         SELECT m.key,
            m.nonce,
            COALESCE(m.template, m.type) AS "coalesce",
            m.body,
            c.attempts,
            'sent'::text,
            GREATEST((h.attempts - 1), 0) AS "greatest",
            NULL::bigint,
            NULL::text,
            h.receipt,
            h.finished_at
           FROM (((pombo.history h
             JOIN pombo.message m ON ((m.key = h.key)))
             JOIN pombo.queue q ON ((q.id = m.queue)))
             JOIN pombo.channel c ON (((c.name = q.channel) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE ((h.outcome = 1) AND (m.tenant = ( SELECT pombo.tenant() AS tenant)))
        UNION ALL
         SELECT m.key,
            m.nonce,
            COALESCE(m.template, m.type) AS "coalesce",
            m.body,
            c.attempts,
            'failed'::text,
                CASE h.outcome
                    WHEN 3 THEN GREATEST((h.attempts - 1), 0)
                    ELSE (h.attempts)::integer
                END AS attempts,
            NULL::bigint,
            h.explanation,
            NULL::text,
            h.finished_at
           FROM (((pombo.history h
             JOIN pombo.message m ON ((m.key = h.key)))
             JOIN pombo.queue q ON ((q.id = m.queue)))
             JOIN pombo.channel c ON (((c.name = q.channel) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE ((h.outcome = ANY (ARRAY[3, 11])) AND (m.tenant = ( SELECT pombo.tenant() AS tenant)))
        UNION ALL
         SELECT m.key,
            m.nonce,
            COALESCE(m.template, m.type) AS "coalesce",
            m.body,
            c.attempts,
            'cancelled'::text,
            (h.attempts)::integer AS attempts,
            NULL::bigint,
            NULL::text,
            NULL::text,
            h.finished_at
           FROM (((pombo.history h
             JOIN pombo.message m ON ((m.key = h.key)))
             JOIN pombo.queue q ON ((q.id = m.queue)))
             JOIN pombo.channel c ON (((c.name = q.channel) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE ((h.outcome = 10) AND (m.tenant = ( SELECT pombo.tenant() AS tenant)))
        UNION ALL
         SELECT i.key,
            i.nonce,
            COALESCE((i.request ->> 'template'::text), (i.request ->> 'type'::text)) AS "coalesce",
            convert_to((i.request)::text, 'UTF8'::name) AS convert_to,
            c.attempts,
            'pending'::text,
            0,
            COALESCE(pombo.millis(((i.request ->> 'send_at'::text))::timestamp with time zone), ((i.key >> 21) + '1577836800000'::bigint)) AS "coalesce",
            NULL::text,
            NULL::text,
            NULL::bigint
           FROM (pombo.inbox i
             JOIN pombo.channel c ON (((c.name = (i.request ->> 'channel'::text)) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE (i.tenant = ( SELECT pombo.tenant() AS tenant))
        UNION ALL
         SELECT r.key,
            r.nonce,
            COALESCE((r.request ->> 'template'::text), (r.request ->> 'type'::text)) AS "coalesce",
            convert_to((r.request)::text, 'UTF8'::name) AS convert_to,
            c.attempts,
            'failed'::text,
            0,
            NULL::bigint,
            r.why,
            NULL::text,
            r.at
           FROM (pombo.refused r
             JOIN pombo.channel c ON (((c.name = (r.request ->> 'channel'::text)) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE (r.tenant = ( SELECT pombo.tenant() AS tenant))) e;
CREATE FUNCTION pombo.process_pending_emails_for_retry(batch integer DEFAULT 10) RETURNS SETOF pombo.email_queue
    LANGUAGE plpgsql ROWS 10
    AS $$
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
CREATE FUNCTION pombo.refuse(what text, why text, hint text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE invalid_parameter_value USING MESSAGE = format('%s %s', what, why), HINT = hint;
END
$$;
CREATE TABLE pombo.api_key (
    id text NOT NULL,
    tenant text NOT NULL,
    role text NOT NULL,
    label text NOT NULL,
    digest bytea NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE ONLY pombo.api_key FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.audit (
    batch bigint NOT NULL,
    turn bigint NOT NULL,
    at bigint NOT NULL,
    sequence bigint,
    "position" bigint,
    count integer NOT NULL,
    hash bytea,
    entries bytea NOT NULL
)
WITH (fillfactor='90');
ALTER TABLE ONLY pombo.audit ALTER COLUMN entries SET STORAGE EXTERNAL;
ALTER TABLE ONLY pombo.audit FORCE ROW LEVEL SECURITY;
CREATE SEQUENCE pombo.audit_batch
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE pombo.audit_tip (
    sequence bigint NOT NULL,
    "position" bigint NOT NULL,
    hash bytea NOT NULL
)
WITH (fillfactor='50');
CREATE SEQUENCE pombo.audit_turn
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE pombo.blob (
    digest bytea NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY pombo.blob ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE ONLY pombo.blob FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.blob_use (
    digest bytea NOT NULL,
    key bigint NOT NULL
);
ALTER TABLE ONLY pombo.blob_use FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.block (
    digest bytea NOT NULL,
    channel text NOT NULL,
    destination text,
    body text NOT NULL,
    probe bigint
)
WITH (fillfactor='50');
ALTER TABLE ONLY pombo.block FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.board (
    version bigint NOT NULL
)
WITH (fillfactor='50');
CREATE SEQUENCE pombo.claim_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE pombo.command (
    id bigint NOT NULL,
    at bigint DEFAULT floor((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric)) NOT NULL,
    tenant text DEFAULT pombo.tenant() NOT NULL,
    actor text DEFAULT CURRENT_USER NOT NULL,
    verb text NOT NULL,
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    detail text NOT NULL,
    CONSTRAINT command_verb_check CHECK ((verb = 'mark_failed'::text))
);
ALTER TABLE ONLY pombo.command FORCE ROW LEVEL SECURITY;
ALTER TABLE pombo.command ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pombo.command_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE pombo.delivery (
    key bigint NOT NULL,
    at bigint NOT NULL,
    state smallint NOT NULL,
    tenant text NOT NULL,
    detail text,
    CONSTRAINT delivery_state_check CHECK (((state >= 1) AND (state <= 6)))
)
WITH (fillfactor='80');
ALTER TABLE ONLY pombo.delivery FORCE ROW LEVEL SECURITY;
CREATE VIEW pombo.email_due WITH (security_barrier='true') AS
 SELECT head.due,
    pombo.message_uuid(m.key, m.nonce) AS id
   FROM ((((pombo.queue q
     JOIN pombo.channel c ON (((c.name = q.channel) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
     CROSS JOIN generate_series(0, 19) ranks(number))
     CROSS JOIN LATERAL ( SELECT ready.due,
            ready.key
           FROM pombo.ready
          WHERE ((ready.queue = q.id) AND (ready.rank = ranks.number) AND (ready.due <= pombo.millis(now())))
          ORDER BY ready.due, ready.key
         LIMIT 1000) head)
     JOIN pombo.message m ON ((m.key = head.key)))
  WHERE (q.tenant = ( SELECT pombo.tenant() AS tenant))
UNION ALL
 SELECT fresh.due,
    fresh.id
   FROM ( SELECT COALESCE(pombo.millis(((i.request ->> 'send_at'::text))::timestamp with time zone), ((i.key >> 21) + '1577836800000'::bigint)) AS due,
            pombo.message_uuid(i.key, i.nonce) AS id
           FROM (pombo.inbox i
             JOIN pombo.channel c ON (((c.name = (i.request ->> 'channel'::text)) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
          WHERE (i.tenant = ( SELECT pombo.tenant() AS tenant))
          ORDER BY i.key
         LIMIT 1000) fresh
  WHERE (fresh.due <= pombo.millis(now()));
CREATE VIEW pombo.email_logs WITH (security_barrier='true') AS
 SELECT (md5((((pombo.message_uuid(m.key, m.nonce))::text || '/'::text) || h.seq)))::uuid AS id,
    pombo.message_uuid(m.key, m.nonce) AS queue_id,
    pombo.uuid_in(pombo.document_text(m.body, 'user_id'::text)) AS user_id,
    COALESCE(m.template, m.type) AS template_type,
    pombo.document_text(m.body, 'to'::text) AS recipient_email,
        CASE h.outcome
            WHEN 1 THEN 'sent'::text
            ELSE 'failed'::text
        END AS status,
    pombo.failure_text(h.failure) AS error_message,
    pombo.document_text(convert_to(h.receipt, 'UTF8'::name), 'provider_id'::text) AS resend_id,
    (h.number)::integer AS attempt,
    pombo.instant(h.finished_at) AS created_at
   FROM (((pombo.history h
     JOIN pombo.message m ON ((m.key = h.key)))
     JOIN pombo.queue q ON ((q.id = m.queue)))
     JOIN pombo.channel c ON (((c.name = q.channel) AND (c.kind = ANY (ARRAY['smtp'::text, 'resend'::text])))))
  WHERE ((h.number > 0) AND (m.tenant = ( SELECT pombo.tenant() AS tenant)));
CREATE TABLE pombo.expiry (
    at bigint NOT NULL,
    key bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE pombo.flow (
    digest bytea NOT NULL,
    channel text NOT NULL,
    destination text,
    next bigint NOT NULL,
    at bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE pombo.history_2026_11 (
    key bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    next_due bigint,
    delay bigint,
    batch bigint NOT NULL,
    seq integer NOT NULL,
    outcome smallint NOT NULL,
    round smallint NOT NULL,
    number smallint NOT NULL,
    attempts smallint NOT NULL,
    crashes smallint NOT NULL,
    reason smallint,
    doubtful boolean NOT NULL,
    tenant text NOT NULL,
    failure text,
    receipt text,
    explanation text,
    policy text,
    actor text,
    CONSTRAINT history_check CHECK (((outcome = ANY (ARRAY[3, 11])) = (reason IS NOT NULL))),
    CONSTRAINT history_check1 CHECK (((outcome = ANY (ARRAY[2, 4, 13])) = (next_due IS NOT NULL))),
    CONSTRAINT history_check2 CHECK (((outcome = ANY (ARRAY[10, 12])) = (actor IS NOT NULL)))
);
ALTER TABLE ONLY pombo.history_2026_11 FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.history_2026_12 (
    key bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    next_due bigint,
    delay bigint,
    batch bigint NOT NULL,
    seq integer NOT NULL,
    outcome smallint NOT NULL,
    round smallint NOT NULL,
    number smallint NOT NULL,
    attempts smallint NOT NULL,
    crashes smallint NOT NULL,
    reason smallint,
    doubtful boolean NOT NULL,
    tenant text NOT NULL,
    failure text,
    receipt text,
    explanation text,
    policy text,
    actor text,
    CONSTRAINT history_check CHECK (((outcome = ANY (ARRAY[3, 11])) = (reason IS NOT NULL))),
    CONSTRAINT history_check1 CHECK (((outcome = ANY (ARRAY[2, 4, 13])) = (next_due IS NOT NULL))),
    CONSTRAINT history_check2 CHECK (((outcome = ANY (ARRAY[10, 12])) = (actor IS NOT NULL)))
);
ALTER TABLE ONLY pombo.history_2026_12 FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.history_2027_01 (
    key bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    next_due bigint,
    delay bigint,
    batch bigint NOT NULL,
    seq integer NOT NULL,
    outcome smallint NOT NULL,
    round smallint NOT NULL,
    number smallint NOT NULL,
    attempts smallint NOT NULL,
    crashes smallint NOT NULL,
    reason smallint,
    doubtful boolean NOT NULL,
    tenant text NOT NULL,
    failure text,
    receipt text,
    explanation text,
    policy text,
    actor text,
    CONSTRAINT history_check CHECK (((outcome = ANY (ARRAY[3, 11])) = (reason IS NOT NULL))),
    CONSTRAINT history_check1 CHECK (((outcome = ANY (ARRAY[2, 4, 13])) = (next_due IS NOT NULL))),
    CONSTRAINT history_check2 CHECK (((outcome = ANY (ARRAY[10, 12])) = (actor IS NOT NULL)))
);
ALTER TABLE ONLY pombo.history_2027_01 FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.history_rest (
    key bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    next_due bigint,
    delay bigint,
    batch bigint NOT NULL,
    seq integer NOT NULL,
    outcome smallint NOT NULL,
    round smallint NOT NULL,
    number smallint NOT NULL,
    attempts smallint NOT NULL,
    crashes smallint NOT NULL,
    reason smallint,
    doubtful boolean NOT NULL,
    tenant text NOT NULL,
    failure text,
    receipt text,
    explanation text,
    policy text,
    actor text,
    CONSTRAINT history_check CHECK (((outcome = ANY (ARRAY[3, 11])) = (reason IS NOT NULL))),
    CONSTRAINT history_check1 CHECK (((outcome = ANY (ARRAY[2, 4, 13])) = (next_due IS NOT NULL))),
    CONSTRAINT history_check2 CHECK (((outcome = ANY (ARRAY[10, 12])) = (actor IS NOT NULL)))
);
ALTER TABLE ONLY pombo.history_rest FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.idempotency (
    digest bytea NOT NULL,
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    tenant text NOT NULL,
    idempotency_key text NOT NULL,
    fingerprint bytea NOT NULL
);
ALTER TABLE ONLY pombo.idempotency FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.message_2026_11 (
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    queue bigint NOT NULL,
    priority smallint NOT NULL,
    due bigint NOT NULL,
    send_at bigint,
    expires_at bigint,
    recipient bigint NOT NULL,
    referred bigint,
    batch bigint NOT NULL,
    tenant text NOT NULL,
    ordering_key text,
    type text,
    template text,
    reference text,
    body bytea NOT NULL,
    CONSTRAINT message_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
);
ALTER TABLE ONLY pombo.message_2026_11 FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.message_2026_12 (
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    queue bigint NOT NULL,
    priority smallint NOT NULL,
    due bigint NOT NULL,
    send_at bigint,
    expires_at bigint,
    recipient bigint NOT NULL,
    referred bigint,
    batch bigint NOT NULL,
    tenant text NOT NULL,
    ordering_key text,
    type text,
    template text,
    reference text,
    body bytea NOT NULL,
    CONSTRAINT message_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
);
ALTER TABLE ONLY pombo.message_2026_12 FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.message_2027_01 (
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    queue bigint NOT NULL,
    priority smallint NOT NULL,
    due bigint NOT NULL,
    send_at bigint,
    expires_at bigint,
    recipient bigint NOT NULL,
    referred bigint,
    batch bigint NOT NULL,
    tenant text NOT NULL,
    ordering_key text,
    type text,
    template text,
    reference text,
    body bytea NOT NULL,
    CONSTRAINT message_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
);
ALTER TABLE ONLY pombo.message_2027_01 FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.message_rest (
    key bigint NOT NULL,
    nonce bigint NOT NULL,
    queue bigint NOT NULL,
    priority smallint NOT NULL,
    due bigint NOT NULL,
    send_at bigint,
    expires_at bigint,
    recipient bigint NOT NULL,
    referred bigint,
    batch bigint NOT NULL,
    tenant text NOT NULL,
    ordering_key text,
    type text,
    template text,
    reference text,
    body bytea NOT NULL,
    CONSTRAINT message_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
);
ALTER TABLE ONLY pombo.message_rest FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.meta (
    name text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE pombo.node (
    id bigint NOT NULL,
    lease_until bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE pombo.office (
    name text NOT NULL,
    holder bigint NOT NULL,
    until bigint NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE pombo.ordered ALTER COLUMN turn ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pombo.ordered_turn_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE pombo.queue ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pombo.queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE pombo.receipt (
    slice bigint NOT NULL,
    hash bigint NOT NULL,
    key bigint NOT NULL
);
CREATE TABLE pombo.slot (
    id smallint NOT NULL,
    holder bigint NOT NULL,
    until bigint NOT NULL,
    CONSTRAINT slot_id_check CHECK (((id >= 0) AND (id <= 126)))
);
CREATE TABLE pombo.tally (
    count bigint NOT NULL,
    hour integer NOT NULL,
    slot smallint NOT NULL,
    what smallint NOT NULL,
    tenant text NOT NULL,
    channel text NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE ONLY pombo.tally FORCE ROW LEVEL SECURITY;
CREATE TABLE pombo.template (
    tenant text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    created_at bigint NOT NULL,
    actor text NOT NULL,
    body text NOT NULL,
    CONSTRAINT template_version_check CHECK ((version > 0))
);
ALTER TABLE ONLY pombo.template FORCE ROW LEVEL SECURITY;
ALTER TABLE ONLY pombo.history ATTACH PARTITION pombo.history_2026_11 FOR VALUES FROM ('452260056268800000') TO ('457695874252800000');
ALTER TABLE ONLY pombo.history ATTACH PARTITION pombo.history_2026_12 FOR VALUES FROM ('457695874252800000') TO ('463312886169600000');
ALTER TABLE ONLY pombo.history ATTACH PARTITION pombo.history_2027_01 FOR VALUES FROM ('463312886169600000') TO ('468929898086400000');
ALTER TABLE ONLY pombo.history ATTACH PARTITION pombo.history_rest DEFAULT;
ALTER TABLE ONLY pombo.message ATTACH PARTITION pombo.message_2026_11 FOR VALUES FROM ('452260056268800000') TO ('457695874252800000');
ALTER TABLE ONLY pombo.message ATTACH PARTITION pombo.message_2026_12 FOR VALUES FROM ('457695874252800000') TO ('463312886169600000');
ALTER TABLE ONLY pombo.message ATTACH PARTITION pombo.message_2027_01 FOR VALUES FROM ('463312886169600000') TO ('468929898086400000');
ALTER TABLE ONLY pombo.message ATTACH PARTITION pombo.message_rest DEFAULT;
INSERT INTO pombo.api_key VALUES ('key_1', 'default', 'admin', '0a10''ç1', '\x0404040404040404040404040404040404040404040404040404040404040404', 1800000000000);
INSERT INTO pombo.audit VALUES (1, 1, 1800000000000, 0, 0, 1, '\xd7cbcda96b5d59bed491985bb2869041d766fa17f1265341cd3014a7bf437416', '\x005450d02bc92a3be4b2708bba47bc2d60350000000101000100505c18a301000001a3185c50007000801799bfb392d431070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (2, 2, 1800000000000, 1, 1, 1, '\xd2914f2f51af3198ea1a4b7c2ce4e598d73caf81a3a691bfd1a4c66e39fc2a55', '\x003c167bc9e878ea77d2e87c9053954023350000000102010200505c18a301000001a3185c50007000801799bfb392d431070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (3, 3, 1800000000000, 2, 2, 1, '\xf2c401e8f239eaa8cc85364aa4091afe9ae839dca48571640b56cc88ceffbd93', '\x005cd5a13b2e4cf24d108a2894c89f8293860000000104020100505c18a301000001a3185c50007000801799bfb392d431070064656661756c74030063726d0500706f6d626f53007b22617474656d7074223a312c22726f756e64223a302c2276657264696374223a227472616e7369656e74222c2263617465676f7279223a2262757379222c22647565223a313830303030303030303030307d');
INSERT INTO pombo.audit VALUES (4, 4, 1800000000000, 3, 3, 1, '\x50182da39a050b22a4ec9d40b39e88adc056ad9dbe9913d07a7d75e7f98e1656', '\x006d7443e3f604317b38c15b8d66797cda350000000102010200505c18a301000001a3185c50007000801799bfb392d431070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (5, 5, 1800000000000, 4, 4, 1, '\x8e75c16da14bd25e09cf65dcb8ec9a14ed204186b4fa3efd441f3dc1fc9575e2', '\x0095ad992c76d4f353b247fa84a11b485c4a0000000103020300505c18a301000001a3185c50007000801799bfb392d431070064656661756c74030063726d0500706f6d626f17007b22617474656d7074223a322c22726f756e64223a307d');
INSERT INTO pombo.audit VALUES (6, 6, 1800000000000, 5, 5, 1, '\x7f3179ccc82256d944b85d36fe033e9b9255fa02219d94fa3ec709667a23708b', '\x00da4beed699efce5f692d7ae1dcd7a55f350000000101000100505c18a301000001a3185c500070008032fc944df497a8070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (7, 7, 1800000000000, 6, 6, 1, '\xd85b0ed8afe2f195eb22360da2794526a6cc497c45c30fae50f499de5e892936', '\x000accaef0043fed5fccfad05f80d95749350000000102010200505c18a301000001a3185c500070008032fc944df497a8070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (8, 8, 1800000000000, 7, 7, 1, '\x51dd9564721b1bee13a999cc50e1f65b7a1ad722ba9b6c65414111c681dbe8f5', '\x00ba75e619252fc276751a1b03ed2a5de6860000000104020100505c18a301000001a3185c500070008032fc944df497a8070064656661756c74030063726d0500706f6d626f53007b22617474656d7074223a312c22726f756e64223a302c2276657264696374223a227472616e7369656e74222c2263617465676f7279223a2262757379222c22647565223a313830303030303432303030307d');
INSERT INTO pombo.audit VALUES (9, 9, 1800000000000, 8, 8, 1, '\xebc45e0f2848483fb213ad42776af6463db4fa57a47b6b9225fb78294e8c41c4', '\x0042da104935ff44700b27a5cafdc0bd99350000000101000100505c18a301000001a3185c5000700080544388cb648d28070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (10, 10, 1800000000000, 9, 9, 1, '\x66fbf7c5621e0c391dbb62088912c21299a99e440d651a0df57c0915c29d56dc', '\x00bbbd3ec9bee4465ce4e5f7471da1a85f350000000102010200505c18a301000001a3185c5000700080544388cb648d28070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (11, 11, 1800000000000, 10, 10, 2, '\xaef0cbc732d83a1bbe6b12c675cfbe2b07038267899216de033b4af91e87b0e5', '\x003bf4d77316fabbe9b789980fe0b35f5d910000000106020100505c18a301000001a3185c5000700080544388cb648d28070064656661756c74030063726d0500706f6d626f5e007b22617474656d7074223a312c22726f756e64223a302c2276657264696374223a2273656e6465725f6661756c74222c2263617465676f7279223a22756e617574686f72697a6564222c22647565223a313830303030303030303030307d000ea2872e907e8145e0fc2e5f0ee024a77d0000000114000000505c18a3010000000000000000000000000000000000000000030063726d0500706f6d626f51007b22726561736f6e223a22343031222c2264657374696e6174696f6e223a2268656c642e6578616d706c65222c226b696e64223a22686f6c64222c22756e74696c223a313830303030303033303030307d');
INSERT INTO pombo.audit VALUES (12, 12, 1800000000000, 11, 12, 1, '\xa730bbe58f3a7df429f9bad801db9ea626d2790560e127019817de50180018da', '\x00eff83e49524caa5c5bc99e8150339bcb350000000101000100505c18a301000001a3185c50007000807966af395eb288070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (13, 13, 1800000000000, 12, 13, 1, '\x2ec4c94243ad08175750b42f1affa8afbda10b3af68add1985e9a1939bf79b92', '\x00c66714f887d68e81559930b8d3a0c61a470000000109010400505c18a301000001a3185c50007000807966af395eb288070064656661756c74030063726d0500706f6d626f14007b22726561736f6e223a2265787069726564227d');
INSERT INTO pombo.audit VALUES (14, 14, 1800000000000, 13, 14, 1, '\xc345e9ce73effcca0f2aefce232bc0440133a6e69480c5f2a0e7970871bddd05', '\x00f8f3d4949e12f635f557598f7b870a3f480000000101000100505c18a301000001a3185c5000700080997dd17209d9d5070064656661756c74030063726d0500706f6d626f15007b22647565223a313830303030313830303030307d');
INSERT INTO pombo.audit VALUES (15, 15, 1800000000000, 14, 15, 1, '\x4159fad03f2caf6232768a80bcdce7af1d74759d726737c3b8c8bf72c952ac49', '\x0027c16914976a182605fe79b77b299c23320000000101000100505c18a301000001a3185c5000700080b3bbbeb5715ba4040061636d65030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (16, 16, 1800000000000, 15, 16, 1, '\x3165cac3e7a93b94e895c4051e8c7bbe7138076caa5400e31f1b0cc38d16fc8c', '\x003aa1563ebf93540d41a99431fd928b0b320000000102010200505c18a301000001a3185c5000700080b3bbbeb5715ba4040061636d65030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (17, 17, 1800000000000, 16, 17, 1, '\xc9af362df58ba6af4d31e005861711176273c3d43fe6806fe1a362ef3acd72a5', '\x008562b792f6d0b6526be6a4e7509efdb89c0000000105020400505c18a301000001a3185c5000700080b3bbbeb5715ba4040061636d65030063726d0500706f6d626f6c007b22617474656d7074223a312c22726f756e64223a302c2276657264696374223a227065726d616e656e74222c2263617465676f7279223a22696e76616c69645f726563697069656e74222c22726561736f6e223a226d61785f726574726965735f6578636565646564227d');
INSERT INTO pombo.audit VALUES (18, 18, 1800000000000, 17, 18, 3, '\x241c3364f9401629085351bb1cf999eb7523bd1b295259001dc9b7714079d384', '\x00b68f593141969cfeddf2011667ccdca970000000011e000000505c18a301000000000000000000000000000000000000070064656661756c7400000500706f6d626f40007b226b6579223a226b65795f31222c22726f6c65223a2261646d696e222c226c6162656c223a225c7530303030615c75303030313027c3a75c7530303031227d0001e07729842233c25c5c8856d31ea820500000000128000000505c18a301000000000000000000000000000000000000070064656661756c7400000300616e6122007b2274656d706c617465223a2277656c636f6d65222c2276657273696f6e223a317d0002732ab41a0bf6ac88b076d00f700e21500000000128000000505c18a301000000000000000000000000000000000000070064656661756c7400000300616e6122007b2274656d706c617465223a2277656c636f6d65222c2276657273696f6e223a327d');
INSERT INTO pombo.audit VALUES (19, 19, 1800000000000, 18, 21, 1, '\x644d9cf3a88840fd573fde5171bd6a30e0c0e2e14100e8c368b37971ba756f96', '\x0074d8b89f49a16dd0a338f1dc90fe470f350000000101000100505c18a301000001a3185c5000700080df2330617f542a070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (20, 20, 1800000000000, 19, 22, 1, '\xd7b765392adb8ea7cbbe1348191b711f0ce213de7d9fdedff0c210f350658ec1', '\x002bf9ef7e4013e6074f514bbbd6e8f740350000000102010200505c18a301000001a3185c5000700080df2330617f542a070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (21, 21, 1800000000000, 20, 23, 1, '\x2edb54a7c10d3e77a4788fdca8bca90227ef1c87b1437ea81322a6fcc07603b0', '\x0063ec4e51dc28c12e3e6f85f1111d3fcb4a0000000103020300505c18a301000001a3185c5000700080df2330617f542a070064656661756c74030063726d0500706f6d626f17007b22617474656d7074223a312c22726f756e64223a307d');
INSERT INTO pombo.audit VALUES (22, 22, 1800000000000, 21, 24, 2, '\xf176f9263118b079deaf4ece00c46d06c95983bbff1c49659897d2be208cfb23', '\x005a7c8bfe4dd12f4eb15014d8fccaffdd4b000000010d030300505c18a301000001a3185c5000700080df2330617f542a070064656661756c74030063726d0500706f6d626f18007b2264656c6976657279223a2264656c697665726564227d00ef051e3909410943e87a749321c52424350000000101000100505c18a301000001a3185c5000700080fbdbeb505b1a2e070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (23, 23, 1800000000000, 22, 26, 1, '\xb0066129143e9e7f49d5461755a43b9fea3c97dd77e64d8c17c1f23b7c286dc8', '\x00e6a77313549ad8aff6768333275c439a350000000102010200505c18a301000001a3185c5000700080fbdbeb505b1a2e070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (24, 24, 1800000000000, 23, 27, 1, '\xf01c9685150c17ceb311946eda8bdb3fef0bb12fe61d2513c0c199225e2039fc', '\x005eb5e49e0b57b113bc2251b43adf2eeb9a0000000105020400505c18a301000001a3185c5000700080fbdbeb505b1a2e070064656661756c74030063726d0500706f6d626f67007b22617474656d7074223a312c22726f756e64223a302c2276657264696374223a227065726d616e656e74222c2263617465676f7279223a22696e76616c69645f726563697069656e74222c22726561736f6e223a227065726d616e656e745f6572726f72227d');
INSERT INTO pombo.audit VALUES (25, 25, 1800000000000, 24, 28, 1, '\x2db2c79f8af92ab03c875e3ecea7ad0b665033286461ac30e32404af1ce7b9fc', '\x000c223d1e3efb80ce8dbfd4cf1a2d41bf350000000101000100505c18a301000001a3185c50007000810c8d0237502286070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (26, 26, 1800000000000, 25, 29, 1, '\xc5a9306cf1f79acc6c5cd68ba3629691d0ac50adf097032820e98e715e39bc30', '\x005482fe0476fc25b1939b45bb70d5bb05350000000102010200505c18a301000001a3185c50007000810c8d0237502286070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (27, 27, 1800000000000, 26, 30, 1, '\x976421e635824487144811bd5c97b44d5cbd1240ea4aedb320317ae7dccdc31f', '\x00d63025634c929566f23835df03b3c40a860000000104020100505c18a301000001a3185c50007000810c8d0237502286070064656661756c74030063726d0500706f6d626f53007b22617474656d7074223a312c22726f756e64223a302c2276657264696374223a227472616e7369656e74222c2263617465676f7279223a2262757379222c22647565223a313830303030303330303030307d');
INSERT INTO pombo.audit VALUES (28, 28, 1800000000000, 27, 31, 1, '\x5b993756679bcfa7ee5ee5194a78f789aa28ac6516308b2474d9fb470a7f8570', '\x00c2171fb24a9adae92e0647015409d930480000000101000100505c18a301000001a3185c5000700081370e2f2d13c359070064656661756c74030063726d0500706f6d626f15007b22647565223a313830303030333630303030307d');
INSERT INTO pombo.audit VALUES (29, 29, 1800000000000, 28, 32, 1, '\x01d75b7757e1672e9447bb888a548d35ab37b54d8e60dada118c303593bc1f89', '\x00e50e681f92bddce04a28a909d489babd330000000108010500505c18a301000001a3185c5000700081370e2f2d13c359070064656661756c74030063726d0300616e6102007b7d');
INSERT INTO pombo.audit VALUES (30, 30, 1800000000000, 29, 33, 1, '\xcbe1652c2f08b710223287e00696870d17bfe52f6b18ee35bb89ff26cf6831de', '\x006ed044ddb8418e2c97adf66e3d316e7f480000000101000100505c18a301000001a3185c500070008143be243c3b6a73070064656661756c74030063726d0500706f6d626f15007b22647565223a313830303030353430303030307d');
INSERT INTO pombo.audit VALUES (31, 31, 1800000000000, 30, 34, 1, '\x06b4aff882b08e91a5d22e3a7a5bdd1a861b010f98549eb802856a0d567a3df8', '\x0060aec0f038c3bfc57b87d83409246293480000000101000100505c18a301000001a3185c5000700081688ea25e7a7139070064656661756c74030063726d0500706f6d626f15007b22647565223a313830303030333030303030307d');
INSERT INTO pombo.audit VALUES (32, 32, 1800000000000, 31, 35, 1, '\xe30594fb90a710e591e0722c5ac633088699ccaae46d9a62f2637a5d07fcbae8', '\x00ab65b20171bbc1cea0cb66aca6044382450000000101000100505c18a301000001a3185c500070008198865875f9f1c9040061636d65030063726d0500706f6d626f15007b22647565223a313830303030323430303030307d');
INSERT INTO pombo.audit VALUES (33, 33, 1800000000000, 32, 36, 1, '\xa70bf8dd9b11fa756ab4fd3409f0e4437e7dda5444a2aea6ee98e476912dab0f', '\x002dab8e1de4c2900bb773b34970c339d8480000000101000100505c18a301000001a3185c5000700081a950692fdf8d7f070064656661756c74030063726d0500706f6d626f15007b22647565223a313830303030323730303030307d');
INSERT INTO pombo.audit VALUES (34, 34, 1800000000000, 33, 37, 2, '\xb394d1b88218fbb44836333b9384ef48281cab38fdeae0c3fdf728f953179ade', '\x009c9e6bfc251e5c0bfd878eab9599f38d610000000114000000505c18a301000000000000000000000000000000000000000004006d61696c0300616e6136007b22726561736f6e223a225c7530303030615c75303030313027c3a75c7530303031222c226b696e64223a226f70657261746f72227d00f5f6a77bb1a500d5e019e7e4ff30c2886f0000000114000000505c18a301000000000000000000000000000000000000000004006d61696c0300616e6144007b22726561736f6e223a226f6e65206f66207468656d222c2264657374696e6174696f6e223a22612e6578616d706c65222c226b696e64223a226f70657261746f72227d');
INSERT INTO pombo.audit VALUES (35, 35, 1800000000000, 34, 39, 1, '\x0f3a377076fcf1d1ea411d38b04ff09791f4eeffc53775264e3f6f0845003934', '\x00be3a0f29cca25a2be49f5af0e9b7934b360000000101000100505c18a301000001a3185c5000700081c1e8c212131522070064656661756c7404006d61696c0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (36, 36, 1800000000000, 35, 40, 1, '\x6c9760d0bd0d033615b8321038e44e45d038e7f8d9e762925a850527cbec1d2c', '\x0070eda6436cc6bbb0f6d790a59ae7ed9e350000000101000100505c18a301000001a3185c5000700081f5b7027f2d95c2070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (37, 37, 1800000000000, 36, 41, 1, '\xa41bcc3d4694ccdf9356c29bdd6b93b6a088f1717e6ecd1d9e2db81d1cf33241', '\x00c9c8a7e320b646b21a74ce26b01b3877350000000101000100505c18a301000001a3185c50007000821d3350a3ff8944070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (38, 38, 1800000000000, 37, 42, 1, '\x9e0e4ee07394b96da86b79a5247baae37feca90ede2db7a8c0fd89aca7d2f1c4', '\x006931fe87dca64a0a780505f8dc86e31e350000000101000100505c18a301000001a3185c5000700082200340b43dfea4070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (39, 39, 1800000000000, 38, 43, 1, '\x97bf56ceb3785308a6de6af3f95d522f8e478618dbf18dc78bba986a6d3bd003', '\x00b0c3995af38e334ff1fbbe4cb21dd9fb350000000101000100505c18a301000001a3185c50007000825a411c874d1c1a070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (40, 40, 1800000000000, 39, 44, 1, '\xb0b5974c48648c56d65956f4aa396ff2fb1a7374404244fd87eadf9fbefb7a01', '\x004321b3fb79a7d482b4dfa3570d170522350000000101000100505c18a301000001a3185c500070008264d8403117f75e070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (41, 41, 1800000000000, 40, 45, 4, '\xa4aee716657ab500d23db7b757d14b211c781ba346f897e52d10fc5b79e1e848', '\x0032ed9213838344d7f6ca60540a4d18f5350000000102010200505c18a301000001a3185c5000700081f5b7027f2d95c2070064656661756c74030063726d0500706f6d626f02007b7d0071e0286b8a79896e3e9b1bf4fd51dcc8350000000102010200505c18a301000001a3185c5000700082200340b43dfea4070064656661756c74030063726d0500706f6d626f02007b7d002addce781f6f0b9790d5b7c3ee150517350000000102010200505c18a301000001a3185c50007000825a411c874d1c1a070064656661756c74030063726d0500706f6d626f02007b7d0079c25aa5f2d90d2c4907d6e839c21cfc350000000102010200505c18a301000001a3185c500070008264d8403117f75e070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit VALUES (42, 42, 1800000000000, 41, 49, 2, '\xf312eb35bd0c4d0f969ad7e6e5f00d28f0c032f8135cd70a01f20bd968a54cdb', '\x0079dffafa5b863f84dfb5280b0b2c5b17350000000107020100505c18a301000001a3185c5000700081f5b7027f2d95c2070064656661756c74030063726d0500706f6d626f02007b7d00926bb75461090777cb93f46d76b0b486350000000107020100505c18a301000001a3185c5000700082200340b43dfea4070064656661756c74030063726d0500706f6d626f02007b7d');
INSERT INTO pombo.audit_tip VALUES (42, 51, '\xf312eb35bd0c4d0f969ad7e6e5f00d28f0c032f8135cd70a01f20bd968a54cdb');
INSERT INTO pombo.blob VALUES ('\xd876885b7f40eae70bd1f5247a9854914fa5812ce63998e2d894a68e187967cb', '\x07070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707070707');
INSERT INTO pombo.blob_use VALUES ('\xd876885b7f40eae70bd1f5247a9854914fa5812ce63998e2d894a68e187967cb', 465909999206400004);
INSERT INTO pombo.blob_use VALUES ('\xd876885b7f40eae70bd1f5247a9854914fa5812ce63998e2d894a68e187967cb', 465909999206400006);
INSERT INTO pombo.block VALUES ('\x0d7d3fabf7c228f3306d55353851b240d2dbc5f40b336f7288f7efc8759a8fbc', 'crm', 'held.example', '{"kind":"hold","reason":"401","since":"2027-01-15T08:00:00.000Z","until":"2027-01-15T08:00:30.000Z","probes":0}', NULL);
INSERT INTO pombo.block VALUES ('\x088f6aa818612655d5a4dd0e290b5d38a443766ad4255cb36c10620ea9b01a1d', 'mail', NULL, '{"kind":"operator","reason":"\u0000a\u00010''ç\u0001","since":"2027-01-15T08:00:00.000Z","until":null,"probes":0}', NULL);
INSERT INTO pombo.block VALUES ('\x40139c03939d770c919d088c8ae92c313476ea3b8eb4bd1410eed902ea316f35', 'mail', 'a.example', '{"kind":"operator","reason":"one of them","since":"2027-01-15T08:00:00.000Z","until":null,"probes":0}', NULL);
INSERT INTO pombo.board VALUES (2);
INSERT INTO pombo.claim VALUES (9, 9, 1800000000000, '\x12000000ad3e770600505c18a30100000000000013000000ad3e770600505c18a301000000000000');
INSERT INTO pombo.delivery VALUES (465909999206400006, 1800000000000, 3, 'default', '0a10''ç1');
INSERT INTO pombo.expiry VALUES (1800003300000, 465909999206400011);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400000, 1800000000000, 1800000000000, 1800000000000, 0, 3, 0, 2, 0, 1, 1, 0, NULL, false, 'default', '{"verdict":"transient","category":"busy","code":"503","text":"come back later"}', NULL, 'because', 'some policy', NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400000, 1800000000000, 1800000000000, NULL, NULL, 5, 1, 1, 0, 2, 2, 0, NULL, false, 'default', NULL, '{"provider_id":"re_1","code":200}', NULL, NULL, NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400001, 1800000000000, 1800000000000, 1800000420000, 420000, 8, 0, 2, 0, 1, 1, 0, NULL, true, 'default', '{"verdict":"transient","category":"busy","code":"503","text":"come back later","perhaps_sent":true}', NULL, 'because', 'some policy', NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400002, 1800000000000, 1800000000000, 1800000000000, NULL, 11, 0, 4, 0, 1, 0, 0, NULL, false, 'default', '{"verdict":"sender_fault","category":"unauthorized","code":"503","text":"come back later"}', NULL, 'because', 'some policy', NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400003, 1800000000000, 1800000000000, NULL, NULL, 13, 0, 11, 0, 0, 0, 0, 3, false, 'default', NULL, NULL, NULL, NULL, NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400005, 1800000000000, 1800000000000, NULL, NULL, 17, 0, 3, 0, 1, 1, 0, 2, false, 'acme', '{"verdict":"permanent","category":"invalid_recipient","code":"503","text":"come back later"}', NULL, 'because', 'some policy', NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400006, 1800000000000, 1800000000000, NULL, NULL, 21, 0, 1, 0, 1, 1, 0, NULL, false, 'default', NULL, '{"provider_id":"\u0000a\u00010''ç\u0001","code":null}', NULL, NULL, NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400007, 1800000000000, 1800000000000, NULL, NULL, 24, 0, 3, 0, 1, 1, 0, 1, false, 'default', '{"verdict":"permanent","category":"invalid_recipient","code":"503","text":"come back later"}', NULL, 'because', 'some policy', NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400008, 1800000000000, 1800000000000, 1800000300000, 300000, 27, 0, 2, 0, 1, 1, 0, NULL, false, 'default', '{"verdict":"transient","category":"busy","code":"503","text":"come back later"}', NULL, 'because', 'some policy', NULL);
INSERT INTO pombo.history_2027_01 VALUES (465909999206400009, 1800000000000, 1800000000000, NULL, NULL, 29, 0, 10, 0, 0, 0, 0, NULL, false, 'default', NULL, NULL, NULL, NULL, 'ana');
INSERT INTO pombo.idempotency VALUES ('\x15907365c0d5220f16aa4bc6cefa11c65d94fedc8d3f1933f33a5a5b0acca386', 465909999206400012, 6903113935614409, 'acme', '0a10''ç1', '\x01010101010101010101010101010101');
INSERT INTO pombo.idempotency VALUES ('\xa2f3c57957c95fca3b3cff4bc493507405fe471c153b866e3c073081cc7e981f', 465909999206400013, 2621687495363967, 'default', 'order-1', '\x03030303030303030303030303030303');
INSERT INTO pombo.inbox VALUES (5, 6, 'default', '{"to": "by SQL", "channel": "crm"}');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400000, 6642973094892593, 1, 5, 1800000000000, NULL, NULL, -8054187934439129351, NULL, 1, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a2272657472696564227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400001, 5344263474026408, 2, 5, 1800000000000, NULL, NULL, -4966141420924362900, NULL, 6, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22646f75627466756c227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400002, 5703754341190952, 3, 5, 1800000000000, NULL, NULL, -3473709518920655307, NULL, 9, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a2268656c64227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400003, 7149777185583752, 4, 5, 1800000000000, NULL, 1800000000000, 1301785076563834674, NULL, 12, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a226c617465227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400004, 7175212932651477, 5, 8, 1800001800000, 1800001800000, NULL, -3237380200375526756, 279618178324417655, 14, 'default', NULL, 'invoice', 'welcome', 'order-77', '\x7b22746f223a2272696368222c22636f6e74656e74223a7b2274657874223a226f6cc3a1227d2c227061796c6f6164223a7b226e223a312c226e616d65223a225a6fc3ab227d2c22757365725f6964223a22752d31222c226d65746164617461223a7b2261223a5b312c325d7d7d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400005, 5554452319787940, 6, 5, 1800000000000, NULL, NULL, -5280206666269035432, NULL, 15, 'acme', NULL, NULL, NULL, NULL, '\x7b22746f223a2261636d652773227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400006, 8764414979167274, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 19, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400007, 7841628083132974, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 22, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400008, 3532740377977478, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 25, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400009, 6489520246866777, 4, 5, 1800003600000, 1800003600000, NULL, 8169218986809399212, NULL, 28, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400010, 1053487768758899, 4, 5, 1800005400000, 1800005400000, NULL, 8169218986809399212, NULL, 30, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400011, 2408627834614073, 4, 5, 1800003000000, 1800003000000, 1800003300000, 8169218986809399212, NULL, 31, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400012, 6903113935614409, 7, 5, 1800002400000, 1800002400000, NULL, -3671302190841270472, -3671302190841270472, 32, 'acme', '0a10''ç1', '0a10''ç1', NULL, '0a10''ç1', '\x7b22746f223a225c7530303030615c75303030313027c3a75c7530303031227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400013, 2621687495363967, 4, 5, 1800002700000, 1800002700000, NULL, 8169218986809399212, NULL, 33, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400014, 537395201250594, 8, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 35, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400015, 6112195862435266, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 36, 'default', 'line', NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400016, 8219195766442308, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 37, 'default', 'line', NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400017, 3576436752036, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 38, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400018, 7389940179344410, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 39, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.message_2027_01 VALUES (465909999206400019, 1363670120003422, 4, 5, 1800000000000, NULL, NULL, 8169218986809399212, NULL, 40, 'default', NULL, NULL, NULL, NULL, '\x7b22746f223a22736f6d656f6e65227d');
INSERT INTO pombo.meta VALUES ('schema', '\x31');
INSERT INTO pombo.meta VALUES ('secret', '\x0707070707070707070707070707070707070707070707070707070707070707');
INSERT INTO pombo.meta VALUES ('surface', '\xea2904330a4f65a50bde95aec844557b69502bf3a5d40d972308a3cc1f1b6dc0');
INSERT INTO pombo.meta VALUES ('identity', '\x373730393430303934323733343439323839312f31363338342f3136333836');
INSERT INTO pombo.ordered OVERRIDING SYSTEM VALUE VALUES ('\x15907365c0d5220f16aa4bc6cefa11c65d94fedc8d3f1933f33a5a5b0acca386', 465909999206400012, true, 1);
INSERT INTO pombo.ordered OVERRIDING SYSTEM VALUE VALUES ('\xa3c75e82868cabf7124670399fbcb47b61c917c4997753d808d2707d9d51ee3a', 465909999206400015, true, 2);
INSERT INTO pombo.ordered OVERRIDING SYSTEM VALUE VALUES ('\xa3c75e82868cabf7124670399fbcb47b61c917c4997753d808d2707d9d51ee3a', 465909999206400016, false, 3);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (1, '\x974357dc34384cccac2158de401752b42ccf21e289a01d25cee330df7e74df4d', 'default', 'default', 'crm', 'retried.example', '', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (2, '\xbcf29815eeff487766714164fd560f06eac51e0eb59a2df5de5257def8a47824', 'default', 'default', 'crm', 'doubtful.example', '', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (3, '\xf52970e537fa41b538c20de5885025026f6a4f21a0c1ae925459eb33a9869d70', 'default', 'default', 'crm', 'held.example', '', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (4, '\x5a1f4ecea7b2d6ad6f6c519572db6fb9ce36705003c492fc4c206c6ac6c0e378', 'default', 'default', 'crm', 'crm.example', '', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (5, '\xe2d607ffe12c734fcbe38a46c05f769f7866c9b1cadefe041eb772df8a541d9f', 'default', 'default', 'crm', 'rich.example', '', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (6, '\x9eb2c932f0d6701f14793964977745392df8ed272814d2abd695fcbfa0a36c9e', 'acme', 'default', 'crm', 'acme.example', '', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (7, '\x04910cba80013e737c0b5f194669373a5dfba5177bc9e54001aeffceedfc3c5a', 'acme', 'default', 'crm', '0a10''ç1', 'spring', 1);
INSERT INTO pombo.queue OVERRIDING SYSTEM VALUE VALUES (8, '\x3b8728ee5d9b68735ec59b5c77b3e4f659c6fb4a088a44db06471dd13f1ef2cd', 'default', 'default', 'mail', 'a.example', '', 1);
INSERT INTO pombo.ready VALUES (2, 1800000420000, 465909999206400001, 1, 14);
INSERT INTO pombo.ready VALUES (3, 1800000000000, 465909999206400002, 1, 14);
INSERT INTO pombo.ready VALUES (5, 1800001800000, 465909999206400004, 0, 1);
INSERT INTO pombo.ready VALUES (4, 1800000300000, 465909999206400008, 1, 14);
INSERT INTO pombo.ready VALUES (4, 1800005400000, 465909999206400010, 0, 4);
INSERT INTO pombo.ready VALUES (4, 1800003000000, 465909999206400011, 0, 4);
INSERT INTO pombo.ready VALUES (7, 1800002400000, 465909999206400012, 0, 4);
INSERT INTO pombo.ready VALUES (4, 1800002700000, 465909999206400013, 0, 4);
INSERT INTO pombo.ready VALUES (8, 1800000000000, 465909999206400014, 0, 4);
INSERT INTO pombo.ready VALUES (4, 1800000000000, 465909999206400015, 0, 4);
INSERT INTO pombo.ready VALUES (4, 1800000000000, 465909999206400017, 0, 4);
INSERT INTO pombo.receipt VALUES (3310, -8661059532363885620, 465909999206400000);
INSERT INTO pombo.receipt VALUES (3310, -8624675406008020908, 465909999206400006);
INSERT INTO pombo.tally VALUES (17, 500000, 0, 1, 'default', 'crm');
INSERT INTO pombo.tally VALUES (17, 0, 0, 1, 'default', 'crm');
INSERT INTO pombo.tally VALUES (1, 500000, 0, 3, 'acme', 'crm');
INSERT INTO pombo.tally VALUES (1, 0, 0, 3, 'acme', 'crm');
INSERT INTO pombo.tally VALUES (1, 500000, 0, 6, 'acme', 'crm');
INSERT INTO pombo.tally VALUES (1, 0, 0, 6, 'acme', 'crm');
INSERT INTO pombo.tally VALUES (2, 500000, 0, 2, 'default', 'crm');
INSERT INTO pombo.tally VALUES (2, 0, 0, 2, 'default', 'crm');
INSERT INTO pombo.tally VALUES (1, 500000, 0, 23, 'default', 'crm');
INSERT INTO pombo.tally VALUES (1, 0, 0, 23, 'default', 'crm');
INSERT INTO pombo.tally VALUES (2, 500000, 0, 3, 'default', 'crm');
INSERT INTO pombo.tally VALUES (2, 0, 0, 3, 'default', 'crm');
INSERT INTO pombo.tally VALUES (7, 500000, 0, 6, 'default', 'crm');
INSERT INTO pombo.tally VALUES (7, 0, 0, 6, 'default', 'crm');
INSERT INTO pombo.tally VALUES (3, 500000, 0, 7, 'default', 'crm');
INSERT INTO pombo.tally VALUES (3, 0, 0, 7, 'default', 'crm');
INSERT INTO pombo.tally VALUES (1, 500000, 0, 4, 'default', 'crm');
INSERT INTO pombo.tally VALUES (1, 0, 0, 4, 'default', 'crm');
INSERT INTO pombo.tally VALUES (2, 500000, 0, 1, 'acme', 'crm');
INSERT INTO pombo.tally VALUES (2, 0, 0, 1, 'acme', 'crm');
INSERT INTO pombo.tally VALUES (1, 500000, 0, 1, 'default', 'mail');
INSERT INTO pombo.tally VALUES (1, 0, 0, 1, 'default', 'mail');
INSERT INTO pombo.template VALUES ('default', 'welcome', 1, 1800000000000, 'ana', '{"text":"one"}');
INSERT INTO pombo.template VALUES ('default', 'welcome', 2, 1800000000000, 'ana', '{"text":"two"}');
SELECT pg_catalog.setval('pombo.audit_batch', 42, true);
SELECT pg_catalog.setval('pombo.audit_turn', 42, true);
SELECT pg_catalog.setval('pombo.claim_id', 9, true);
SELECT pg_catalog.setval('pombo.command_id_seq', 1, false);
SELECT pg_catalog.setval('pombo.enqueue_count', 0, false);
SELECT pg_catalog.setval('pombo.ordered_turn_seq', 3, true);
SELECT pg_catalog.setval('pombo.queue_id_seq', 8, true);
ALTER TABLE ONLY pombo.api_key
    ADD CONSTRAINT api_key_digest_key UNIQUE (digest);
ALTER TABLE ONLY pombo.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pombo.app
    ADD CONSTRAINT app_pkey PRIMARY KEY (role);
ALTER TABLE ONLY pombo.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (batch);
ALTER TABLE ONLY pombo.audit
    ADD CONSTRAINT audit_position_key UNIQUE ("position");
ALTER TABLE ONLY pombo.audit
    ADD CONSTRAINT audit_sequence_key UNIQUE (sequence);
ALTER TABLE ONLY pombo.audit
    ADD CONSTRAINT audit_turn_key UNIQUE (turn);
ALTER TABLE ONLY pombo.blob
    ADD CONSTRAINT blob_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY pombo.blob_use
    ADD CONSTRAINT blob_use_pkey PRIMARY KEY (digest, key);
ALTER TABLE ONLY pombo.block
    ADD CONSTRAINT block_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY pombo.channel
    ADD CONSTRAINT channel_pkey PRIMARY KEY (name);
ALTER TABLE ONLY pombo.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pombo.command
    ADD CONSTRAINT command_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pombo.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.expiry
    ADD CONSTRAINT expiry_pkey PRIMARY KEY (at, key);
ALTER TABLE ONLY pombo.flow
    ADD CONSTRAINT flow_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY pombo.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (key, seq);
ALTER TABLE ONLY pombo.history_2026_11
    ADD CONSTRAINT history_2026_11_pkey PRIMARY KEY (key, seq);
ALTER TABLE ONLY pombo.history_2026_12
    ADD CONSTRAINT history_2026_12_pkey PRIMARY KEY (key, seq);
ALTER TABLE ONLY pombo.history_2027_01
    ADD CONSTRAINT history_2027_01_pkey PRIMARY KEY (key, seq);
ALTER TABLE ONLY pombo.history_rest
    ADD CONSTRAINT history_rest_pkey PRIMARY KEY (key, seq);
ALTER TABLE ONLY pombo.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY pombo.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.message
    ADD CONSTRAINT message_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.message_2026_11
    ADD CONSTRAINT message_2026_11_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.message_2026_12
    ADD CONSTRAINT message_2026_12_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.message_2027_01
    ADD CONSTRAINT message_2027_01_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.message_rest
    ADD CONSTRAINT message_rest_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY pombo.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pombo.office
    ADD CONSTRAINT office_pkey PRIMARY KEY (name);
ALTER TABLE ONLY pombo.ordered
    ADD CONSTRAINT ordered_pkey PRIMARY KEY (digest, key);
ALTER TABLE ONLY pombo.queue
    ADD CONSTRAINT queue_digest_key UNIQUE (digest);
ALTER TABLE ONLY pombo.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pombo.ready
    ADD CONSTRAINT ready_pkey PRIMARY KEY (queue, rank, due, key);
ALTER TABLE ONLY pombo.receipt
    ADD CONSTRAINT receipt_pkey PRIMARY KEY (slice, hash);
ALTER TABLE ONLY pombo.refused
    ADD CONSTRAINT refused_pkey PRIMARY KEY (key);
ALTER TABLE ONLY pombo.slot
    ADD CONSTRAINT slot_pkey PRIMARY KEY (id);
ALTER TABLE ONLY pombo.tally
    ADD CONSTRAINT tally_pkey PRIMARY KEY (hour, tenant, channel, what, slot);
ALTER TABLE ONLY pombo.template
    ADD CONSTRAINT template_pkey PRIMARY KEY (tenant, name, version);
CREATE INDEX audit_unsealed ON pombo.audit USING btree (turn) WHERE (sequence IS NULL);
CREATE INDEX dead ON ONLY pombo.history USING btree (key) WHERE (outcome = ANY (ARRAY[3, 11]));
CREATE INDEX history_2026_11_key_idx ON pombo.history_2026_11 USING btree (key) WHERE (outcome = ANY (ARRAY[3, 11]));
CREATE INDEX history_2026_12_key_idx ON pombo.history_2026_12 USING btree (key) WHERE (outcome = ANY (ARRAY[3, 11]));
CREATE INDEX history_2027_01_key_idx ON pombo.history_2027_01 USING btree (key) WHERE (outcome = ANY (ARRAY[3, 11]));
CREATE INDEX history_rest_key_idx ON pombo.history_rest USING btree (key) WHERE (outcome = ANY (ARRAY[3, 11]));
CREATE UNIQUE INDEX inbox_by_idempotency ON pombo.inbox USING btree (tenant, ((request ->> 'idempotency_key'::text))) WHERE ((request ->> 'idempotency_key'::text) IS NOT NULL);
CREATE INDEX message_by_recipient ON ONLY pombo.message USING btree (((key >> 47)), recipient, key);
CREATE INDEX message_2026_11_expr_recipient_key_idx ON pombo.message_2026_11 USING btree (((key >> 47)), recipient, key);
CREATE INDEX message_by_age ON ONLY pombo.message USING brin (pombo.message_time(key), pombo.message_uuid(key, nonce)) WITH (autosummarize='on');
CREATE INDEX message_2026_11_message_time_message_uuid_idx ON pombo.message_2026_11 USING brin (pombo.message_time(key), pombo.message_uuid(key, nonce)) WITH (autosummarize='on');
CREATE INDEX message_by_reference ON ONLY pombo.message USING btree (referred, key) WHERE (referred IS NOT NULL);
CREATE INDEX message_2026_11_referred_key_idx ON pombo.message_2026_11 USING btree (referred, key) WHERE (referred IS NOT NULL);
CREATE INDEX message_2026_12_expr_recipient_key_idx ON pombo.message_2026_12 USING btree (((key >> 47)), recipient, key);
CREATE INDEX message_2026_12_message_time_message_uuid_idx ON pombo.message_2026_12 USING brin (pombo.message_time(key), pombo.message_uuid(key, nonce)) WITH (autosummarize='on');
CREATE INDEX message_2026_12_referred_key_idx ON pombo.message_2026_12 USING btree (referred, key) WHERE (referred IS NOT NULL);
CREATE INDEX message_2027_01_expr_recipient_key_idx ON pombo.message_2027_01 USING btree (((key >> 47)), recipient, key);
CREATE INDEX message_2027_01_message_time_message_uuid_idx ON pombo.message_2027_01 USING brin (pombo.message_time(key), pombo.message_uuid(key, nonce)) WITH (autosummarize='on');
CREATE INDEX message_2027_01_referred_key_idx ON pombo.message_2027_01 USING btree (referred, key) WHERE (referred IS NOT NULL);
CREATE INDEX message_rest_expr_recipient_key_idx ON pombo.message_rest USING btree (((key >> 47)), recipient, key);
CREATE INDEX message_rest_message_time_message_uuid_idx ON pombo.message_rest USING brin (pombo.message_time(key), pombo.message_uuid(key, nonce)) WITH (autosummarize='on');
CREATE INDEX message_rest_referred_key_idx ON pombo.message_rest USING btree (referred, key) WHERE (referred IS NOT NULL);
CREATE INDEX ordered_by_turn ON pombo.ordered USING btree (digest, turn);
ALTER INDEX pombo.dead ATTACH PARTITION pombo.history_2026_11_key_idx;
ALTER INDEX pombo.history_pkey ATTACH PARTITION pombo.history_2026_11_pkey;
ALTER INDEX pombo.dead ATTACH PARTITION pombo.history_2026_12_key_idx;
ALTER INDEX pombo.history_pkey ATTACH PARTITION pombo.history_2026_12_pkey;
ALTER INDEX pombo.dead ATTACH PARTITION pombo.history_2027_01_key_idx;
ALTER INDEX pombo.history_pkey ATTACH PARTITION pombo.history_2027_01_pkey;
ALTER INDEX pombo.dead ATTACH PARTITION pombo.history_rest_key_idx;
ALTER INDEX pombo.history_pkey ATTACH PARTITION pombo.history_rest_pkey;
ALTER INDEX pombo.message_by_recipient ATTACH PARTITION pombo.message_2026_11_expr_recipient_key_idx;
ALTER INDEX pombo.message_by_age ATTACH PARTITION pombo.message_2026_11_message_time_message_uuid_idx;
ALTER INDEX pombo.message_pkey ATTACH PARTITION pombo.message_2026_11_pkey;
ALTER INDEX pombo.message_by_reference ATTACH PARTITION pombo.message_2026_11_referred_key_idx;
ALTER INDEX pombo.message_by_recipient ATTACH PARTITION pombo.message_2026_12_expr_recipient_key_idx;
ALTER INDEX pombo.message_by_age ATTACH PARTITION pombo.message_2026_12_message_time_message_uuid_idx;
ALTER INDEX pombo.message_pkey ATTACH PARTITION pombo.message_2026_12_pkey;
ALTER INDEX pombo.message_by_reference ATTACH PARTITION pombo.message_2026_12_referred_key_idx;
ALTER INDEX pombo.message_by_recipient ATTACH PARTITION pombo.message_2027_01_expr_recipient_key_idx;
ALTER INDEX pombo.message_by_age ATTACH PARTITION pombo.message_2027_01_message_time_message_uuid_idx;
ALTER INDEX pombo.message_pkey ATTACH PARTITION pombo.message_2027_01_pkey;
ALTER INDEX pombo.message_by_reference ATTACH PARTITION pombo.message_2027_01_referred_key_idx;
ALTER INDEX pombo.message_by_recipient ATTACH PARTITION pombo.message_rest_expr_recipient_key_idx;
ALTER INDEX pombo.message_by_age ATTACH PARTITION pombo.message_rest_message_time_message_uuid_idx;
ALTER INDEX pombo.message_pkey ATTACH PARTITION pombo.message_rest_pkey;
ALTER INDEX pombo.message_by_reference ATTACH PARTITION pombo.message_rest_referred_key_idx;
ALTER TABLE pombo.api_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.app ENABLE ROW LEVEL SECURITY;
CREATE POLICY app ON pombo.channel FOR SELECT TO pombo_app USING ((tenant = ( SELECT pombo.tenant() AS tenant)));
CREATE POLICY app ON pombo.idempotency FOR SELECT TO pombo_app USING ((tenant = ( SELECT pombo.tenant() AS tenant)));
CREATE POLICY app ON pombo.inbox FOR SELECT TO pombo_app USING ((tenant = ( SELECT pombo.tenant() AS tenant)));
CREATE POLICY app ON pombo.refused FOR SELECT TO pombo_app USING ((tenant = ( SELECT pombo.tenant() AS tenant)));
CREATE POLICY app_adds ON pombo.command FOR INSERT TO pombo_app WITH CHECK ((tenant = ( SELECT pombo.tenant() AS tenant)));
CREATE POLICY app_adds ON pombo.inbox FOR INSERT TO pombo_app WITH CHECK ((tenant = ( SELECT pombo.tenant() AS tenant)));
ALTER TABLE pombo.audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.blob ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.blob_use ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.block ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.channel ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.command ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.delivery ENABLE ROW LEVEL SECURITY;
CREATE POLICY engine ON pombo.api_key TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.app TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.audit TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.blob TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.blob_use TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.block TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.channel TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.command TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.delivery TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.history TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.idempotency TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.inbox TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.message TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.queue TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.refused TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.tally TO pombo_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON pombo.template TO pombo_engine USING (true) WITH CHECK (true);
ALTER TABLE pombo.history ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.history_2026_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.history_2026_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.history_2027_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.history_rest ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.message ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.message_2026_11 ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.message_2026_12 ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.message_2027_01 ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.message_rest ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON pombo.app FOR SELECT USING ((role = ANY (ARRAY[CURRENT_USER, SESSION_USER])));
ALTER TABLE pombo.queue ENABLE ROW LEVEL SECURITY;
CREATE POLICY reader ON pombo.delivery FOR SELECT TO pombo_reader USING ((tenant = current_setting('pombo.tenant'::text, true)));
CREATE POLICY reader ON pombo.history FOR SELECT TO pombo_reader USING ((tenant = current_setting('pombo.tenant'::text, true)));
CREATE POLICY reader ON pombo.message FOR SELECT TO pombo_reader USING ((tenant = current_setting('pombo.tenant'::text, true)));
CREATE POLICY reader ON pombo.queue FOR SELECT TO pombo_reader USING ((tenant = current_setting('pombo.tenant'::text, true)));
CREATE POLICY reader ON pombo.tally FOR SELECT TO pombo_reader USING ((tenant = current_setting('pombo.tenant'::text, true)));
CREATE POLICY reader ON pombo.template FOR SELECT TO pombo_reader USING ((tenant = current_setting('pombo.tenant'::text, true)));
ALTER TABLE pombo.refused ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.tally ENABLE ROW LEVEL SECURITY;
ALTER TABLE pombo.template ENABLE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA pombo TO pombo_engine;
GRANT USAGE ON SCHEMA pombo TO pombo_reader;
GRANT USAGE ON SCHEMA pombo TO pombo_app;
GRANT USAGE ON SEQUENCE pombo.enqueue_count TO pombo_engine;
GRANT USAGE ON SEQUENCE pombo.enqueue_count TO pombo_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.app TO pombo_engine;
GRANT SELECT ON TABLE pombo.app TO PUBLIC;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.channel TO pombo_engine;
GRANT SELECT ON TABLE pombo.channel TO pombo_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.claim TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.history TO pombo_engine;
GRANT SELECT ON TABLE pombo.history TO pombo_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.inbox TO pombo_engine;
GRANT SELECT ON TABLE pombo.inbox TO pombo_app;
GRANT INSERT(request) ON TABLE pombo.inbox TO pombo_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.message TO pombo_engine;
GRANT SELECT ON TABLE pombo.message TO pombo_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.ordered TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.queue TO pombo_engine;
GRANT SELECT ON TABLE pombo.queue TO pombo_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.ready TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.refused TO pombo_engine;
GRANT SELECT ON TABLE pombo.refused TO pombo_app;
GRANT SELECT ON TABLE pombo.email_queue TO pombo_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.api_key TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.audit TO pombo_engine;
GRANT USAGE ON SEQUENCE pombo.audit_batch TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.audit_tip TO pombo_engine;
GRANT USAGE ON SEQUENCE pombo.audit_turn TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.blob TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.blob_use TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.block TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.board TO pombo_engine;
GRANT USAGE ON SEQUENCE pombo.claim_id TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.command TO pombo_engine;
GRANT INSERT(verb) ON TABLE pombo.command TO pombo_app;
GRANT INSERT(key) ON TABLE pombo.command TO pombo_app;
GRANT INSERT(nonce) ON TABLE pombo.command TO pombo_app;
GRANT INSERT(detail) ON TABLE pombo.command TO pombo_app;
GRANT USAGE ON SEQUENCE pombo.command_id_seq TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.delivery TO pombo_engine;
GRANT SELECT ON TABLE pombo.delivery TO pombo_reader;
GRANT SELECT ON TABLE pombo.email_due TO pombo_app;
GRANT SELECT ON TABLE pombo.email_logs TO pombo_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.expiry TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.flow TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.idempotency TO pombo_engine;
GRANT SELECT ON TABLE pombo.idempotency TO pombo_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.meta TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.node TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.office TO pombo_engine;
GRANT USAGE ON SEQUENCE pombo.ordered_turn_seq TO pombo_engine;
GRANT USAGE ON SEQUENCE pombo.queue_id_seq TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.receipt TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.slot TO pombo_engine;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.tally TO pombo_engine;
GRANT SELECT ON TABLE pombo.tally TO pombo_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pombo.template TO pombo_engine;
GRANT SELECT ON TABLE pombo.template TO pombo_reader;
