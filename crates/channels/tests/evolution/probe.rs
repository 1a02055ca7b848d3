use pombo_channels::Channel as _;
use pombo_channels::Health;
use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_channels::sandbox::evolution::State;
use pombo_kernel::classify::Verdict;
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::secret::Secret;

use crate::receiver::Receiver;
use crate::{PATIENCE, SHORT, channel, meaning, refused, sandbox, settings, unreachable};

async fn sick(channel: &Evolution) -> Reply {
    match channel.probe(PATIENCE).await {
        Health::Sick(reply) => reply,
        other => panic!("not sick: {other:?}"),
    }
}

#[tokio::test] // REQ CB-2
async fn a_connected_instance_is_ready_and_nothing_is_sent() {
    let sandbox = sandbox().await;
    assert!(matches!(channel(&sandbox.url()).probe(PATIENCE).await, Health::Ready(_)));
    assert_eq!((sandbox.stats().received, sandbox.stats().connections), (0, 1));
}

#[tokio::test] // REQ CB-2, CF-3
async fn every_other_state_has_a_name() {
    let sandbox = sandbox().await;
    let channel = channel(&sandbox.url());
    for (state, name, verdict) in [
        (State::Connecting, "instance_connecting", Verdict::Transient),
        (State::Close, "instance_close", Verdict::SenderFault),
        (State::Absent, "instance_absent", Verdict::SenderFault),
    ] {
        sandbox.set_state(state);
        let reply = sick(&channel).await;
        assert_eq!(meaning(&reply).0, verdict, "{name}");
        let refusal = refused(reply);
        assert_eq!((refusal.status, refusal.name.as_deref()), (None, Some(name)));
        assert!(!refusal.text.is_empty() && !refusal.perhaps_sent);
    }
    let refused_by_phone = Receiver::saying(200, r#"{"instance":{"state":"refused"}}"#).await;
    let refusal = refused(sick(&crate::channel(&refused_by_phone.url())).await);
    assert_eq!(refusal.name.as_deref(), Some("instance_close"));
}

#[tokio::test] // REQ CF-3, CF-7
async fn what_is_wrong_with_our_settings_shows_without_a_message() {
    let sandbox = sandbox().await;
    let check = async |changed: EvolutionSettings, category: &str| {
        let reply = sick(&Evolution::new(&changed).unwrap()).await;
        assert_eq!(meaning(&reply), (Verdict::SenderFault, category.to_owned()));
        assert!(!refused(reply).perhaps_sent);
    };
    let right = settings(&sandbox.url());
    check(EvolutionSettings { api_key: Some(Secret::new("wrong")), ..right.clone() }, "unauthorized").await;
    check(EvolutionSettings { instance: Some("other".into()), ..right.clone() }, "unknown_instance").await;
    check(settings(&format!("{}/v1", sandbox.url())), "unknown_route").await;
    sandbox.set_state(State::Unlicensed);
    check(right, "unlicensed").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_evolution_is_sick_and_leaves_no_doubt() {
    let sandbox = sandbox().await;
    let channel = channel(&sandbox.url());
    sandbox.set_outage(true);
    assert_eq!(refused(sick(&channel).await).status, Some(503));
    sandbox.stop().await;
    assert!(matches!(
        unreachable(&sick(&channel).await),
        FaultKind::ConnectionRefused | FaultKind::ConnectionReset
    ));

    for body in ["ok", "{}", "[]", ""] {
        let other = Receiver::saying(200, body).await;
        assert_eq!(unreachable(&sick(&crate::channel(&other.url())).await), FaultKind::Protocol, "{body}");
    }
    let silent = Receiver::start(|mut stream, seen| async move {
        seen.read(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let Health::Sick(reply) = crate::channel(&silent.url()).probe(SHORT).await else { panic!() };
    assert_eq!(unreachable(&reply), FaultKind::Timeout);
}
