//! Requests in traces, and what messages take along of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::StatusCode;
use pombo_kernel::name::Tenant;
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::trace::{Context, Fact, Kind, Moment, Share, Span, Tracer};
use pombo_kernel::{id::MessageId, kind::ChannelKind};
use pombo_store::{Store, StoreError};
use pombo_web::Patience;
use serde_json::{Value, json};

use crate::dead::bury;
use crate::house::{House, Reply, message, request, setup};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Keeps what is recorded, and counts nanoseconds by itself.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    spans: Mutex<Vec<Span>>,
    now: AtomicU64,
}

impl Kept {
    /// Where everything that this house does is recorded.
    pub(crate) fn at(house: &House) -> Arc<Kept> {
        let kept = Arc::new(Kept::default());
        house.door.keep_traces(kept.clone());
        kept
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        std::mem::take(&mut self.spans.lock().unwrap())
    }
}

impl Tracer for Kept {
    fn now(&self) -> Moment {
        Moment(self.now.fetch_add(1, Ordering::Relaxed))
    }
    fn chance(&self) -> u64 {
        1 + self.now.fetch_add(1, Ordering::Relaxed)
    }
    fn share(&self) -> Share {
        Share(1.0)
    }
    fn record(&self, span: Span) {
        self.spans.lock().unwrap().push(span);
    }
}

/// What a stored message knows of its trace.
pub(crate) async fn taken_along(house: &House, id: &str) -> Option<Context> {
    let id: MessageId = id.parse().unwrap();
    let story = house.store.story(Tenant::default(), id).await.unwrap().unwrap();
    story.message.body.trace.clone().map(|context| *context)
}

async fn post(house: &House, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    let mut request = request("POST", path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    house.send_elsewhere(request.body(Body::from(body.to_string())).unwrap()).await
}

const KEY: (&str, &str) = ("authorization", "Bearer key-producer");
const TRACED: (&str, &str) = ("traceparent", CALLER);

fn fact<'a>(span: &'a Span, name: &str) -> &'a Fact {
    &span.facts.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}: {span:?}")).1
}

#[tokio::test] // REQ OB-2
async fn whichever_door_a_message_comes_in_by_it_takes_its_callers_trace_along() {
    let mut setup = setup();
    let zap = ChannelSetup {
        name: "zap".parse().unwrap(),
        kind: ChannelKind::Evolution,
        destination: pombo_kernel::setup::Destination::Fixed("clinic".into()),
        ..(*setup.channels["crm"]).clone()
    };
    setup.channels.insert("zap".parse().unwrap(), Arc::new(zap));
    let house = House::with(setup, Patience::default()).await;
    let kept = Kept::at(&house);
    let state = ("tracestate", "a=1");
    let mail = json!({"from": "a@x.example", "to": "b@x.example", "subject": "s", "text": "t"});
    let text = json!({"number": "5511987654321", "text": "oi"});
    for (path, key, body, id) in [
        ("/v1/messages", KEY, message(&json!({})), "/id"),
        ("/emails", KEY, mail, "/id"),
        ("/message/sendText/{instance}", ("apikey", "key-producer"), text, "/key/id"),
    ] {
        let reply = post(
            &house,
            &path.replace("{instance}", "clinic"),
            &[key, TRACED, state, ("tracestate", "b=2")],
            &body,
        )
        .await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        let id = reply.json().pointer(id).unwrap().as_str().unwrap().to_owned();
        let along = taken_along(&house, &id).await.unwrap();
        let [accept, request] = &kept.spans()[..] else { panic!("{path}") };
        assert_eq!((request.name.as_ref(), request.kind), (&*format!("POST {path}"), Kind::Server));
        assert_eq!(*fact(request, "http.route"), Fact::Text(path.into()));
        let caller = Context::read(CALLER, Some("a=1,b=2")).unwrap();
        assert_eq!((request.at.trace, request.parent), (caller.trace, Some(caller.span)));
        assert_eq!((accept.name.as_ref(), accept.parent), ("accept", Some(request.at.span)));
        assert_eq!(accept.at, along, "the message goes on from where it was accepted");
        assert_eq!(along.state, caller.state);
        assert!(request.from < accept.from && accept.until < request.until);
    }
}

