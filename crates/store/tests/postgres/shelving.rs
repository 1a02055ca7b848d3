//! Several nodes at the same documents: each change is made once, by one of them.

use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_store::audit::Event;
use pombo_store::core::{Core, Reading};
use pombo_store::shelf::{Expect, Leaf, Pick, Shelf, Shelve, Shelved, Wanted};
use pombo_store::transition;

use crate::node::{Node, together};
use crate::world::{START, migrated};

fn wish(id: &str, expect: Expect, body: Option<String>) -> Shelve {
    let tenant = Tenant::default();
    let record = transition::act_of(
        Event::OperationStarted,
        &tenant,
        &Actor("ana".into()),
        &serde_json::json!({}),
        START,
    );
    let leaf = body.map(|body| Leaf { order: 0, topic: None, due: None, body });
    Shelve { shelf: Shelf::Operation, tenant, id: id.into(), expect, leaf, record: Some(record) }
}

fn shelve(node: &mut Node, wishes: &[Shelve]) -> Vec<Shelved> {
    node.group(|core, now| wishes.iter().map(|wish| core.shelve(wish, now)).collect())
}

fn is_done(answer: &Shelved) -> bool {
    matches!(answer, Shelved::Done { .. })
}

fn body(node: &Node, id: &str) -> Option<String> {
    let doc = node.reader().doc(Shelf::Operation, &Tenant::default(), id).unwrap();
    doc.map(|doc| doc.leaf.body)
}

/// How many changes are on record.
fn changes(node: &Node) -> u32 {
    u32::try_from(node.reader().audit(0, 1_000).unwrap().len()).unwrap()
}

#[test]
fn of_nodes_that_put_the_same_document_at_once_one_does_and_the_others_see_it() {
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    for round in 0..20 {
        let id = format!("doc-{round}");
        let answers =
            together(&mut nodes, |n, node| shelve(node, &[wish(&id, Expect::Nothing, Some(n.to_string()))]));
        let answers: Vec<Shelved> = answers.into_iter().flatten().collect();
        let kept = body(&nodes[0], &id);
        for (n, answer) in answers.iter().enumerate() {
            match answer {
                Shelved::Done { version } => assert_eq!((*version, Some(n.to_string())), (1, kept.clone())),
                Shelved::Conflict(found) => {
                    assert_eq!(found.as_ref().map(|doc| &doc.leaf.body), kept.as_ref());
                }
            }
        }
        assert_eq!(answers.iter().filter(|answer| is_done(answer)).count(), 1, "{answers:?}");
    }
    assert_eq!(changes(&nodes[0]), 20, "one record for each change that was made");
}

#[test]
fn nothing_that_a_node_adds_is_lost_to_another() {
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=4).map(|n| Node::on(&database, n)).collect();
    shelve(&mut nodes[0], &[wish("count", Expect::Nothing, Some("0".into()))]);
    const EACH: u32 = 25;
    let refused: Vec<u32> = together(&mut nodes, |_, node| {
        let mut refused = 0;
        let mut added = 0;
        while added < EACH {
            let doc = node.reader().doc(Shelf::Operation, &Tenant::default(), "count").unwrap().unwrap();
            let count: u32 = doc.leaf.body.parse().unwrap();
            let one_more = wish("count", Expect::Version(doc.version), Some((count + 1).to_string()));
            match is_done(&shelve(node, &[one_more])[0]) {
                true => added += 1,
                false => refused += 1,
            }
        }
        refused
    });
    assert_eq!(body(&nodes[0], "count"), Some((4 * EACH).to_string()), "{refused:?} were told of another");
    let doc = nodes[0].reader().doc(Shelf::Operation, &Tenant::default(), "count").unwrap().unwrap();
    assert_eq!(doc.version, 1 + 4 * EACH);
    assert_eq!(changes(&nodes[0]), 1 + 4 * EACH);
}

