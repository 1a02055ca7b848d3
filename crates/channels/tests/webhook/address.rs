use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pombo_channels::resolve::Resolver;
use pombo_channels::webhook::{Webhook, WebhookSettings};
use pombo_kernel::reply::{FaultKind, Reply};

use crate::{accepted, channel_where_names_lead_to, sandbox, send, unreachable};

fn allowing(allow: &[&str]) -> WebhookSettings {
    WebhookSettings {
        allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
        ..WebhookSettings::default()
    }
}

#[tokio::test] // REQ SE-2
async fn a_private_address_is_refused_however_it_is_written() {
    let sink = sandbox().await;
    let port = sink.address.port();
    let channel = Webhook::new(&WebhookSettings::default()).unwrap();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "localhost",
    ] {
        let reply = send(&channel, "m", &format!("http://{host}:{port}/ok")).await;
        assert_eq!(unreachable(&reply), FaultKind::AddressBlocked, "{host}");
    }
    assert_eq!(sink.stats().connections, 0);
}

#[tokio::test]
async fn a_channel_may_open_private_addresses_or_only_some() {
    let sink = sandbox().await;
    let open = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
    for settings in [open, allowing(&["127.0.0.0/8"]), allowing(&["127.0.0.1"])] {
        let channel = Webhook::new(&settings).unwrap();
        accepted(&send(&channel, "m", &sink.url("/ok")).await);
    }
    let elsewhere = Webhook::new(&allowing(&["10.0.0.0/8", "sink.lan"])).unwrap();
    assert_eq!(unreachable(&send(&elsewhere, "m", &sink.url("/ok")).await), FaultKind::AddressBlocked);
}

#[tokio::test] // REQ SE-2
async fn it_is_the_address_behind_a_name_that_is_judged() {
    let sink = sandbox().await;
    let address = sink.address.to_string();
    let url = format!("http://sink.lan:{}/ok", sink.address.port());
    let closed = channel_where_names_lead_to(&WebhookSettings::default(), &[&address]);
    let reply = send(&closed, "m", &url).await;
    assert_eq!(unreachable(&reply), FaultKind::AddressBlocked);
    // Nothing about the inside of the network is told to the outside.
    assert!(matches!(&reply, Reply::Unreachable(fault) if !fault.text.contains("127.")), "{reply:?}");
    assert_eq!(sink.stats().connections, 0);

    let named = channel_where_names_lead_to(&allowing(&["SINK.lan"]), &[&address]);
    accepted(&send(&named, "m", &url).await);
}

#[tokio::test]
async fn of_several_addresses_only_the_permitted_are_tried() {
    let sink = sandbox().await;
    let decoy = sandbox().await;
    let decoy_address = format!("[::ffff:127.0.0.1]:{}", decoy.address.port());
    let settings = allowing(&["127.0.0.1"]);
    // The first would swallow the request, were it tried; the second lies behind a name for 127.0.0.1.
    let channel = channel_where_names_lead_to(
        &settings,
        &["127.0.0.2:1", "10.0.0.1:1", &sink.address.to_string(), &decoy_address],
    );
    accepted(&send(&channel, "m", "http://many.example/ok").await);
    assert_eq!((sink.stats().accepted, decoy.stats().connections), (1, 0));
}

#[tokio::test]
async fn an_address_that_refuses_gives_way_to_the_next() {
    let sink = sandbox().await;
    let channel =
        channel_where_names_lead_to(&allowing(&["127.0.0.0/8"]), &["127.0.0.1:1", &sink.address.to_string()]);
    accepted(&send(&channel, "m", "http://many.example/ok").await);
    assert_eq!(sink.stats().accepted, 1);
}

#[tokio::test] // REQ SE-2
async fn a_name_that_changes_its_address_gains_nothing() {
    let sink = sandbox().await;
    let good = sink.address;
    let lookups = Arc::new(AtomicUsize::new(0));
    let counter = lookups.clone();
    let resolver = Resolver::new(move |_, port| {
        let first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if first { good } else { ([169, 254, 169, 254], port).into() };
        Box::pin(async move { Ok(vec![address]) })
    });
    let channel = Webhook::with_resolver(&allowing(&["127.0.0.1"]), resolver).unwrap();
    accepted(&send(&channel, "a", "http://rebind.example/ok").await);
    assert_eq!(lookups.load(Ordering::SeqCst), 1, "judged and used from the same look");
    // The kept connection still goes to the judged address; a new one is judged anew.
    accepted(&send(&channel, "b", "http://rebind.example/ok").await);
    let reply = send(&channel, "c", "http://rebind.example:81/ok").await;
    assert_eq!(unreachable(&reply), FaultKind::AddressBlocked);
}
