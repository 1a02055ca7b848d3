use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use pombo_channels::sandbox::smtp::{Options, SmtpSandbox};
use pombo_channels::smtp::{Mode, Smtp, SmtpSettings};
use pombo_channels::{Channel as _, Health};
use pombo_kernel::classify::Verdict;
use pombo_kernel::id::{MessageId, MessageKey};
use pombo_kernel::reply::FaultKind;

use crate::names::{Known, Record, names};
use crate::{PATIENCE, PLAIN, accepted, envelope, meaning, refused, send, unreachable};

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Where nobody listens.
const THIRD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

fn settings(dns: SocketAddr, port: u16) -> SmtpSettings {
    SmtpSettings {
        mode: Mode::Mx,
        from: Some("mail@clinic.example".to_owned()),
        hello: Some("pombo.clinic.example".to_owned()),
        port: port.try_into().unwrap(),
        dns: Some(dns),
        allow_private: true,
        ..SmtpSettings::default()
    }
}

/// Two servers on one port, at two addresses.
async fn two() -> (SmtpSandbox, SmtpSandbox, u16) {
    let options = Options { keep: true, ..Options::default() };
    loop {
        let first = SmtpSandbox::start((FIRST, 0).into(), &options).await.unwrap();
        let port = first.address.port();
        if let Ok(second) = SmtpSandbox::start((SECOND, port).into(), &options).await {
            return (first, second, port);
        }
    }
}

fn records(list: &[Record]) -> Known {
    Known::Records(list.to_vec())
}

async fn dns() -> SocketAddr {
    names(&[
        ("both.example", records(&[Record::Mx(20, "mx2.example"), Record::Mx(10, "mx1.example")])),
        ("equal.example", records(&[Record::Mx(10, "mx2.example"), Record::Mx(10, "mx1.example")])),
        ("dead-first.example", records(&[Record::Mx(5, "dead.example"), Record::Mx(10, "mx2.example")])),
        ("gone-first.example", records(&[Record::Mx(5, "nowhere.example"), Record::Mx(10, "mx2.example")])),
        ("all-dead.example", records(&[Record::Mx(5, "dead.example"), Record::Mx(6, "nowhere.example")])),
        ("no-mail.example", records(&[Record::Mx(0, ".")])),
        ("implicit.example", records(&[Record::A(SECOND)])),
        ("failing.example", Known::Failing),
        ("mx1.example", records(&[Record::A(FIRST)])),
        ("mx2.example", records(&[Record::A(SECOND)])),
        ("dead.example", records(&[Record::A(THIRD)])),
    ])
    .await
}

#[tokio::test]
async fn mail_goes_to_the_servers_of_the_domain_by_preference() {
    let (first, second, port) = two().await;
    let channel = Smtp::new(&settings(dns().await, port)).unwrap();
    for i in 0..3 {
        accepted(send(&channel, &format!("m{i}"), "ana@both.example").await);
    }
    assert_eq!((first.stats().accepted, first.stats().connections, second.stats().connections), (3, 1, 0));
    for (to, accepted_by_second) in
        [("ana@implicit.example", 1), ("ana@dead-first.example", 2), ("ana@gone-first.example", 3)]
    {
        accepted(send(&channel, to, to).await);
        assert_eq!(second.stats().accepted, accepted_by_second, "{to}");
    }
    assert_eq!(channel.probe(PATIENCE).await, Health::Unknown);
}

#[tokio::test]
async fn equal_servers_share_the_mails_and_one_mail_always_goes_the_same_way() {
    let (first, second, port) = two().await;
    let channel = Smtp::new(&settings(dns().await, port)).unwrap();
    for nonce in 0..16 {
        let mut ways = BTreeSet::new();
        for _ in 0..2 {
            let before = first.stats().accepted;
            let mut envelope = envelope("m", "ana@equal.example", PLAIN);
            envelope.id = MessageId::new(MessageKey(1), nonce);
            accepted(channel.send(&envelope, PATIENCE).await);
            ways.insert(first.stats().accepted > before);
        }
        assert_eq!(ways.len(), 1);
    }
    let share = first.stats().accepted;
    assert!((4..=28).contains(&share), "{share}");
    assert_eq!(share + second.stats().accepted, 32);
}

#[tokio::test]
async fn the_next_server_is_tried_only_where_the_first_did_not_let_us_in() {
    let (first, second, port) = two().await;
    let channel = Smtp::new(&settings(dns().await, port)).unwrap();
    first.outage(true);
    accepted(send(&channel, "a", "ana@both.example").await);
    assert_eq!((first.stats().connections, second.stats().accepted), (1, 1));
    first.outage(false);
    for to in ["unknown@both.example", "greylist@both.example", "busy@both.example"] {
        refused(send(&channel, to, to).await);
    }
    assert_eq!(unreachable(&send(&channel, "d", "drop@both.example").await), FaultKind::ConnectionReset);
    assert_eq!(second.stats().recipients, 1, "what the first refused is not for the second");
    second.outage(true);
    first.outage(true);
    let refusal = refused(send(&channel, "b", "ana@both.example").await);
    assert_eq!(refusal.status, Some(421));
}

#[tokio::test]
async fn domains_without_servers_are_told_apart() {
    let (_first, _second, port) = two().await;
    let channel = Smtp::new(&settings(dns().await, port)).unwrap();
    let reply = send(&channel, "m", "ana@no-mail.example").await;
    assert_eq!(meaning(&reply).verdict, Verdict::Permanent);
    let refusal = refused(reply);
    assert_eq!((refusal.status, refusal.enhanced.unwrap().to_string().as_str()), (Some(556), "5.1.10"));
    for (to, kind) in [
        ("ana@absent.example", FaultKind::DnsNotFound),
        ("ana@failing.example", FaultKind::Dns),
        ("ana@all-dead.example", FaultKind::DnsNotFound),
    ] {
        let reply = send(&channel, "m", to).await;
        assert_eq!(unreachable(&reply), kind, "{to}");
        assert_eq!(meaning(&reply).verdict, Verdict::Transient, "{to}");
    }
}

#[tokio::test]
async fn strangers_do_not_lead_us_to_our_own_machines() {
    let (first, second, port) = two().await;
    let closed = SmtpSettings { allow_private: false, ..settings(dns().await, port) };
    let channel = Smtp::new(&closed).unwrap();
    assert_eq!(unreachable(&send(&channel, "m", "ana@both.example").await), FaultKind::AddressBlocked);
    assert_eq!((first.stats().connections, second.stats().connections), (0, 0));
    let named = SmtpSettings { allow: vec!["127.0.0.3".parse().unwrap()], ..closed };
    accepted(send(&Smtp::new(&named).unwrap(), "m", "ana@both.example").await);
    assert_eq!((first.stats().connections, second.stats().connections), (0, 1));
}