#[test] // fault 21
fn groups_that_have_the_same_documents_the_other_way_round_both_come_to_their_end() {
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=2).map(|n| Node::on(&database, n)).collect();
    for _ in 0..3 {
        together(&mut nodes, |n, node| {
            let mut ids = ["a", "b", "c", "d", "e", "f"];
            if n == 1 {
                ids.reverse();
            }
            let wishes = ids.map(|id| wish(id, Expect::Any, Some(n.to_string())));
            assert!(shelve(node, &wishes).iter().all(is_done));
        });
        let wanted =
            Wanted { shelf: Shelf::Operation, tenant: None, pick: Pick::All { after: None }, limit: 10 };
        let docs = nodes[0].reader().docs(&wanted).unwrap();
        let bodies: Vec<&str> = docs.iter().map(|doc| doc.leaf.body.as_str()).collect();
        assert!(bodies == ["0"; 6] || bodies == ["1"; 6], "one group after the other: {bodies:?}");
    }
    assert_eq!(changes(&nodes[0]), 3 * 2 * 6, "a group that began again left nothing of its first try");
}

#[test]
fn a_document_comes_and_goes_under_many_hands_and_every_answer_is_true_of_some_moment() {
    let database = migrated();
    let mut nodes: Vec<Node> = (1..=3).map(|n| Node::on(&database, n)).collect();
    let made: Vec<(u32, u32)> = together(&mut nodes, |n, node| {
        let (mut put, mut removed) = (0, 0);
        for round in 0..40 {
            if (round + n) % 2 == 0 {
                let answer = &shelve(node, &[wish("a", Expect::Nothing, Some("1".into()))])[0];
                match answer {
                    Shelved::Done { version } => {
                        assert_eq!(*version, 1);
                        put += 1;
                    }
                    Shelved::Conflict(found) => {
                        assert!(found.is_some(), "nothing was expected, and nothing is there");
                    }
                }
            } else {
                let answer = &shelve(node, &[wish("a", Expect::Version(1), None)])[0];
                match answer {
                    Shelved::Done { version } => {
                        assert_eq!(*version, 1);
                        removed += 1;
                    }
                    Shelved::Conflict(found) => assert_eq!(*found, None),
                }
            }
        }
        (put, removed)
    });
    let put: u32 = made.iter().map(|(put, _)| put).sum();
    let removed: u32 = made.iter().map(|(_, removed)| removed).sum();
    assert!(put > 0);
    assert_eq!(put - removed, u32::from(body(&nodes[0], "a").is_some()));
    assert_eq!(changes(&nodes[0]), put + removed);
}

macro_rules! statement {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/", $name, ".sql"))
    };
}

#[test]
fn lists_are_read_by_their_indexes_also_under_row_level_security() {
    let database = migrated();
    database.ask(
        "INSERT INTO pombo.doc (shelf, tenant, id, version, rank, due, updated_at, topic, body)
         SELECT 3, CASE WHEN n % 10 = 0 THEN 'acme' ELSE 'default' END, n, 1, n / 7, n / 5, 0, 't' || n % 50, '{}'
         FROM generate_series(1, 50000) AS n; ANALYZE pombo.doc",
    );
    for (sql, types, values, index, condition) in [
        (
            statement!("doc_page"),
            "smallint, text, bigint, text, bigint",
            "3, 'default', 900, '9', 50",
            "doc_by_rank",
            "(ROW(rank, id) < ROW($3, $4))",
        ),
        (
            statement!("doc_topic"),
            "smallint, text, text, bigint, text, bigint",
            "3, 'default', 't7', 900, '9', 50",
            "doc_by_topic",
            "(topic_hash = hashtextextended($3, '0'::bigint))",
        ),
        (
            statement!("doc_due"),
            "smallint, text, bigint, bigint, bigint, text, bigint",
            "3, 'default', 100, 900, 100, '9', 50",
            "doc_by_due",
            "(due >= $3)",
        ),
        (statement!("doc_get"), "smallint, text, text", "3, 'default', '9'", "doc_pkey", "(id = $3)"),
    ] {
        let plan = database.ask(&format!(
            "SET search_path = pombo; SET plan_cache_mode = force_generic_plan; SET ROLE pombo_reader;
             SET pombo.tenant = 'default'; PREPARE asked ({types}) AS {sql}; EXPLAIN (COSTS OFF) EXECUTE asked ({values})"
        ));
        let conditions = plan.lines().find(|line| line.contains("Index Cond")).unwrap_or_default();
        assert!(plan.contains(index) && conditions.contains(condition), "{plan}");
        assert!(!plan.contains("Seq Scan") && !plan.contains("  Sort\n"), "{plan}");
    }
}
