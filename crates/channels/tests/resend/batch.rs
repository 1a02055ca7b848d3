//! Batches over a real connection. Their timing is tested beside the code, under virtual time.

use pombo_channels::Channel as _;
use pombo_channels::resend::{Resend, ResendSettings};
use pombo_channels::sandbox::resend::{Options, ResendSandbox};
use pombo_kernel::reply::{FaultKind, Reply};

use crate::receiver::Receiver;
use crate::{OI, PATIENCE, accepted, doubtful, envelope, meaning, refused, sandbox, settings};

fn batching(base_url: &str) -> Resend {
    Resend::new(&ResendSettings { batch: true, ..settings(base_url) }).unwrap()
}

async fn office() -> (Resend, ResendSandbox) {
    let sandbox = sandbox(&Options { rate: 0, ..Options::default() }).await;
    (batching(&sandbox.url()), sandbox)
}

async fn both(channel: &Resend, a: &str, b: &str) -> [Reply; 2] {
    let (first, second) = (envelope(a, a, OI), envelope(b, b, OI));
    tokio::join!(channel.send(&first, PATIENCE), channel.send(&second, PATIENCE)).into()
}

#[tokio::test]
async fn mails_of_one_moment_share_a_call() {
    let (channel, sandbox) = office().await;
    let ids =
        both(&channel, "a@x.example", "b@x.example").await.map(|reply| accepted(reply).provider_id.unwrap());
    assert_ne!(ids[0], ids[1]);
    assert_eq!((sandbox.requests("/emails/batch"), sandbox.requests("/emails")), (1, 0));
    assert_eq!(sandbox.stats().distinct, 2);
}

#[tokio::test]
async fn without_the_option_each_goes_alone() {
    let sandbox = sandbox(&Options { rate: 0, ..Options::default() }).await;
    for reply in both(&crate::channel(&sandbox.url()), "a@x.example", "b@x.example").await {
        accepted(reply);
    }
    assert_eq!((sandbox.requests("/emails/batch"), sandbox.requests("/emails")), (0, 2));
}

#[tokio::test]
async fn a_mail_with_attachments_goes_alone() {
    let (channel, sandbox) = office().await;
    let files = r#"{"subject":"s","text":"t","attachments":[{"filename":"a","content":"AAAA"}]}"#;
    let (a, b) = (envelope("a", "a@x.example", files), envelope("b", "b@x.example", OI));
    let (a, b) = tokio::join!(channel.send(&a, PATIENCE), channel.send(&b, PATIENCE));
    accepted(a);
    accepted(b);
    assert_eq!((sandbox.requests("/emails/batch"), sandbox.requests("/emails")), (0, 2));
}

#[tokio::test]
async fn a_mail_that_resend_does_not_like_does_not_spoil_the_others() {
    let (channel, sandbox) = office().await;
    let [good, bad] = both(&channel, "a@x.example", "invalid@x.example").await;
    accepted(good);
    assert_eq!(meaning(&bad).category, "invalid_recipient");
    assert_eq!(refused(bad).status, Some(422));
    assert_eq!((sandbox.requests("/emails/batch"), sandbox.stats().accepted), (1, 1));
}

#[tokio::test] // REQ ML-5
async fn a_batch_in_doubt_is_repeated_and_nothing_is_sent_twice() {
    let (channel, sandbox) = office().await;
    for reply in both(&channel, "reset@x.example", "b@x.example").await {
        assert_eq!(doubtful(&reply), FaultKind::ConnectionReset);
    }
    accepted(channel.send(&envelope("b@x.example", "b@x.example", OI), PATIENCE).await);
    accepted(channel.send(&envelope("reset@x.example", "reset@x.example", OI), PATIENCE).await);
    let stats = sandbox.stats();
    assert_eq!((stats.accepted, stats.distinct, stats.duplicates), (2, 2, 0));
    assert_eq!((sandbox.requests("/emails/batch"), sandbox.requests("/emails")), (2, 0));
}

#[tokio::test]
async fn a_batch_says_how_it_wants_to_be_judged_and_carries_one_key() {
    let receiver = Receiver::saying(200, r#"{"data":[{"id":"x"},{"id":"y"}],"errors":[]}"#).await;
    let ids =
        both(&batching(&receiver.url()), "a@x.example", "b@x.example").await.map(|r| accepted(r).provider_id);
    assert_eq!(ids, [Some("x".to_owned()), Some("y".to_owned())]);
    let request = receiver.requests().remove(0);
    assert!(request.starts_with("POST /emails/batch HTTP/1.1\r\n"));
    assert!(request.contains("\r\nx-batch-validation: permissive\r\n"), "{request}");
    let key = request.lines().find_map(|line| line.strip_prefix("idempotency-key: batch-")).unwrap();
    assert_eq!(key.len(), 64);
}
