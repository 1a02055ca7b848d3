//! How much is held when a stranger's server blames us.

#![allow(clippy::unwrap_used)] // All of it is test code, and a panic is how a test says no.

use std::sync::Arc;

use pombo_engine::decide::{End, settlement};
use pombo_kernel::adapt;
use pombo_kernel::block::BlockChange;
use pombo_kernel::classify::{Rules, Scope};
use pombo_kernel::dice::Dice;
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::lifecycle::OnUnknownOutcome;
use pombo_kernel::message::{Body, Draft, Priority, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::policy::{Policy, Profile};
use pombo_kernel::reply::{Fault, FaultKind, Refusal, Reply};
use pombo_kernel::setup::{Care, ChannelSetup, Destination};
use pombo_kernel::time::{Span, Time};
use pombo_store::core::Core;
use pombo_store::memory::Memory;
use pombo_store::{Ask, NodeId};

/// What is held after this reply, on a mail channel with such destinations.
fn held(destination: Destination, reply: Reply) -> Scope {
    let channel = ChannelSetup {
        name: "email".parse().unwrap(),
        kind: ChannelKind::Smtp,
        tenant: Tenant::default(),
        policy: Policy::built_in("smtp", Profile::Production).unwrap(),
        rules: Rules::for_kind(ChannelKind::Smtp, &[]).unwrap(),
        on_unknown_outcome: OnUnknownOutcome::Resend,
        destination,
        attempt_timeout: Span::from_secs(30),
        unready: None,
        line: pombo_kernel::campaign::line::LineRules::default(),
        suppressions: pombo_kernel::setup::Suppressions::default(),
        care: Care::default(),
        receipts: None,
    };
    let mut store = Memory::new(Dice::seeded(1));
    let now = Time::from_millis(1_800_000_000_000);
    let queue = QueueName {
        tenant: Tenant::default(),
        lane: Default::default(),
        channel: channel.name.clone(),
        destination: "picky.example".into(),
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
        body: Body { to: "ana@picky.example".into(), ..Body::default() },
        blobs: Vec::new(),
    };
    store.accept(draft, now).unwrap().unwrap();
    let ask = Ask { node: NodeId(1), lane: Default::default(), max: 1, rates: Arc::default() };
    let claimed = store.claim(&ask, now).unwrap().remove(0);
    let end = End::Reply(reply);
    match settlement(&claimed, Some(&channel), &adapt::Memory::default(), end, now, now, &mut Dice::seeded(1))
        .block
    {
        BlockChange::Set(scope, _) => scope,
        other => panic!("{other:?}"),
    }
}

fn blocklisted() -> Reply {
    let text = "Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org".to_owned();
    Reply::Refused(Refusal { status: Some(554), text, ..Refusal::default() })
}

#[test] // REQ CF-7: the narrowest thing at fault
fn what_one_domains_server_has_against_us_holds_no_other_domain() {
    assert_eq!(held(Destination::Recipient, blocklisted()), Scope::Destination);
}

#[test] // REQ CF-7
fn what_the_relay_or_our_own_settings_have_against_us_holds_the_channel() {
    let relay = Destination::Sender { default: "clinic.example".into() };
    assert_eq!(held(relay, blocklisted()), Scope::Channel);
    let ours = Reply::Unreachable(Fault { kind: FaultKind::NotConfigured, text: "no server".into() });
    assert_eq!(held(Destination::Recipient, ours), Scope::Channel);
}
