use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use http::StatusCode;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pombo_kernel::message::Actor;
use pombo_kernel::time::Span;
use pombo_store::Store;
use pombo_store::audit::Event;
use pombo_store::shelf::{Expect, Shelf, Shelve};
use pombo_store::transition::act_of;
use pombo_web::Patience;
use serde_json::{Value, json};

use crate::house::{House, NOW, key, request, setup};

/// A stream of events, read as it comes.
struct Stream {
    body: BodyDataStream,
    unread: String,
}

#[derive(Clone, Debug)]
struct Told {
    id: u64,
    kind: String,
    document: Value,
}

impl Stream {
    async fn open(house: &House, who: &str, query: &str, last: Option<&str>) -> Stream {
        let mut request = request("GET", &format!("/v1/events{query}"))
            .header("authorization", format!("Bearer key-{who}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = TowerToHyperService::new(house.router.clone()).call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Stream { body: response.into_body().into_data_stream(), unread: String::new() }
    }

    /// The next thing that was said, up to an empty line; none at the end.
    async fn said(&mut self) -> Option<String> {
        loop {
            if let Some((said, rest)) = self.unread.split_once("\n\n") {
                let (said, rest) = (said.to_owned(), rest.to_owned());
                self.unread = rest;
                return Some(said);
            }
            let piece = self.body.next().await?.unwrap();
            self.unread.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next event.
    async fn next(&mut self) -> Option<Told> {
        loop {
            let said = self.said().await?;
            let field = |name: &str| {
                said.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
            };
            if let Some(data) = field("data") {
                let document: Value = serde_json::from_str(&data).unwrap();
                let (id, kind) = (field("id").unwrap().parse().unwrap(), field("event").unwrap());
                assert_eq!(document["position"], json!(id));
                assert_eq!(document["type"], json!(kind));
                return Some(Told { id, kind, document });
            }
        }
    }

    /// What there is until it is said that there is no more for now.
    async fn all(&mut self) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            let said = self.said().await.unwrap();
            if said.starts_with(": alive") {
                return all;
            }
            self.unread.insert_str(0, &format!("{said}\n\n"));
            all.push(self.next().await.unwrap());
        }
    }
}

fn kinds(told: &[Told]) -> Vec<&str> {
    told.iter().map(|told| told.kind.as_str()).collect()
}

/// Records an act without a message.
async fn act(house: &House, event: Event, tenant: &str, detail: &Value) {
    let tenant = tenant.parse().unwrap();
    let record = act_of(event, &tenant, &Actor("ana".into()), detail, NOW);
    let id = format!("{event:?}{detail}");
    let wish =
        Shelve { shelf: Shelf::Cursor, tenant, id, expect: Expect::Any, leaf: None, record: Some(record) };
    house.store.shelve(vec![wish]).await.unwrap();
}

#[tokio::test] // REQ ML-7
async fn a_follower_is_told_of_what_happens_from_then_on() {
    let house = House::new().await;
    house.created(&json!({})).await;
    let mut stream = Stream::open(&house, "producer", "?reference=order%205", None).await;
    let id = house
        .created(&json!({"reference": "order 5", "type": "welcome", "user_id": "u1", "send_at": "2099-01-01T00:00:00Z"}))
        .await;
    let accepted = stream.next().await.unwrap();
    assert_eq!(accepted.kind, "message.accepted");
    assert_eq!(
        accepted.document,
        json!({
            "type": "message.accepted",
            "timestamp": NOW.to_string(),
            "position": accepted.id,
            "data": {
                "id": id, "channel": "crm", "reference": "order 5", "type": "welcome", "user_id": "u1",
                "template": null, "campaign": null, "state": "pending", "previous_state": null,
                "next_attempt_at": "2099-01-01T00:00:00.000Z",
            },
        })
    );
    let path = format!("/v1/messages/{id}/cancel");
    assert_eq!(house.call("POST", &path, "").await.status, StatusCode::OK);
    let cancelled = stream.next().await.unwrap();
    assert_eq!((cancelled.kind.as_str(), cancelled.id), ("message.cancelled", accepted.id + 1));
    assert_eq!(cancelled.document["data"]["state"], "cancelled");
    assert_eq!(cancelled.document["data"]["previous_state"], "pending");
    assert_eq!(cancelled.document["data"]["by"], "admin (key_admin)");
}

#[tokio::test] // REQ ML-7
async fn a_stream_is_taken_up_where_it_broke_off() {
    let house = House::new().await;
    for _ in 0..600 {
        house.created(&json!({})).await;
    }
    let all = Stream::open(&house, "admin", "?after=-1", None).await.all().await;
    let ids: Vec<u64> = all.iter().map(|told| told.id).collect();
    assert_eq!(ids.len(), 600, "over several reads, none twice and none missing");
    assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
    let after = ids[300];
    let rest = Stream::open(&house, "admin", &format!("?after={after}"), None).await.all().await;
    assert_eq!(rest.iter().map(|told| told.id).collect::<Vec<_>>(), ids[301..]);
    // A browser repeats the address, and says in the header how far it has come since.
    let last = ids[597].to_string();
    let rest = Stream::open(&house, "admin", &format!("?after={after}"), Some(&last)).await.all().await;
    assert_eq!(rest.iter().map(|told| told.id).collect::<Vec<_>>(), ids[598..]);
}

#[tokio::test] // REQ ML-7
async fn filters_pick_by_type_channel_and_reference() {
    let house = House::new().await;
    let first = house.created(&json!({"reference": "a"})).await;
    house.created(&json!({"reference": "b", "channel": "null", "to": "x"})).await;
    house.call("POST", &format!("/v1/messages/{first}/cancel"), "").await;
    house.post("/v1/channels/crm/hold", &json!({"reason": "r"})).await;
    let told = async |query: &str| {
        let all = Stream::open(&house, "admin", &format!("?after=-1{query}"), None).await.all().await;
        kinds(&all).join(" ")
    };
    let everything = "message.accepted message.accepted message.cancelled channel.blocked";
    assert_eq!(told("").await, everything);
    assert_eq!(told("&types=*").await, everything);
    assert_eq!(told("&types=message.*").await, "message.accepted message.accepted message.cancelled");
    assert_eq!(told("&types=channel.blocked,message.cancelled").await, "message.cancelled channel.blocked");
    assert_eq!(told("&channel=crm").await, "message.accepted message.cancelled channel.blocked");
    assert_eq!(told("&reference=b").await, "message.accepted");
    assert_eq!(told("&reference=c").await, "");
}

#[tokio::test] // REQ SE-1
async fn a_follower_sees_what_its_key_may_see() {
    let house = House::new().await;
    let channels = Some(vec!["null".parse().unwrap()]);
    let scoped = pombo_web::key::KeyDoc { channels, ..key("null-operator", "operator") };
    house.add_key("default", &scoped).await;
    house.created(&json!({})).await;
    house.created(&json!({"channel": "null", "to": "x"})).await;
    let theirs = json!({"channel": "theirs", "to": "https://x.example", "content": {}});
    let reply = house.call_as("foreign", "POST", "/v1/messages", theirs.to_string()).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    house.post("/v1/channels/crm/hold", &json!({"reason": "r"})).await;
    house.post("/v1/channels/null/hold", &json!({"reason": "r"})).await;
    house.put_template("hello", &json!({"text": "hi"})).await;
    house.post("/v1/store/pause", &json!({"reason": "r"})).await;
    act(&house, Event::KeyAdded, "default", &json!({"key": "key_1"})).await;
    act(&house, Event::WebhookPut, "default", &json!({"webhook": "whk_1"})).await;
    act(&house, Event::KeyAdded, "other", &json!({"key": "key_2"})).await;
    act(&house, Event::SuppressionPut, "default", &json!({})).await;
    act(&house, Event::OperationStarted, "default", &json!({})).await;
    act(&house, Event::RetryDecided, "default", &json!({"claimId": "CLM-1-1"})).await;
    let table = [
        (
            "viewer",
            "message.accepted message.accepted channel.blocked channel.blocked template.put store.paused \
             suppression.put operation.started RetryScheduledEvent",
        ),
        (
            "operator",
            "message.accepted message.accepted channel.blocked channel.blocked template.put store.paused \
             suppression.put operation.started RetryScheduledEvent",
        ),
        (
            "admin",
            "message.accepted message.accepted channel.blocked channel.blocked template.put store.paused \
             key.added webhook.put suppression.put operation.started RetryScheduledEvent",
        ),
        ("foreign", "message.accepted store.paused key.added"),
        ("null-operator", "message.accepted channel.blocked"),
    ];
    for (who, expected) in table {
        let all = Stream::open(&house, who, "?after=-1", None).await.all().await;
        assert_eq!(kinds(&all).join(" "), expected, "{who}");
    }
    let all = Stream::open(&house, "foreign", "?after=-1&types=message.*", None).await.all().await;
    assert_eq!(all[0].document["data"]["channel"], "theirs");
    let beyond = house.call_as("null-operator", "GET", "/v1/events?channel=crm", Body::empty()).await;
    assert_eq!(beyond.code(), "FORBIDDEN");
}

#[tokio::test] // REQ SE-1
async fn a_producer_follows_its_own_messages_and_claims_by_reference_and_nothing_else() {
    let house = House::new().await;
    let channels = Some(vec!["null".parse().unwrap()]);
    let scoped = pombo_web::key::KeyDoc { channels, ..key("null-producer", "producer") };
    house.add_key("default", &scoped).await;
    let mine = house.created(&json!({"reference": "CLM-1-1"})).await;
    house.created(&json!({"reference": "CLM-1-1", "channel": "null", "to": "x"})).await;
    house.created(&json!({"reference": "CLM-2-2"})).await;
    house.created(&json!({})).await;
    house.put_template("hello", &json!({"text": "hi"})).await;
    for claim in ["CLM-1-1", "CLM-2-2"] {
        act(&house, Event::RetryDecided, "default", &json!({"claimId": claim})).await;
        act(&house, Event::RetriesExhausted, "default", &json!({"claimId": claim})).await;
        act(&house, Event::PermanentErrorFound, "default", &json!({"claimId": claim})).await;
    }
    for query in ["", "?after=-1", "?after=-1&types=message.*", "?after=-1&reference="] {
        let refused = house.call_as("producer", "GET", &format!("/v1/events{query}"), Body::empty()).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (StatusCode::FORBIDDEN, "FORBIDDEN"),
            "{query}"
        );
        assert!(refused.text.contains("?reference="), "{}", refused.text);
    }
    let told = async |who: &str, reference: &str| {
        let query = format!("?after=-1&reference={reference}");
        Stream::open(&house, who, &query, None).await.all().await
    };
    let all = told("producer", "CLM-1-1").await;
    let decisions = "RetryScheduledEvent MaxRetriesExceededEvent PermanentErrorDetectedEvent";
    assert_eq!(kinds(&all).join(" "), format!("message.accepted message.accepted {decisions}"));
    assert_eq!(all[0].document["data"]["id"], json!(mine));
    assert!(all[2..].iter().all(|told| told.document["data"]["claimId"] == "CLM-1-1"), "{all:?}");
    assert_eq!(kinds(&told("producer", "CLM-2-2").await).join(" "), format!("message.accepted {decisions}"));
    assert_eq!(kinds(&told("null-producer", "CLM-1-1").await), ["message.accepted"]);
    for nobody in ["CLM-1", "hello"] {
        assert!(told("producer", nobody).await.is_empty(), "{nobody}");
    }
    let query = "/v1/events?reference=CLM-1-1&channel=crm";
    let beyond = house.call_as("null-producer", "GET", query, Body::empty()).await;
    assert_eq!(beyond.code(), "FORBIDDEN");
}

#[tokio::test] // REQ RD-6
async fn decisions_are_told_with_the_fields_that_they_were_written_with() {
    let house = House::new().await;
    let detail = json!({"claimId": "CLM-001-7", "retryCount": 1, "maxRetries": 5, "backoffMinutes": 10});
    act(&house, Event::RetryDecided, "default", &detail).await;
    act(&house, Event::RetriesExhausted, "default", &json!({"severity": "CRITICAL"})).await;
    act(&house, Event::PermanentErrorFound, "default", &json!({"errorType": "X"})).await;
    let all = Stream::open(&house, "viewer", "?after=-1", None).await.all().await;
    assert_eq!(
        kinds(&all),
        ["RetryScheduledEvent", "MaxRetriesExceededEvent", "PermanentErrorDetectedEvent"]
    );
    assert_eq!(all[0].document["data"], detail);
}

#[tokio::test(start_paused = true)]
async fn something_is_said_every_fifteen_seconds_with_the_place_that_was_reached() {
    let house = House::new().await;
    house.created(&json!({})).await;
    let mut stream = Stream::open(&house, "admin", "?after=-1&types=message.sent", None).await;
    for _ in 0..3 {
        assert_eq!(stream.said().await.as_deref(), Some(": alive\nid: 0"));
    }
}

#[tokio::test(start_paused = true)] // REQ SE-1
async fn a_stream_ends_when_its_key_does() {
    let house = House::new().await;
    let mut stream = Stream::open(&house, "viewer", "", None).await;
    assert!(stream.said().await.is_some());
    let revoked = house.call("DELETE", "/v1/keys/key_viewer", "").await;
    assert!(revoked.status.is_success(), "{}", revoked.text);
    house.clock.pass(Span::from_secs(6));
    while stream.said().await.is_some() {}
}

#[tokio::test]
async fn a_stream_ends_when_the_door_closes_and_none_is_opened_then() {
    let house = House::new().await;
    let mut stream = Stream::open(&house, "admin", "", None).await;
    house.door.close();
    let ended =
        tokio::time::timeout(Duration::from_secs(60), async { while stream.said().await.is_some() {} });
    ended.await.expect("the stream ends");
    assert_eq!(house.get("/v1/events").await.code(), "SHUTTING_DOWN");
}

#[tokio::test]
async fn followers_are_bounded_in_number_and_make_room_when_they_leave() {
    let house = House::new().await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(Stream::open(&house, "admin", "", None).await);
    }
    let refused = house.get("/v1/events").await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::TOO_MANY_REQUESTS, "OVERLOADED"));
    assert!(refused.header("retry-after").is_some());
    // REQ SE-1
    let mut theirs = Stream::open(&house, "foreign", "", None).await;
    assert!(theirs.said().await.is_some(), "others find a place all the same");
    drop(streams);
    let mut tries = 0;
    while house.door_is_full().await {
        tries += 1;
        assert!(tries < 1_000, "those who left still count");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl House {
    /// Whether one more follower is refused.
    async fn door_is_full(&self) -> bool {
        let request = request("GET", "/v1/events").header("authorization", "Bearer key-admin");
        let request = request.body(Body::empty()).unwrap();
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        response.status() == StatusCode::TOO_MANY_REQUESTS
    }
}

#[tokio::test]
async fn whoever_reads_too_slowly_is_cut_off_and_can_go_on_without_a_gap() {
    let patience = Patience { stream: Duration::from_millis(100), ..Patience::default() };
    let house = House::with(setup(), patience).await;
    let items: Vec<Value> = (0..200).map(|_| crate::house::message(&json!({}))).collect();
    for _ in 0..10 {
        let reply = house.post("/v1/messages/batch", &json!(items)).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
    let mut stream = Stream::open(&house, "admin", "?after=-1", None).await;
    // What is on its way then is bounded, and the rest is not waited with.
    let cut_off = async {
        while !house.get("/metrics").await.text.contains("pombo_event_streams 0\n") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), cut_off).await.expect("it is cut off");
    let mut seen = Vec::new();
    while let Some(told) = stream.next().await {
        seen.push(told.id);
    }
    assert!((1..2_000).contains(&seen.len()), "{} of 2000 events were kept for it", seen.len());
    let last = seen.last().unwrap().to_string();
    let mut stream = Stream::open(&house, "admin", "", Some(&last)).await;
    while seen.len() < 2_000 {
        seen.push(stream.next().await.unwrap().id);
    }
    assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]));
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_refused_with_a_reason() {
    let house = House::new().await;
    for (query, field) in [
        ("?after=soon", "after"),
        ("?after=-2", "after"),
        ("?types=message.snet", "types"),
        ("?types=message.sent,", "types"),
        ("?channel=A%20B", "channel"),
        ("?colour=red", "colour"),
    ] {
        house.get(&format!("/v1/events{query}")).await.refused("INVALID_FIELD", field);
    }
    let request = request("GET", "/v1/events")
        .header("authorization", "Bearer key-admin")
        .header("last-event-id", "seven");
    let refused = house.send(request.body(Body::empty()).unwrap()).await;
    refused.refused("INVALID_FIELD", "last-event-id");
}
