//! Messages that are handed in by SQL.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;

use pombo_kernel::id::MessageId;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::StateName;
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::ChannelSetup;
use pombo_store::core::Reading;
use pombo_store::postgres::inbox::{Judged, Waiting};

use crate::node::Node;
use crate::surface::{House, USER, id, outlet, plain};

#[test] // REQ OB-5
fn what_is_rolled_back_was_never_enqueued() {
    let mut house = House::new();
    let call = format!("SELECT enqueue_email('{USER}', 'welcome_user', 'ana@example.com', '{{}}')");
    house.app(&format!("BEGIN; {call}; ROLLBACK"));
    house.app(&format!("BEGIN; SAVEPOINT s; {call}; ROLLBACK TO s; COMMIT"));
    assert_eq!(house.waiting(), Waiting::default());
    assert_eq!(house.app("SELECT count(*) FROM email_queue"), "0");
    let kept = id(&house.app(&format!("BEGIN; {call}; COMMIT")));
    assert_eq!(house.waiting().requests.iter().map(|request| request.id).collect::<Vec<_>>(), [kept]);
}

#[test] // REQ OB-5
fn a_message_gets_the_id_that_was_given_out_and_is_made_once() {
    let mut house = House::new();
    let mut other = Node::on(&house.database, 2);
    other.now = house.node.now;
    let given =
        id(&house.app(&format!("SELECT enqueue_email('{USER}', 'welcome_user', 'ana@example.com', '{{}}')")));
    let judged: Vec<Judged> =
        house.waiting().requests.into_iter().map(|it| (it.clone(), Ok(plain(&it)))).collect();
    let made = [&mut house.node, &mut other].map(|node| node.group(|core, now| core.admit(&judged, now)));
    assert_eq!(made, [1, 0]);
    assert_eq!(house.waiting(), Waiting::default());
    let story = house.node.reader().story(&Tenant::default(), given).unwrap().unwrap();
    assert_eq!((story.message.id, story.state.name()), (given, StateName::Pending));
    assert_eq!(house.app("SELECT count(*) FROM email_queue"), "1");
    assert_eq!(house.node.claim(10).len(), 1);
}

#[test]
fn ids_differ_however_many_are_given_out_at_once() {
    let house = House::new();
    let call = "SELECT enqueue('hook', 'https://example.com', content => '{}') FROM generate_series(1, 500)";
    let ids: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| house.app(call))).collect();
        threads
            .into_iter()
            .flat_map(|it| it.join().unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    });
    let distinct: HashSet<MessageId> = ids.iter().map(|uuid| id(uuid)).collect();
    assert_eq!((ids.len(), distinct.len()), (2000, 2000));
    assert!(distinct.iter().all(|id| id.key().0 >> 14 & 127 == 127), "slot 127 is SQL's");
    assert_eq!(house.database.ask("SELECT count(*) FROM pombo.inbox"), "2000");
}

#[test] // REQ ML-3
fn the_same_idempotency_key_is_the_same_message() {
    let mut house = House::new();
    let call = |template: &str| {
        format!(
            "SELECT enqueue_email('{USER}', '{template}', 'ana@example.com', '{{\"a\": 1}}', p_idempotency_key => 'order-7')"
        )
    };
    let first = house.app(&call("welcome_user"));
    assert_eq!(house.app(&call("welcome_user")), first, "before a node has seen it");
    let error = house.refused(&call("reset"));
    assert!(error.contains(&format!("which became {first}")) && error.contains("use a new key"), "{error}");
    assert_eq!(house.admit(), 1);
    assert_eq!(house.app(&call("welcome_user")), first, "after a node has made the message");
    let error = house.refused(&call("reset"));
    assert!(error.contains(&format!("which became {first}")), "{error}");
    assert_eq!(house.app("SELECT count(*) FROM email_queue"), "1");
    // Several at once, of which all but one wait for the first to commit.
    let call = format!(
        "SELECT enqueue_email('{USER}', 'reset', 'ana@example.com', '{{}}', p_idempotency_key => 'order-8')"
    );
    let ids: HashSet<String> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| house.app(&format!("BEGIN; {call}; COMMIT")))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1);
}

#[test] // REQ ML-3
fn a_repeat_finds_the_first_even_while_a_node_is_making_it() {
    let mut house = House::new();
    let call = format!(
        "SELECT enqueue_email('{USER}', 'reset', 'ana@example.com', '{{}}', p_idempotency_key => 'k')"
    );
    let first = house.app(&call);
    let print = house.waiting().requests[0].fingerprint.map(|byte| format!("{byte:02x}")).concat();
    // What a node does, kept open until somebody waits for it.
    let making = format!(
        "BEGIN; SET search_path = pombo; DELETE FROM inbox;
         INSERT INTO idempotency (digest, key, nonce, tenant, idempotency_key, fingerprint) VALUES
         (digest('default', 'k'), message_key('{first}'), message_nonce('{first}'), 'default', 'k', '\\x{print}');
         DO $$ BEGIN
           WHILE NOT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
               WHERE NOT granted AND datname = current_database()) LOOP
             PERFORM pg_sleep(0.01);
           END LOOP;
         END $$; COMMIT"
    );
    let second = thread::scope(|scope| {
        scope.spawn(|| house.database.ask(&making));
        // Until it has begun, a repeat finds the first where it is.
        scope
            .spawn(|| {
                loop {
                    let said = house.app(&call);
                    if house.database.ask("SELECT count(*) FROM pombo.idempotency") == "1" {
                        return said;
                    }
                }
            })
            .join()
            .unwrap()
    });
    assert_eq!(second, first);
    assert_eq!(house.database.ask("SELECT count(*) FROM pombo.inbox"), "0");
}

