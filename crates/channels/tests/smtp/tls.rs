use std::sync::Arc;

use pombo_channels::resolve::Resolver;
use pombo_channels::sandbox::smtp::{Options, SmtpSandbox};
use pombo_channels::smtp::{Smtp, SmtpSettings, Tls};
use pombo_channels::{Channel as _, Health};
use pombo_kernel::classify::Verdict;
use pombo_kernel::reply::{FaultKind, Stage};
use pombo_kernel::secret::Secret;
use rustls::ServerConfig;

use crate::parts::authority::Authority;
use crate::server::Server;
use crate::{PATIENCE, accepted, meaning, refused, sandbox_with, send, settings, unreachable};

/// A channel for which `mail.example` leads to this server.
fn leading_to(settings: &SmtpSettings, address: std::net::SocketAddr) -> Smtp {
    let resolver = Resolver::new(move |_, _| Box::pin(async move { Ok(vec![address]) }));
    Smtp::with_resolver(settings, resolver).unwrap()
}

async fn server(tls: &Arc<ServerConfig>, implicit: bool) -> SmtpSandbox {
    let user = Some(("ana@clinic".to_owned(), Secret::new("s3cret:%")));
    sandbox_with(Options { tls: Some(tls.clone()), implicit, user, ..Options::default() }).await
}

fn named(scheme: &str, authority: &Authority) -> SmtpSettings {
    SmtpSettings {
        ca_file: Some(authority.file()),
        ..settings(&format!("{scheme}://ana%40clinic:s3cret%3A%25@mail.example"))
    }
}

