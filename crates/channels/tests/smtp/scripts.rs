use std::sync::Arc;
use std::time::Duration;

use pombo_channels::sandbox::Count;
use pombo_channels::sandbox::smtp::Options;
use pombo_kernel::classify::Verdict::{Permanent, SenderFault, Transient};
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::time::{Span, Time};

use crate::{
    accepted, channel, doubtful, meaning, refused, sandbox, sandbox_with, send, send_within, unreachable,
};

#[tokio::test]
async fn the_recipient_says_what_becomes_of_a_mail() {
    let server = sandbox().await;
    let channel = channel(&server.url());
    for (to, status, verdict) in [
        ("unknown", 550, Permanent),
        ("full", 552, Permanent),
        ("busy", 421, Transient),
        ("rate", 450, Transient),
        ("spam", 550, SenderFault),
        ("blocked", 554, SenderFault),
    ] {
        let reply = send(&channel, to, &format!("{to}+x@example.net")).await;
        assert_eq!(meaning(&reply).verdict, verdict, "{to}: {reply:?}");
        assert_eq!(refused(reply).status, Some(status), "{to}");
    }
    assert_eq!(server.stats().accepted, 0);
    assert_eq!(unreachable(&send(&channel, "d", "drop@example.net").await), FaultKind::ConnectionReset);
    assert_eq!(server.count("drop@example.net"), Count { received: 1, accepted: 0 });
    let short = Duration::from_secs(1);
    assert_eq!(doubtful(&send_within(&channel, "h", "hang@example.net", short).await), FaultKind::Timeout);
    assert_eq!(doubtful(&send_within(&channel, "s", "slow@example.net", short).await), FaultKind::Timeout);
    assert_eq!(server.count("hang@example.net").accepted, 0);
    assert_eq!(server.count("slow@example.net").accepted, 1);
}

#[tokio::test]
async fn some_are_taken_only_later() {
    let server = sandbox().await;
    let channel = channel(&server.url());
    let first = send(&channel, "g", "greylist@example.net").await;
    let meaning = meaning(&first);
    assert_eq!((meaning.category.as_str(), meaning.verdict), ("greylisted", Transient));
    assert!(meaning.wait.is_some_and(|wait| wait >= Span::from_secs(60)), "{meaning:?}");
    accepted(send(&channel, "g", "greylist@example.net").await);
    for _ in 0..2 {
        assert_eq!(refused(send(&channel, "f", "flaky+a@example.net").await).status, Some(451));
    }
    accepted(send(&channel, "f", "flaky+a@example.net").await);
    assert_eq!(server.count("flaky+a@example.net"), Count { received: 3, accepted: 1 });
}

#[tokio::test]
async fn chance_follows_its_seed() {
    let mut runs = Vec::new();
    for options in
        [Options::default(), Options::default(), Options { fail_percent: 50, ..Options::default() }]
    {
        let server = sandbox_with(Options { seed: 5, ..options }).await;
        let channel = channel(&server.url());
        for i in 0..100 {
            send(&channel, &i.to_string(), "random@example.net").await;
        }
        runs.push(server.stats().accepted);
    }
    assert!((55..85).contains(&runs[0]) && runs[2] < 50, "{runs:?}");
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn an_outage_begins_and_ends_by_a_word() {
    let server = sandbox().await;
    server.outage(true);
    let channel = channel(&server.url());
    let reply = send(&channel, "a", "ana@example.net").await;
    assert_eq!(meaning(&reply).verdict, Transient);
    assert!(matches!(&reply, Reply::Refused(refusal) if refusal.status == Some(421)), "{reply:?}");
    server.outage(false);
    accepted(send(&channel, "a", "ana@example.net").await);
}

#[tokio::test]
async fn what_is_taken_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("taken.log");
    let clock: pombo_channels::sandbox::Clock = Arc::new(|| Time::from_millis(42));
    let server =
        sandbox_with(Options { log: Some(log.clone()), clock: Some(clock), ..Options::default() }).await;
    let channel = channel(&server.url());
    for id in ["a", "b", "a"] {
        accepted(send(&channel, id, "ana@example.net").await);
    }
    let expected = "<a@clinic.example> 1 42\n<b@clinic.example> 1 42\n<a@clinic.example> 2 42\n";
    assert_eq!(std::fs::read_to_string(&log).unwrap(), expected);
}
