//! The SQL surface, as applications and their operators use it.

use std::collections::HashSet;
use std::sync::Arc;

use pombo_kernel::breaker::Sign;
use pombo_kernel::classify::Rules;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Idempotency, Json};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Overrides, Policy, Profile};
use pombo_kernel::setup::{Care, ChannelSetup, Destination};
use pombo_kernel::time::{Span, Time};
use pombo_store::core::Core;
use pombo_store::dead::{Act, Ruled, Ruling};
use pombo_store::postgres::inbox::{Judged, Request, Waiting};
use pombo_store::{Claimed, Settlement};
use pombo_testbed::{Database, psql};

use crate::node::Node;
use crate::world::{End, draft, migrated, queue, settlement};

const PENDING: &str = "
SELECT 
    template_type,
    COUNT(*) as pending_count,
    AVG(retries) as avg_retries
FROM email_queue 
WHERE status = 'pending'
GROUP BY template_type;";

const FAILURE_RATE: &str = "
SELECT 
    template_type,
    COUNT(*) as total,
    COUNT(CASE WHEN status = 'failed' THEN 1 END) as failed,
    ROUND(COUNT(CASE WHEN status = 'failed' THEN 1 END) * 100.0 / COUNT(*), 2) as failure_rate
FROM email_queue 
WHERE created_at >= NOW() - INTERVAL '7 days'
GROUP BY template_type
ORDER BY failure_rate DESC;";

const NEEDED_A_RETRY: &str = "
SELECT 
    id,
    template_type,
    recipient_email,
    retries,
    error_message,
    created_at,
    last_attempt_at
FROM email_queue 
WHERE retries > 0 
  AND created_at >= NOW() - INTERVAL '24 hours'
ORDER BY retries DESC, created_at DESC;";

const RECOVERY: &str = "
SELECT 
    retries,
    COUNT(*) as count,
    COUNT(CASE WHEN status = 'sent' THEN 1 END) as eventually_sent,
    ROUND(COUNT(CASE WHEN status = 'sent' THEN 1 END) * 100.0 / COUNT(*), 2) as recovery_rate
FROM email_queue 
WHERE retries > 0
GROUP BY retries
ORDER BY retries;";

const STATES: &str = "
SELECT 
    status,
    COUNT(*) as count,
    MIN(created_at) as oldest,
    MAX(created_at) as newest
FROM email_queue 
GROUP BY status;";

const WAITING: &str = "
-- Verificar emails pendentes
SELECT * FROM email_queue WHERE status = 'pending';";

const PROCESS: &str = "
-- Executar processamento manual
SELECT * FROM process_pending_emails_for_retry(10);";

const COMMON_ERRORS: &str = "
-- Analisar erros mais comuns
SELECT error_message, COUNT(*) 
FROM email_queue 
WHERE status = 'failed' 
GROUP BY error_message 
ORDER BY COUNT(*) DESC;";

pub(crate) const USER: &str = "6f1a0f5e-9d2b-4c1e-8a77-0123456789ab";