#[test]
fn a_repeat_that_slipped_through_says_so() {
    let mut house = House::new();
    let call = format!(
        "SELECT enqueue_email('{USER}', 'reset', 'ana@example.com', '{{}}', p_idempotency_key => 'k')"
    );
    let first = house.app(&call);
    let twin = house.waiting().requests.remove(0);
    house.admit();
    // As if the second had been written before anybody could know of the first.
    house.database.ask(&format!("INSERT INTO pombo.inbox (request) VALUES ('{}')", twin.json));
    let second = house.waiting().requests[0].id;
    assert_eq!(house.admit(), 1);
    let said =
        house.app(&format!("SELECT status, error_message FROM email_queue WHERE id = '{}'", second.uuid()));
    assert_eq!(said, format!("failed|the same was accepted before, as {first}"));
}

#[test]
fn what_sql_can_check_is_refused_at_once_with_what_to_do() {
    let house = House::new();
    let cases = [
        ("enqueue('hok', 'x', content => '{}')", "channel 'hok' is not configured", "there are hook, mail"),
        ("enqueue('post', 'x', content => '{}')", "channel 'post' is not configured", "there are hook, mail"),
        ("enqueue('hook', '', content => '{}')", "recipient is not 1 to 4096", "give one recipient"),
        ("enqueue('hook', 'x')", "content is missing", "give one of"),
        ("enqueue('hook', 'x', template => 't', content => '{}')", "beside a template", "give one of"),
        ("enqueue('hook', 'x', content => '{}', payload => '{}')", "payload is given without", "metadata"),
        ("enqueue('hook', 'x', content => '[]')", "content is of type array", "write {"),
        ("enqueue('hook', 'x', content => '{}', metadata => '3')", "metadata is of type number", "write {"),
        (
            "enqueue('hook', 'x', content => '{}', priority => 10)",
            "priority is not from 0 to 9",
            "9 goes first",
        ),
        (
            "enqueue('hook', 'x', content => '{}', send_at => now() - interval '1 hour')",
            "is in the past",
            "leave it out",
        ),
        ("enqueue('hook', 'x', content => '{}', send_at => 'infinity')", "is in the past", "leave it out"),
        ("enqueue('hook', 'x', content => '{}', expires_after => '0')", "expires_after is not", "48 hours"),
        ("enqueue('hook', 'x', content => '{}', reference => E'a\\nb')", "line break", "one line"),
        (
            "enqueue('hook', 'x', content => '{}', type => repeat('a', 257))",
            "type is not 1 to 256",
            "shorten",
        ),
        ("enqueue('hook', 'x', content => '{}', idempotency_key => ' a')", "idempotency_key is not", "UUID"),
        (
            "enqueue_email(NULL, 't', 'a@b.c', '{}', p_channel => 'x')",
            "channel 'x' is not configured",
            "there are",
        ),
    ];
    for (call, what, hint) in cases {
        let error = house.refused(&format!("SELECT {call}"));
        assert!(error.contains(what) && error.contains(hint), "{call}: {error}");
    }
    assert_eq!(house.database.ask("SELECT count(*) FROM pombo.inbox"), "0");
}

#[test]
fn the_channel_for_email_is_the_one_there_is() {
    let mut house = House::new();
    let call = format!("SELECT enqueue_email('{USER}', 't', 'a@b.c', '{{}}')");
    let unready = ChannelSetup {
        unready: Some("no key".into()),
        ..(*outlet("resend", ChannelKind::Resend, "default")).clone()
    };
    let channels = [outlet("mail", ChannelKind::Smtp, "default"), Arc::new(unready)];
    house.node.group(|core, _| core.declare(&channels));
    house.app(&call);
    assert_eq!(house.database.ask("SELECT request ->> 'channel' FROM pombo.inbox"), "mail");
    let channels =
        [outlet("mail", ChannelKind::Smtp, "default"), outlet("resend", ChannelKind::Resend, "default")];
    house.node.group(|core, _| core.declare(&channels));
    let error = house.refused(&call);
    assert!(error.contains("several channels") && error.contains("p_channel => 'mail'"), "{error}");
    house.node.group(|core, _| core.declare(&[]));
    let error = house.refused(&call);
    assert!(error.contains("has no channel for e-mail") && error.contains("start a node"), "{error}");
    // Its messages are still e-mails.
    house.accept("reset");
    assert_eq!(house.app("SELECT count(*) FROM email_queue WHERE template_type = 'reset'"), "1");
}

#[test]
fn every_field_of_a_message_can_be_given() {
    let mut house = House::new();
    house.app(
        "SELECT enqueue('hook', 'https://example.com', type => 'invoice', content => '{\"body\": {\"a\": null}}',
         lane => 'bulk', priority => 7, send_at => '2100-01-31 10:20:30.5+00', expires_after => '1 day 2 hours',
         reference => 'r', user_id => 'u', ordering_key => 'o', metadata => '{\"m\": 1}',
         retry => '{\"attempts\": 2}', idempotency_key => 'k')",
    );
    let request = house.waiting().requests.remove(0);
    let given: serde_json::Value = serde_json::from_str(&request.json).unwrap();
    assert_eq!(
        given,
        serde_json::json!({
            "channel": "hook", "to": "https://example.com", "type": "invoice", "content": {"body": {"a": null}},
            "lane": "bulk", "priority": 7, "send_at": "2100-01-31T10:20:30.500Z", "expires_after": "93600000ms",
            "reference": "r", "user_id": "u", "ordering_key": "o", "metadata": {"m": 1},
            "retry": {"attempts": 2}, "idempotency_key": "k",
        })
    );
}
