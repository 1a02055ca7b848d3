//! Accepted rules, on their way to where they decide.

use pombo_kernel::classify::{Rule, Verdict};
use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::reply::{Refusal, Reply};
use pombo_kernel::time::Time;
use pombo_store::shelf::Shelf;

use super::*;
use crate::by_hand::{configured, every_store};

const CONFIG: &str = "
    [channels.crm]
    kind = 'null'
    [[channels.crm.rules]]
    contains = 'both of us'
    verdict = 'permanent'
    category = 'configured'
    [channels.mail]
    kind = 'null'";

fn known() -> Known {
    let setups = configured(CONFIG);
    let state = State { configured: setups.borrow().clone(), accepted: Vec::new() };
    Known { state: Mutex::new(state), setups, engine: None }
}

fn category(known: &Known, channel: &str, text: &str) -> String {
    let setup = known.setups.borrow().clone();
    let reply = Reply::Refused(Refusal { text: text.to_owned(), ..Refusal::default() });
    setup.channels[channel].rules.classify(&reply).unwrap().category
}

fn rule(contains: &str, category: &str, at: i64) -> Accepted {
    let rule = Rule {
        contains: Some(pombo_kernel::classify::OneOf(vec![contains.to_owned()])),
        ..Rule::new(Verdict::Transient, category)
    };
    Accepted::new(&"crm".parse().unwrap(), rule, None, &Actor("ana".into()), Time::from_millis(at))
}

#[tokio::test] // REQ CF-1
async fn an_accepted_rule_comes_after_the_configuration_and_before_what_is_built_in() {
    for (name, store, ..) in every_store() {
        let known = known();
        known.look(&*store).await.unwrap();
        assert_eq!(category(&known, "crm", "the engine is cold"), "unknown", "{name}");
        let tenant = Tenant::default();
        store.shelve(vec![rule("engine is cold", "cold", 1).put(&tenant)]).await.unwrap();
        store.shelve(vec![rule("both of us", "later", 2).put(&tenant)]).await.unwrap();
        known.look(&*store).await.unwrap();
        assert_eq!(category(&known, "crm", "the engine is cold"), "cold");
        assert_eq!(category(&known, "crm", "both of us"), "configured");
        assert_eq!(category(&known, "mail", "the engine is cold"), "unknown", "it is for one channel");
        store.shelve(vec![rule("the engine", "newer", 3).put(&tenant)]).await.unwrap();
        known.look(&*store).await.unwrap();
        assert_eq!(category(&known, "crm", "the engine is cold"), "newer", "the newest goes first");
    }
}

#[tokio::test] // REQ CF-1
async fn a_rule_that_is_taken_back_decides_nothing_more() {
    for (name, store, ..) in every_store() {
        let (known, tenant) = (known(), Tenant::default());
        let it = rule("engine is cold", "cold", 1);
        store.shelve(vec![it.put(&tenant)]).await.unwrap();
        known.look(&*store).await.unwrap();
        let doc = store.doc(Shelf::Rule, tenant, it.id.clone()).await.unwrap().unwrap();
        store.shelve(vec![it.removed(&doc, &Actor("ana".into()), Time::from_millis(2))]).await.unwrap();
        known.look(&*store).await.unwrap();
        assert_eq!(category(&known, "crm", "the engine is cold"), "unknown", "{name}");
    }
}

#[tokio::test] // REQ CF-1
async fn a_new_configuration_keeps_what_was_accepted() {
    let (_, store, _clock, _ground) = every_store().into_iter().next().unwrap();
    let known = Arc::new(known());
    store.shelve(vec![rule("engine is cold", "cold", 1).put(&Tenant::default())]).await.unwrap();
    known.look(&*store).await.unwrap();
    let learner = Learner { known: Arc::clone(&known), looking: tokio::spawn(async {}) };
    let fresh = configured(CONFIG).borrow().clone();
    known.setups.send_replace(learner.configured(fresh));
    assert_eq!(category(&known, "crm", "the engine is cold"), "cold");
}