#[tokio::test]
async fn both_ways_to_tls_work_and_the_user_is_known() {
    let authority = Authority::new();
    let certificate = authority.shown_by("mail.example", |_| {});
    for (scheme, implicit) in [("smtp", false), ("smtps", true)] {
        let server = server(&certificate, implicit).await;
        let channel = leading_to(&named(scheme, &authority), server.address);
        for id in ["a", "b"] {
            accepted(send(&channel, id, "ana@example.net").await);
        }
        assert_eq!(server.stats().connections, 1, "{scheme}");
        assert!(server.taken().iter().all(|taken| taken.encrypted));
        assert!(matches!(channel.probe(PATIENCE).await, Health::Ready(words) if words.starts_with("250 ")));
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_good_ends_the_attempt_before_anything_is_said() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let good = authority.shown_by("mail.example", |_| {});
    let misnamed = authority.shown_by("other.example", |_| {});
    let expired = authority.shown_by("mail.example", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    for (trusted, certificate, why) in [
        (&stranger, &good, "unknown authority"),
        (&authority, &misnamed, "another host"),
        (&authority, &expired, "expired"),
    ] {
        for (scheme, implicit) in [("smtp", false), ("smtps", true)] {
            let server = server(certificate, implicit).await;
            let reply =
                send(&leading_to(&named(scheme, trusted), server.address), "m", "ana@example.net").await;
            assert_eq!(unreachable(&reply), FaultKind::Tls, "{why}");
            assert_eq!(meaning(&reply).category.as_str(), "tls");
            let stats = server.stats();
            assert_eq!((stats.recipients, stats.logins_refused), (0, 0), "{why}");
        }
    }
}

#[tokio::test]
async fn no_credentials_go_out_in_the_clear() {
    let server = Server::answering(&[("EHLO", b"250-x\r\n250 AUTH PLAIN LOGIN\r\n")]).await;
    let channel = leading_to(&named("smtp", &Authority::new()), server.address);
    assert_eq!(unreachable(&send(&channel, "m", "ana@example.net").await), FaultKind::Tls);
    assert_eq!(server.heard().len(), 1, "{:?}", server.heard());
    // Unless the administrator says so in as many words.
    let said = SmtpSettings { tls: Some(Tls::None), ca_file: None, ..named("smtp", &Authority::new()) };
    accepted(send(&leading_to(&said, server.address), "m", "ana@example.net").await);
}

#[tokio::test]
async fn opportunistic_takes_what_it_gets() {
    let unknown = Authority::new().shown_by("other.example", |_| {});
    let server = sandbox_with(Options { tls: Some(unknown), ..Options::default() }).await;
    accepted(send(&crate::channel(&server.url()), "m", "ana@example.net").await);
    assert!(server.taken()[0].encrypted);
    let server =
        Server::answering(&[("EHLO", b"250-x\r\n250 STARTTLS\r\n"), ("STARTTLS", b"454 4.7.0 no\r\n")]).await;
    accepted(send(&crate::channel(&server.url()), "m", "ana@example.net").await);
}

#[tokio::test]
async fn what_is_said_before_the_handshake_is_not_believed_after_it() {
    let injected = b"220 go\r\n250-x\r\n250 AUTH PLAIN\r\n";
    let server =
        Server::answering(vec![("EHLO", &b"250-x\r\n250 STARTTLS\r\n"[..]), ("STARTTLS", injected)].leak())
            .await;
    let channel = leading_to(&named("smtp", &Authority::new()), server.address);
    assert_eq!(unreachable(&send(&channel, "m", "ana@example.net").await), FaultKind::Protocol);
}

#[tokio::test]
async fn a_wrong_password_is_our_fault_and_its_reply_shows_nothing_of_it() {
    let authority = Authority::new();
    let server = server(&authority.shown_by("mail.example", |_| {}), false).await;
    let wrong = SmtpSettings {
        ca_file: Some(authority.file()),
        username: Some("ana@clinic".to_owned()),
        password: Some(Secret::new("canary-password")),
        ..settings("smtp://mail.example:587")
    };
    let channel = leading_to(&wrong, server.address);
    let reply = send(&channel, "m", "ana@example.net").await;
    assert_eq!(meaning(&reply).verdict, Verdict::SenderFault);
    assert_eq!(refused(reply).stage, Stage::Auth);
    assert!(matches!(channel.probe(PATIENCE).await, Health::Sick(_)));
    assert_eq!(server.stats().recipients, 0);

    // A server that repeats what it was told.
    let parrot = Server::answering(&[
        ("EHLO", b"250-x\r\n250 AUTH PLAIN\r\n"),
        ("AUTH", b"501 5.5.2 cannot decode AHUAY2FuYXJ5LXBhc3N3b3Jk canary-password\r\n"),
    ])
    .await;
    let url = format!("smtp://u:canary-password@{}", parrot.address);
    let refusal = refused(send(&crate::channel(&url), "m", "ana@example.net").await);
    assert_eq!(refusal.text, "cannot decode … …");
}

#[tokio::test]
async fn a_server_that_lets_nobody_log_in_is_not_set_up_for_us() {
    let server = Server::answering(&[("EHLO", b"250-x\r\n250 AUTH CRAM-MD5\r\n")]).await;
    let reply =
        send(&crate::channel(&format!("smtp://u:p@{}", server.address)), "m", "ana@example.net").await;
    assert_eq!(unreachable(&reply), FaultKind::NotConfigured);
    assert_eq!(meaning(&reply).verdict, Verdict::SenderFault);
    let server = Server::answering(&[
        ("EHLO", b"250-x\r\n250 AUTH LOGIN\r\n"),
        ("AUTH", b"334 VXNlcm5hbWU6\r\n"),
        ("DQ==", b"334 UGFzc3dvcmQ6\r\n"),
    ])
    .await;
    let reply =
        send(&crate::channel(&format!("smtp://u:p@{}", server.address)), "m", "ana@example.net").await;
    accepted(reply);
    assert_eq!(server.heard()[1..4], ["AUTH LOGIN", "dQ==", "cA=="]);
}

#[tokio::test]
async fn a_probe_says_how_the_server_is() {
    let server = crate::sandbox().await;
    let channel = crate::channel(&server.url());
    assert_eq!(channel.probe(PATIENCE).await, Health::Reachable("250 still here".to_owned()));
    server.outage(true);
    let Health::Sick(reply) = channel.probe(PATIENCE).await else { panic!("it is out of service") };
    assert_eq!(refused(reply).status, Some(421));
    server.stop().await;
    let Health::Sick(reply) = channel.probe(PATIENCE).await else { panic!("it is gone") };
    assert!(matches!(unreachable(&reply), FaultKind::ConnectionRefused | FaultKind::ConnectionReset));
}