#[tokio::test] // REQ OB-2
async fn a_request_without_a_trace_begins_one_and_a_bad_word_of_one_is_no_trace() {
    let house = House::new().await;
    let kept = Kept::at(&house);
    for headers in [&[KEY][..], &[KEY, ("traceparent", "00-nonsense")], &[KEY, ("tracestate", "a=1")]] {
        let reply = post(&house, "/v1/messages", headers, &message(&json!({}))).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
        let spans = kept.spans();
        assert_eq!((spans.len(), spans[1].parent, &spans[1].at.state), (2, None, &None));
    }
}

#[tokio::test] // REQ OB-2
async fn what_is_refused_is_told_by_its_status_and_what_is_our_fault_as_a_fault() {
    let house = House::new().await;
    let kept = Kept::at(&house);
    let told = |spans: Vec<Span>| {
        let [span] = &spans[..] else { panic!("{spans:?}") };
        (fact(span, "http.response.status_code").clone(), span.fault.clone())
    };
    post(&house, "/v1/messages", &[("authorization", "Bearer canary")], &message(&json!({}))).await;
    assert_eq!(told(kept.spans()), (Fact::Number(401), None));
    post(&house, "/v1/messages", &[KEY], &message(&json!({"to": "canary"}))).await;
    assert_eq!(told(kept.spans()), (Fact::Number(422), None));
    house.store.feel(Some(StoreError::Unavailable("x".into())));
    post(&house, "/v1/messages", &[KEY], &message(&json!({"to": "https://canary.example/"}))).await;
    house.store.feel(None);
    let spans = kept.spans();
    assert!(!format!("{spans:?}").contains("canary"));
    let request = spans.last().unwrap();
    assert_eq!(request.fault.as_deref(), Some("503"), "{spans:?}");

    house.get("/healthz").await;
    house.get("/openapi.json").await;
    assert_eq!(kept.spans(), [], "what needs no key is asked too often to be told");
}

#[tokio::test] // REQ OB-2
async fn a_caller_that_records_nothing_is_not_recorded_and_its_trace_goes_along() {
    let house = House::new().await;
    let kept = Kept::at(&house);
    let unsampled = CALLER.replace("-01", "-00");
    let reply = post(&house, "/v1/messages", &[KEY, ("traceparent", &unsampled)], &message(&json!({}))).await;
    assert_eq!(kept.spans(), []);
    let along = taken_along(&house, reply.json()["id"].as_str().unwrap()).await.unwrap();
    assert!(!along.sampled);
    assert_eq!(along.trace, Context::read(CALLER, None).unwrap().trace);
}

#[tokio::test] // REQ OB-2
async fn where_no_traces_are_kept_none_are_taken_along() {
    let house = House::new().await;
    let reply = post(&house, "/v1/messages", &[KEY, TRACED], &message(&json!({}))).await;
    assert_eq!(taken_along(&house, reply.json()["id"].as_str().unwrap()).await, None);
}

#[tokio::test] // REQ OB-2, DL-3
async fn a_dead_letter_that_is_edited_stays_in_its_trace() {
    let house = House::new().await;
    let _kept = Kept::at(&house);
    let reply = post(&house, "/v1/messages", &[KEY, TRACED], &message(&json!({}))).await;
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    let before = taken_along(&house, &id).await;
    assert_eq!(bury(&house, "no").await, 1);
    let body = json!({"version": 1, "note": "typo", "to": "https://b.example/x"}).to_string();
    let reply = house.call_as("operator", "PATCH", &format!("/v1/dead-letters/{id}"), body).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    assert_eq!(taken_along(&house, &id).await, before);
}