pub(crate) fn outlet(name: &str, kind: ChannelKind, tenant: &str) -> Arc<ChannelSetup> {
    Arc::new(ChannelSetup {
        name: name.parse().unwrap(),
        kind,
        tenant: tenant.parse().unwrap(),
        policy: Policy::built_in("resend", Profile::Production).unwrap(),
        rules: Rules::for_kind(kind, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination: Destination::Fixed("somewhere".into()),
        attempt_timeout: Span::from_secs(30),
        unready: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care::default(),
        receipts: None,
    })
}

/// A node, an application's role, and the channels `mail` and `hook`, and another tenant's `post`.
pub(crate) struct House {
    pub(crate) database: Database,
    pub(crate) node: Node,
    role: String,
}

impl House {
    pub(crate) fn new() -> House {
        let database = migrated();
        let mut node = Node::on(&database, 1);
        let channels = [
            outlet("mail", ChannelKind::Resend, "default"),
            outlet("hook", ChannelKind::Webhook, "default"),
            outlet("post", ChannelKind::Smtp, "acme"),
        ];
        node.group(|core, _| core.declare(&channels));
        let role = format!("shop_{}", database.ask("SELECT current_database()"));
        database.ask(&format!("CREATE ROLE {role} LOGIN IN ROLE pombo_app"));
        node.now = now(&database);
        House { database, node, role }
    }

    /// What the application gets for that, with the schema in its path.
    pub(crate) fn app(&self, sql: &str) -> String {
        self.try_app(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub(crate) fn try_app(&self, sql: &str) -> Result<String, String> {
        let url = self.database.url().replacen("postgres@", &format!("{}@", self.role), 1);
        psql(&url, &format!("SET search_path = public, pombo; {sql}")).map(|said| said.trim_end().to_owned())
    }

    pub(crate) fn refused(&self, sql: &str) -> String {
        self.try_app(sql).expect_err(sql)
    }

    pub(crate) fn role(&self) -> &str {
        &self.role
    }

    pub(crate) fn accept(&mut self, template: &str) -> MessageId {
        self.node.accept(&[mail(template)])[0]
    }

    /// Accepts one and has it end so, attempt after attempt.
    fn played(&mut self, template: &str, ends: &[End]) -> MessageId {
        let id = self.accept(template);
        for end in ends {
            let claimed = self.node.claim(1).pop().unwrap();
            assert_eq!(claimed.message.id, id);
            self.node.settle(&claimed, *end);
            self.node.now = self.node.now + Span::from_secs(1);
        }
        id
    }

    pub(crate) fn waiting(&mut self) -> Waiting {
        self.node.core.reader().unwrap().inbox(100).unwrap()
    }

    /// Makes messages of everything that waits, as a node does whose configuration likes all of it.
    pub(crate) fn admit(&mut self) -> usize {
        let judged: Vec<Judged> =
            self.waiting().requests.into_iter().map(|it| (it.clone(), Ok(plain(&it)))).collect();
        self.node.group(|core, now| core.admit(&judged, now))
    }

    /// Carries out what waits, each as a failure with another attempt a minute later.
    fn mark(&mut self) -> usize {
        let failures = self.waiting().failures;
        self.node.group(|core, now| {
            core.mark_failed(
                &failures,
                &mut |failure, claimed, now| marked(claimed, &failure.words, now),
                now,
            )
        })
    }

    fn status(&self, id: MessageId) -> String {
        self.app(&format!("SELECT status, retries FROM email_queue WHERE id = '{}'", id.uuid()))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = psql(self.database.url(), &format!("DROP OWNED BY {0}; DROP ROLE {0}", self.role));
    }
}

/// The database's own time, by which the seed's queries look back.
fn now(database: &Database) -> Time {
    let millis = database.ask("SELECT (extract(epoch FROM now()) * 1000)::bigint");
    Time::from_millis(millis.parse().unwrap())
}

fn mail(template: &str) -> Draft {
    let body = Body {
        to: "ana@example.com".into(),
        kind: Some(template.into()),
        template: Some(template.into()),
        payload: Some(Json::from_text(r#"{"user_data":{"full_name":"Ana"}}"#.into()).unwrap()),
        user_id: Some(USER.into()),
        ..Body::default()
    };
    Draft { queue: queue("mail", "somewhere"), body, ..draft() }
}

/// The draft that a node would make of a request.
pub(crate) fn plain(request: &Request) -> Draft {
    let json: serde_json::Value = serde_json::from_str(&request.json).unwrap();
    let text = |field: &str| json[field].as_str().map(str::to_owned);
    let idempotency =
        text("idempotency_key").map(|key| Idempotency { key, fingerprint: request.fingerprint });
    let mut draft = mail(&text("template").unwrap());
    draft.queue.tenant = request.tenant.clone();
    draft.body.to = text("to").unwrap();
    Draft { idempotency, ..draft }
}

fn marked(claimed: &Claimed, words: &str, now: Time) -> Settlement {
    let mut settlement = settlement(claimed, End::Retry(Span::from_mins(1)), now);
    let failure = settlement.attempt.failure.as_mut().unwrap();
    (failure.code, failure.text) = (None, words.to_owned());
    assert_eq!(settlement.vitals.sign, Sign::None);
    settlement
}

pub(crate) fn id(uuid: &str) -> MessageId {
    uuid.parse().unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn sql_writes_and_reads_ids_as_we_do() {
    let house = House::new();
    let keys = [0, 1, (1 << 21) - 1, 123_456_789_012_345_678, (1 << 62) - 1, 455_010_786_694_119_424];
    for key in keys {
        for nonce in [0, 1, (1 << 53) - 1, 4_503_599_627_370_497] {
            let id = MessageId::new(MessageKey(key), nonce);
            let uuid = id.uuid();
            let said = house.app(&format!(
                "SELECT message_uuid({key}, {nonce}), message_key('{uuid}'), message_nonce('{uuid}'),
                 (extract(epoch FROM message_time({key})) * 1000)::bigint"
            ));
            assert_eq!(said, format!("{uuid}|{key}|{nonce}|{}", id.key().time().millis()));
        }
    }
    for stranger in ["3f2504e0-4f89-41d3-9a0c-0305e82c3301", "00000000-0000-7000-8000-000000000000"] {
        assert_eq!(house.app(&format!("SELECT message_key('{stranger}') IS NULL")), "t");
    }
}

#[test] // REQ OB-5
fn the_monitoring_queries_run_as_they_stand_and_count_right() {
    let mut house = House::new();
    let today = house.node.now;
    // Ten days ago: beyond the week and the day that two of the queries look at.
    house.node.now = today - Span::from_hours(240);
    house.played("welcome_user", &[End::Sent]);
    house.played("welcome_user", &[End::Retry(Span::ZERO), End::Sent]);
    house.node.now = today - Span::from_mins(10);
    let first = house.node.now;
    house.played("welcome_user", &[End::Sent]);
    let recovered =
        house.played("welcome_user", &[End::Retry(Span::ZERO), End::Retry(Span::ZERO), End::Sent]);
    let dead = house.played("signup_confirmation", &[End::Failed(FailureReason::PermanentError)]);
    let spent = [End::Retry(Span::ZERO), End::Retry(Span::ZERO), End::Retry(Span::ZERO)];
    let spent = [&spent[..], &[End::Failed(FailureReason::MaxRetriesExceeded)]].concat();
    let spent = house.played("signup_confirmation", &spent);
    let cancelled = house.accept("welcome_user");
    house.node.cancel(cancelled);
    let expired = Draft { expires_at: Some(house.node.now), ..mail("signup_confirmation") };
    let expired = house.node.accept(&[expired])[0];
    assert_eq!(house.node.expire(10), 1);
    let retrying = house.played("welcome_user", &[End::Retry(Span::from_hours(1))]);
    // One is being sent, one waits for its day, two wait in order; what is not mail, or not ours, is not here.
    let sending = house.accept("reset");
    assert_eq!(house.node.claim(1)[0].message.id, sending);
    let scheduled = Draft { send_at: Some(today + Span::from_hours(5)), ..mail("reset") };
    let scheduled = house.node.accept(&[scheduled])[0];
    let order = |template| Draft {
        ordering_key: Some("o".into()),
        send_at: Some(today + Span::from_hours(1)),
        ..mail(template)
    };
    house.node.accept(&[order("reset"), order("reset")]);
    house.node.accept(&[Draft { queue: queue("hook", "x"), ..mail("reset") }]);
    let mut foreign = mail("reset");
    (foreign.queue.tenant, foreign.queue.channel) = ("acme".parse().unwrap(), "post".parse().unwrap());
    house.node.accept(&[foreign]);
    // By SQL: one that no node has seen, one that none could take.
    let unseen =
        id(&house.app(&format!("SELECT enqueue_email('{USER}', 'digest', 'ana@example.com', '{{}}')")));
    let unfit =
        id(&house.app(&format!("SELECT enqueue_email('{USER}', 'no_such', 'ana@example.com', '{{}}')")));
    let judged: Vec<Judged> = (house.waiting().requests.into_iter())
        .filter(|request| request.id == unfit)
        .map(|request| (request, Err("template there is no template `no_such`".to_owned())))
        .collect();
    assert_eq!(house.node.group(|core, now| core.admit(&judged, now)), 1);

    assert_eq!(
        sorted(&house.app(PENDING)),
        [
            "digest|1|0.00000000000000000000",
            "reset|4|0.00000000000000000000",
            "welcome_user|1|1.00000000000000000000"
        ]
    );
    assert_eq!(
        sorted(&house.app(FAILURE_RATE)),
        [
            "digest|1|0|0.00",
            "no_such|1|1|100.00",
            "reset|4|0|0.00",
            "signup_confirmation|3|3|100.00",
            "welcome_user|4|0|0.00"
        ]
    );
    let retried = house.app(NEEDED_A_RETRY);
    let rows: Vec<Vec<&str>> = retried.lines().map(|row| row.split('|').collect()).collect();
    assert_eq!(
        rows.iter().map(|row| (row[0], row[1], row[2], row[3], row[4])).collect::<Vec<_>>(),
        [
            (spent.uuid().as_str(), "signup_confirmation", "ana@example.com", "3", "503 come back later"),
            (recovered.uuid().as_str(), "welcome_user", "ana@example.com", "2", "503 come back later"),
            (retrying.uuid().as_str(), "welcome_user", "ana@example.com", "1", "503 come back later"),
        ]
    );
    assert!(rows.iter().all(|row| row[5] < row[6] || row[3] == "1"), "{retried}");
    assert_eq!(house.app(RECOVERY), "1|2|1|50.00\n2|1|1|100.00\n3|1|0|0.00");
    let states = house.app(STATES);
    let counts: HashSet<(&str, &str)> = states
        .lines()
        .map(|row| row.split_once('|').unwrap())
        .map(|(a, b)| (a, b.split('|').next().unwrap()))
        .collect();
    assert_eq!(counts, [("pending", "6"), ("sent", "4"), ("failed", "4"), ("cancelled", "1")].into());
    let oldest =
        house.app("SELECT min(created_at) FROM email_queue WHERE created_at > now() - interval '1 hour'");
    assert_eq!(
        house.app(&format!("SELECT (extract(epoch FROM '{oldest}'::timestamptz) * 1000)::bigint")),
        first.millis().to_string()
    );
    assert_eq!(house.app(WAITING).lines().count(), 6);
    assert_eq!(
        sorted(&house.app(COMMON_ERRORS)),
        ["503 come back later|2", "template there is no template `no_such`|1", "|1"]
    );

    for (one, status) in [
        (dead, "failed|0"),
        (spent, "failed|3"),
        (expired, "failed|0"),
        (cancelled, "cancelled|0"),
        (recovered, "sent|2"),
        (retrying, "pending|1"),
        (sending, "pending|0"),
        (scheduled, "pending|0"),
        (unseen, "pending|0"),
        (unfit, "failed|0"),
    ] {
        assert_eq!(house.status(one), status, "{one}");
    }
    let due = house.app(PROCESS);
    assert_eq!(due.lines().map(|row| row.split('|').next().unwrap()).collect::<Vec<_>>(), [unseen.uuid()]);
}

#[test] // REQ OB-5
fn a_row_says_what_the_message_says() {
    let mut house = House::new();
    let retry = Some(Overrides { attempts: Some(2), ..Overrides::default() });
    let mut own = mail("welcome_user");
    own.body.retry = retry;
    let own = house.node.accept(&[own])[0];
    let said = |id: MessageId, columns: &str| {
        house.app(&format!("SELECT {columns} FROM email_queue WHERE id = '{}'", id.uuid()))
    };
    assert_eq!(
        said(own, "user_id, recipient_email, payload, max_retries"),
        format!(r#"{USER}|ana@example.com|{{"user_data": {{"full_name": "Ana"}}}}|1"#)
    );
    assert_eq!(
        said(
            own,
            "last_attempt_at, error_message, resend_id, next_retry_at = created_at, updated_at = created_at"
        ),
        "|||t|t"
    );
    let mut house = House::new();
    let id = house.played("welcome_user", &[End::Retry(Span::from_millis(500)), End::Sent]);
    let said =
        |columns: &str| house.app(&format!("SELECT {columns} FROM email_queue WHERE id = '{}'", id.uuid()));
    assert_eq!(
        said("max_retries, resend_id, next_retry_at IS NULL, last_attempt_at = updated_at"),
        "3|re_1|t|t"
    );
    assert_eq!(
        house.app("SELECT queue_id, user_id, template_type, recipient_email, status, error_message, resend_id, attempt
            FROM email_logs ORDER BY created_at"),
        format!("{0}|{USER}|welcome_user|ana@example.com|failed|503 come back later||1\n{0}|{USER}|welcome_user|ana@example.com|sent||re_1|2", id.uuid())
    );
    assert_eq!(house.app("SELECT count(DISTINCT id) FROM email_logs"), "2");
}

#[test] // REQ OB-5
fn marking_an_email_as_failed_counts_as_an_attempt_that_failed() {
    let mut house = House::new();
    let one = house.accept("welcome_user");
    let mark = |id: MessageId| {
        format!("SELECT mark_email_failed(\n  '{}'::uuid,\n  'Teste de retry'\n);", id.uuid())
    };
    house.app(&mark(one));
    assert_eq!(house.status(one), "pending|0", "until a node has seen to it");
    assert_eq!(house.mark(), 1);
    assert_eq!(house.status(one), "pending|1");
    let said = house.app("SELECT error_message, next_retry_at - last_attempt_at FROM email_queue");
    assert_eq!(said, "Teste de retry|00:01:00");
    assert!(house.node.claim(10).is_empty(), "it waits for its next attempt");
    house.node.now = house.node.now + Span::from_mins(1);
    let claimed = house.node.claim(10).pop().unwrap();
    assert_eq!((claimed.message.id, claimed.progress.attempts), (one, 1));
    // What is being sent is let be until it is back.
    house.app(&mark(one));
    assert_eq!(house.mark(), 0);
    house.node.settle(&claimed, End::Retry(Span::from_mins(5)));
    assert_eq!(house.mark(), 1);
    assert_eq!(house.status(one), "pending|3");
    assert_eq!(house.app("SELECT count(*) FROM email_logs"), "3");
    // What was enqueued a moment ago has first to become a message.
    let fresh =
        id(&house.app(&format!("SELECT enqueue_email('{USER}', 'reset', 'ana@example.com', '{{}}')")));
    house.app(&mark(fresh));
    assert_eq!(house.mark(), 0);
    assert_eq!(house.admit(), 1);
    assert_eq!(house.mark(), 1);
    assert_eq!(house.status(fresh), "pending|1");
    // And what has ended has ended.
    let dead = house.played("reset", &[End::Failed(FailureReason::PermanentError)]);
    house.app(&mark(dead));
    assert_eq!(house.waiting().failures, []);
    let sent = house.played("reset", &[End::Sent]);
    let error = house.refused(&mark(sent));
    assert!(error.contains("is sent") && error.contains("only one that is pending"), "{error}");
    let error = house.refused(&mark(id("0190a000-0000-7000-8000-000000000000")));
    assert!(error.contains("there is no e-mail"), "{error}");
}

#[test] // REQ OB-5, DL-4, DL-5
fn a_dead_letter_reads_as_what_was_decided_about_it() {
    let mut house = House::new();
    let spent = [End::Retry(Span::ZERO), End::Failed(FailureReason::MaxRetriesExceeded)];
    let [again, over] = [house.played("reset", &spent), house.played("reset", &spent)];
    assert_eq!((house.status(again), house.status(over)), ("failed|1".into(), "failed|1".into()));
    let mut ruled = |id: MessageId, act: Act| {
        let (tenant, by) = (Tenant::default(), Actor("ana".into()));
        let ruling = Ruling { tenant, ids: vec![id], act, by, note: Some("x".into()), with: None };
        assert_eq!(house.node.group(|core, now| core.rule(&ruling, now)), Ok(vec![Ruled::Done]));
    };
    ruled(again, Act::Reprocess);
    ruled(over, Act::Discard);
    assert_eq!((house.status(again), house.status(over)), ("pending|0".into(), "failed|1".into()));
    let why = |id: MessageId| {
        house.app(&format!("SELECT error_message FROM email_queue WHERE id = '{}'", id.uuid()))
    };
    assert_eq!((why(again), why(over)), ("503 come back later".to_owned(), "503 come back later".to_owned()));
    let claimed = house.node.claim(10).pop().unwrap();
    house.node.settle(&claimed, End::Retry(Span::ZERO));
    assert_eq!(house.status(again), "pending|1", "of its new round");
    house.node.now = house.node.now + Span::from_secs(1);
    let claimed = house.node.claim(10).pop().unwrap();
    house.node.settle(&claimed, End::Failed(FailureReason::MaxRetriesExceeded));
    assert_eq!(house.status(again), "failed|1");
    let attempts = |id: MessageId| {
        house.app(&format!("SELECT count(*), max(attempt) FROM email_logs WHERE queue_id = '{}'", id.uuid()))
    };
    assert_eq!((attempts(again), attempts(over)), ("4|2".to_owned(), "2|2".to_owned()));
    assert_eq!(house.app("SELECT count(*), count(DISTINCT id) FROM email_queue"), "2|2");
}

#[test]
fn two_nodes_carry_out_a_command_once() {
    let mut house = House::new();
    let mut other = Node::on(&house.database, 2);
    other.now = house.node.now;
    let one = house.accept("welcome_user");
    house.app(&format!("SELECT mark_email_failed('{}', 'x')", one.uuid()));
    let failures = house.waiting().failures;
    let carried = [&mut house.node, &mut other].map(|node| {
        node.group(|core, now| {
            core.mark_failed(&failures, &mut |it, claimed, now| marked(claimed, &it.words, now), now)
        })
    });
    assert_eq!(carried, [1, 0]);
    assert_eq!(house.status(one), "pending|1");
}

#[test] // REQ OB-5
fn what_is_due_is_shown_first_come_first() {
    let mut house = House::new();
    house.node.now = house.node.now - Span::from_hours(1);
    let mut ids: Vec<MessageId> = Vec::new();
    for _ in 0..12 {
        ids.push(house.accept("reset"));
        house.node.now = house.node.now + Span::from_millis(10);
    }
    // Those that were tried before are as due as the others.
    let tried = house.node.claim(4);
    house.node.settle_all(&tried, End::Retry(Span::ZERO));
    let now = house.node.now;
    house.node.accept(&[Draft { send_at: Some(now + Span::from_hours(2)), ..mail("reset") }]);
    let due = |batch: &str| -> Vec<MessageId> {
        house
            .app(&format!("SELECT id FROM process_pending_emails_for_retry({batch})"))
            .lines()
            .map(id)
            .collect()
    };
    let seen: HashSet<MessageId> = due("100").into_iter().collect();
    assert_eq!(seen, ids.iter().copied().collect());
    assert_eq!(due("").len(), 10);
    assert_eq!(due("3").len(), 3);
    assert!(house.refused("SELECT process_pending_emails_for_retry(0)").contains("is not from 1 to 1000"));
}

#[test] // REQ SE-2
fn nothing_in_a_message_can_break_a_query() {
    let mut house = House::new();
    let payloads = [
        r#"{"a":"\u0000"}"#,
        r#"{"a":"x\\\u0000\u0000y","b":"\\u0000"}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\udc00\ud83d\ude00\ud83d"}"#,
        r#"{"\u0000":1e400}"#,
        r#"{"a":1e999999}"#,
    ];
    for payload in payloads {
        let mut draft = mail("welcome_user");
        draft.body.payload = Some(Json::from_text(payload.into()).unwrap());
        draft.body.user_id = Some("not a uuid \u{0}".into());
        house.node.accept(&[draft]);
    }
    house.node.accept(&[mail("a\u{1}\u{0}b")]);
    let claimed = house.node.claim(1).pop().unwrap();
    let mut settlement = settlement(&claimed, End::Retry(Span::from_hours(1)), house.node.now);
    settlement.attempt.failure.as_mut().unwrap().text = "nul \u{0} and \u{1}".into();
    house.node.group(|core, now| core.settle_all(std::slice::from_ref(&settlement), now));
    // Whatever else may be there one day.
    for body in ["\\xff00", "\\x", "\\x5b5d", "\\x22"] {
        let id = house.node.accept(&[mail("reset")])[0];
        house.database.ask(&format!("UPDATE pombo.message SET body = '{body}' WHERE key = {}", id.key().0));
    }
    let shown = house.app("SELECT payload FROM email_queue ORDER BY created_at, id");
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(shown[0], "{\"a\": \"\u{fffd}\"}");
    assert_eq!(shown[1], "{\"a\": \"x\\\\\u{fffd}\u{fffd}y\", \"b\": \"\\\\u0000\"}");
    assert_eq!(shown[2], "{\"a\": \"\u{fffd}\"}");
    assert_eq!(shown[3], "{\"a\": \"\u{fffd}😀\u{fffd}\"}");
    assert!(shown[4].starts_with("{\"\u{fffd}\": 1000"), "{}", shown[4]);
    assert_eq!(shown[5], "", "no jsonb at all");
    assert_eq!(
        house.app("SELECT count(*), count(recipient_email) FROM (SELECT * FROM email_queue) e"),
        "11|7"
    );
    assert_eq!(house.app("SELECT error_message FROM email_logs"), "503 nul \u{fffd} and \u{1}");
    for query in [PENDING, FAILURE_RATE, NEEDED_A_RETRY, RECOVERY, STATES, WAITING, PROCESS, COMMON_ERRORS] {
        house.app(query);
    }
}

#[test]
fn bounds_reach_an_index_and_what_waits_is_found_without_what_has_ended() {
    let mut house = House::new();
    house.played("reset", &[End::Sent]);
    let plan = |query: &str| {
        house.app(&format!(
            "SET enable_seqscan = off; EXPLAIN (COSTS OFF) SELECT count(*) FROM email_queue WHERE {query}"
        ))
    };
    for bounded in ["created_at >= NOW() - INTERVAL '7 days'", "id = '01a1e296-1aae-7fe0-8000-f0f7fb94d5b1'"]
    {
        let plan = plan(bounded);
        assert!(plan.contains("Bitmap Index Scan") && plan.contains("message_time"), "{bounded}: {plan}");
    }
    let pending = plan("status = 'pending'");
    assert!(!pending.contains("outcome"), "{pending}");
    let failed = plan("status = 'failed'");
    assert!(!failed.contains("outcome"), "{failed}");
}
