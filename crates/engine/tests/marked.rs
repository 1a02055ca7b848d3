//! A message that somebody says has failed.

#![allow(clippy::unwrap_used)] // All of it is test code, and a panic is how a test says no.

use std::sync::Arc;

use pombo_engine::decide::marked_failed;
use pombo_kernel::block::BlockChange;
use pombo_kernel::breaker::Sign;
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::{Next, OnUnknownOutcome};
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Priority, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::setup::{Care, ChannelSetup, Destination};
use pombo_kernel::time::{Span, Time};
use pombo_store::core::Core;
use pombo_store::memory::Memory;
use pombo_store::{Ask, NodeId};

#[test] // REQ OB-5, RP-3
fn it_goes_the_way_of_an_attempt_that_failed_and_blames_nobody() {
    let channel = ChannelSetup {
        name: "email".parse().unwrap(),
        kind: ChannelKind::Resend,
        tenant: Tenant::default(),
        policy: Policy::built_in("resend", Profile::Production).unwrap(),
        rules: Rules::for_kind(ChannelKind::Resend, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination: Destination::Fixed("account".into()),
        attempt_timeout: Span::from_secs(30),
        unready: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care::default(),
        receipts: None,
    };
    let mut store = Memory::new(Dice::seeded(1));
    let mut now = Time::from_millis(1_800_000_000_000);
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: Default::default(),
        channel: channel.name.clone(),
        destination: "account".into(),
        campaign: None,
    };
    let draft = Draft {
        id: None,
        queue,
        priority: Priority::default(),
        send_at: None,
        expires_at: None,
        ordering_key: None,
        idempotency: None,
        body: Body { to: "ana@example.com".into(), ..Body::default() },
        blobs: Vec::new(),
    };
    store.accept(draft, now).unwrap().unwrap();
    let ask = Ask { node: NodeId(1), lane: Default::default(), max: 1, rates: Arc::default() };
    let by = Actor("shop".into());
    // Words that would hold the whole channel if the provider had said them.
    let words = "401 the API key is invalid, says ana@example.com";
    for wait in [Some(Span::from_mins(1)), Some(Span::from_mins(5)), Some(Span::from_mins(15)), None] {
        let claimed = store.claim(&ask, now).unwrap().remove(0);
        let settled = marked_failed(&claimed, Some(&channel), words, &by, now, &mut Dice::seeded(1));
        let failure = settled.attempt.failure.clone().unwrap();
        assert_eq!(failure.category, "marked_failed");
        assert!(failure.text.starts_with("401 the API key is invalid") && !failure.text.contains("ana@"));
        assert!(settled.attempt.explanation.contains("marked by shop"), "{}", settled.attempt.explanation);
        assert_eq!((&settled.block, settled.vitals.sign), (&BlockChange::Keep, Sign::None));
        match (&settled.next, wait) {
            (Next::Retry { due, .. }, Some(wait)) => {
                assert_eq!(*due, now + wait);
                now = *due;
            }
            (Next::Failed(reason), None) => assert_eq!(*reason, FailureReason::MaxRetriesExceeded),
            other => panic!("{other:?}"),
        }
        store.settle(settled, now).unwrap();
        store.commit(now, &[0; 32]).unwrap();
    }
}
