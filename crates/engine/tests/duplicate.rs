//! A claim whose first answer was lost, and the refusal of its repeat as the proof that it arrived.

#![allow(clippy::unwrap_used)] // All of it is test code, and a panic is how a test says no.

use std::sync::Arc;

use pombo_engine::decide::{End, settlement};
use pombo_kernel::adapt;
use pombo_kernel::classify::Rules;
use pombo_kernel::dice::Dice;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Body, Draft, FailureReason, Priority, QueueName, State};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Fault, FaultKind, Refusal, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination};
use pombo_kernel::time::{Span, Time};
use pombo_store::core::{Core, Reading};
use pombo_store::memory::Memory;
use pombo_store::{Ask, NodeId, Story};

fn claims() -> ChannelSetup {
    ChannelSetup {
        name: "claims".parse().unwrap(),
        kind: ChannelKind::Tiss,
        tenant: Tenant::default(),
        policy: Policy::built_in("claims", Profile::Production).unwrap(),
        rules: Rules::for_kind(ChannelKind::Tiss, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination: Destination::Fixed("operator".into()),
        attempt_timeout: Span::from_secs(30),
        unready: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care::default(),
        receipts: None,
    }
}

/// One message through these ends, one attempt each, and what is then known of it.
fn after(ends: impl IntoIterator<Item = End>) -> Story {
    let channel = claims();
    let mut store = Memory::new(Dice::seeded(1));
    let mut now = Time::from_millis(1_800_000_000_000);
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: Default::default(),
        channel: channel.name.clone(),
        destination: "operator".into(),
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
        body: Body { to: "operator".into(), ..Body::default() },
        blobs: Vec::new(),
    };
    let id = store.accept(draft, now).unwrap().unwrap().id;
    for end in ends {
        let ask = Ask { node: NodeId(1), lane: Default::default(), max: 1, rates: Arc::default() };
        let claimed = store.claim(&ask, now).unwrap().remove(0);
        let settlement = settlement(
            &claimed,
            Some(&channel),
            &adapt::Memory::default(),
            end,
            now,
            now,
            &mut Dice::seeded(1),
        );
        store.settle(settlement, now).unwrap();
        now = now + Span::from_hours(12);
    }
    store.commit(now, &[1; 32]).unwrap();
    store.reader().unwrap().story(&Tenant::default(), id).unwrap().unwrap()
}

fn timeout() -> End {
    End::Reply(Reply::Doubtful(Fault { kind: FaultKind::Timeout, text: "no answer within 30s".into() }))
}

fn refused_before() -> End {
    End::Reply(Reply::Unreachable(Fault {
        kind: FaultKind::ConnectionRefused,
        text: "nobody listens".into(),
    }))
}

fn glosa(code: &str) -> End {
    let text = "GUIA JA APRESENTADA".to_owned();
    End::Reply(Reply::Refused(Refusal { name: Some(code.into()), text, ..Refusal::default() }))
}

fn is_refused_for_good(story: &Story) -> bool {
    matches!(story.state, State::Failed { reason: FailureReason::PermanentError, .. })
}

#[test] // REQ ML-5
fn a_claim_that_is_already_presented_after_an_unknown_outcome_was_accepted() {
    for (doubt, code) in [(timeout(), "1308"), (timeout(), "5053"), (End::Lost, "1308")] {
        let story = after([doubt.clone(), refused_before(), glosa(code)]);
        assert!(matches!(story.state, State::Sent { .. }), "{doubt:?} {code}: {:?}", story.state);
        let last = story.attempts.last().unwrap();
        assert!(
            last.explanation.contains(code) && last.explanation.contains("unknown"),
            "{}",
            last.explanation
        );
        let failure = last.failure.as_ref().unwrap();
        assert_eq!((failure.category.as_str(), failure.code.as_deref()), ("duplicate_claim", Some(code)));
    }
}

#[test] // REQ ML-5
fn a_claim_that_is_already_presented_without_any_doubt_stays_refused() {
    assert!(is_refused_for_good(&after([glosa("1308")])));
    assert!(is_refused_for_good(&after([refused_before(), glosa("5053")])));
}

#[test] // REQ ML-5
fn other_duplicates_stay_refused_even_after_an_unknown_outcome() {
    for code in ["1305", "1702", "1739", "3101"] {
        let story = after([timeout(), glosa(code)]);
        assert!(is_refused_for_good(&story), "{code}: {:?}", story.state);
        assert_eq!(story.attempts[1].failure.as_ref().unwrap().category, "duplicate_claim");
    }
}
