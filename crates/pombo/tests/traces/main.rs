//! Traces and log lines of the real binary, seen by a collector and read by the protocol's own definition.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod listener;
#[path = "../place/mod.rs"]
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use pombo::client::Payload;
use pombo_channels::sandbox::smtp::{self, SmtpSandbox};
use pombo_kernel::time::Time;
use pombo_kernel::trace::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use listener::Listener;
use place::clients::{python, run};
use place::{KEY, Place, Server, binary, drained};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A span as the protocol's definition reads it.
#[derive(Clone, Debug, Deserialize)]
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    state: String,
    name: String,
    kind: String,
    from: u64,
    until: u64,
    facts: BTreeMap<String, Value>,
    links: Vec<[String; 2]>,
    failed: bool,
    resource: BTreeMap<String, String>,
}

/// A server whose channels all lead to one listener, which is the collector as well.
struct House {
    place: Place,
    listener: Listener,
    server: Server,
}

const CHANNELS: &str = r#"
[channels.crm]
kind = "webhook"
allow_private = true
[channels.crm.retry]
delays = ["20ms"]
[channels.whatsapp]
kind = "evolution"
base_url = "BASE"
instance = "clinic"
api_key = "${PROVIDER_KEY}"
[channels.resend]
kind = "resend"
base_url = "BASE"
api_key = "${PROVIDER_KEY}"
from = "mail@clinic.example"
[channels.claims]
kind = "tiss"
url = "BASE/tiss"
registro_ans = "123456"
provider = "0001"
[channels.claims.retry]
attempts = 2
base = "20ms"
floor = "20ms"
cap = "20ms"
"#;

impl House {
    async fn open(more: &str) -> House {
        House::open_on(Listener::start().await, more).await
    }

    async fn open_on(listener: Listener, more: &str) -> House {
        let place = Place::new();
        let config = format!("{CHANNELS}{more}").replace("BASE", &listener.url(""));
        std::fs::write(place.folder.path().join("pombo.toml"), config).unwrap();
        let mut command = Command::new(binary());
        command
            .env("PROVIDER_KEY", "canary-secret-5501")
            .env("OTLP_KEY", "Bearer canary-secret-5502")
            .env("POMBO_LOG", "pombo_engine=debug,info");
        let server = place.start_with(command, &place.data());
        place.ready().await;
        House { place, listener, server }
    }

    async fn traced() -> House {
        House::open(TRACES).await
    }

    /// Posts a message as somebody who says which trace it belongs to.
    async fn post(&self, path: &str, headers: &[&str], body: &Value) -> Value {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--data", &body.to_string()])
            .args(["--header", &format!("authorization: Bearer {KEY}")])
            .args(["--header", "content-type: application/json"]);
        for header in headers {
            curl.args(["--header", header]);
        }
        curl.arg(format!("{}{path}", self.place.url()));
        serde_json::from_str(&run(curl).await).unwrap()
    }

    /// Lets the server end, so that all that it has to say is said; every span that was.
    async fn spans(self) -> Vec<Span> {
        drained(&self.place.client(), 0).await;
        assert!(self.server.terminate().await.success());
        let said: Vec<String> =
            self.listener.heard("/v1/traces").into_iter().map(|heard| heard.body).collect();
        for heard in self.listener.heard("/v1/traces") {
            assert_eq!(heard.header("content-type"), Some("application/json"));
            assert_eq!(heard.header("authorization"), Some("Bearer canary-secret-5502"));
            assert!(!heard.body.contains("canary"), "{}", heard.body);
        }
        read(&said).await
    }
}

const TRACES: &str = "[traces]\nendpoint = \"BASE\"\nheaders = { authorization = \"${OTLP_KEY}\" }\n";

/// Has documents read by the protocol's own definition.
async fn read(documents: &[String]) -> Vec<Span> {
    let mut file = tempfile::tempfile().unwrap();
    for document in documents {
        writeln!(file, "{document}").unwrap();
    }
    std::io::Seek::rewind(&mut file).unwrap();
    let mut reader = python("otlp.py");
    reader.stdin(Stdio::from(file));
    serde_json::from_str(&run(reader).await).unwrap()
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

fn is_within(inner: &Span, outer: &Span) {
    assert_eq!((inner.parent.as_ref(), &inner.trace), (Some(&outer.id), &outer.trace), "{inner:?}");
    assert!(outer.from <= inner.from && inner.until <= outer.until, "{inner:?} {outer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn one_trace_leads_from_the_callers_request_to_the_providers() {
    let house = House::traced().await;
    let body = json!({
        "channel": "crm", "to": house.listener.url("/hook/canary-5511988776655"),
        "reference": "canary-reference", "content": {"body": {"name": "canary"}},
    });
    let state = "tracestate: congo=t61rcWkgMzE";
    let accepted = house.post("/v1/messages", &[&format!("traceparent: {CALLER}"), state], &body).await;
    let provider = house.listener.wait("/hook/canary-5511988776655", 1).await.remove(0);
    let spans: Vec<Span> = house.spans().await.into_iter().filter(|span| span.trace == TRACE).collect();

    let request = one(&spans, "POST /v1/messages");
    assert_eq!(
        (request.parent.as_deref(), request.kind.as_str()),
        (Some("b7ad6b7169203331"), "SPAN_KIND_SERVER")
    );
    assert_eq!(request.facts["http.route"], "/v1/messages");
    assert_eq!(request.facts["http.response.status_code"], 202);
    assert_eq!(request.resource["service.name"], "pombo");
    assert_eq!(request.resource["service.version"], env!("CARGO_PKG_VERSION"));
    let accept = one(&spans, "accept");
    is_within(accept, request);
    let (wait, attempt) = (one(&spans, "wait"), one(&spans, "attempt"));
    for span in [wait, attempt] {
        assert_eq!(span.parent.as_ref(), Some(&accept.id));
    }
    assert!(wait.until <= attempt.from, "{wait:?} {attempt:?}");
    let send = one(&spans, "send");
    assert_eq!(send.kind, "SPAN_KIND_CLIENT");
    for span in [one(&spans, "prepare"), send, one(&spans, "settle")] {
        is_within(span, attempt);
        assert!(!span.failed);
    }
    assert!(send.until > send.from, "it is told finer than by the millisecond: {send:?}");
    assert_eq!(attempt.facts["pombo.attempt.outcome"], "sent");
    for span in [accept, wait, attempt, send] {
        assert_eq!(span.facts["messaging.message.id"], accepted["id"]);
        assert_eq!(span.facts["messaging.destination.name"], "crm");
        assert_eq!(span.state, "congo=t61rcWkgMzE");
    }
    assert_eq!(spans.len(), 7, "{spans:#?}");
    let told = provider.header("traceparent").unwrap();
    assert_eq!(told, format!("00-{TRACE}-{}-01", send.id), "the provider goes on from there");
    assert_eq!(provider.header("tracestate"), Some("congo=t61rcWkgMzE"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn every_attempt_is_told_in_the_same_trace_with_what_was_decided() {
    let house = House::traced().await;
    house.listener.say("/hook", &[503]);
    let body = json!({"channel": "crm", "to": house.listener.url("/hook"), "content": {"body": 1}});
    house.post("/v1/messages", &[&format!("traceparent: {CALLER}")], &body).await;
    let heard = house.listener.wait("/hook", 2).await;
    let spans = house.spans().await;
    let mut attempts: Vec<&Span> = spans.iter().filter(|span| span.name == "attempt").collect();
    attempts.sort_by_key(|span| span.from);
    let of = |span: &Span, fact: &str| span.facts[fact].clone();
    assert_eq!(attempts.len(), 2);
    assert!(attempts.iter().all(|span| span.trace == TRACE));
    assert_eq!(of(attempts[0], "pombo.attempt.outcome"), "retry");
    assert!(attempts[0].failed && attempts[0].facts.contains_key("pombo.retry.due"), "{:?}", attempts[0]);
    let first =
        spans.iter().find(|span| span.parent.as_ref() == Some(&attempts[0].id) && span.name == "send");
    let first = first.unwrap();
    assert_eq!((of(first, "pombo.reply"), of(first, "pombo.reply.status")), (json!("refused"), json!(503)));
    assert_eq!(of(attempts[1], "pombo.attempt.outcome"), "sent");
    assert_eq!(of(attempts[1], "pombo.attempt.number"), 2);
    let told: BTreeSet<&str> = heard.iter().map(|heard| heard.header("traceparent").unwrap()).collect();
    assert_eq!(told.len(), 2, "each attempt is a span of its own: {told:?}");
    // The second wait begins when it was due, and not when it was accepted.
    let mut waits: Vec<&Span> = spans.iter().filter(|span| span.name == "wait").collect();
    waits.sort_by_key(|span| span.from);
    let due: Time = attempts[0].facts["pombo.retry.due"].as_str().unwrap().parse().unwrap();
    assert_eq!(waits[1].from / 1_000_000, u64::try_from(due.millis()).unwrap(), "{waits:?}");
    assert!(waits[1].from > attempts[0].from, "{waits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn what_a_list_brings_in_has_traces_of_its_own_that_name_the_request() {
    let house = House::traced().await;
    let item = json!({"channel": "crm", "to": house.listener.url("/hook"), "content": {"body": 1}});
    house.post("/v1/messages/batch", &[&format!("traceparent: {CALLER}")], &json!([item, item, item])).await;
    let heard = house.listener.wait("/hook", 3).await;
    let spans = house.spans().await;
    let request = one(&spans, "POST /v1/messages/batch");
    assert_eq!(request.trace, TRACE);
    let accepts: Vec<&Span> = spans.iter().filter(|span| span.name == "accept").collect();
    assert_eq!(accepts.len(), 3);
    for accept in &accepts {
        assert_eq!(
            (accept.parent.as_ref(), &accept.links),
            (None, &vec![[request.trace.clone(), request.id.clone()]])
        );
        let attempts = spans.iter().filter(|span| span.name == "attempt" && span.trace == accept.trace);
        assert_eq!(attempts.map(|span| &span.parent).collect::<Vec<_>>(), [&Some(accept.id.clone())]);
    }
    let traces: BTreeSet<&String> = accepts.iter().map(|span| &span.trace).collect();
    let told: BTreeSet<String> =
        heard.iter().map(|heard| heard.header("traceparent").unwrap()[3..35].to_owned()).collect();
    assert_eq!(traces, told.iter().collect());
    assert_eq!(told.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn a_message_that_no_request_brought_in_has_a_trace_that_begins_where_it_waits() {
    let events = "[events]\nallow_private = true\n[policies.events]\ndelays = [\"20ms\"]\n";
    let house = House::open(&format!("{TRACES}{events}")).await;
    house.listener.say("/hook", &[503]);
    let webhook = json!({"url": house.listener.url("/hook"), "events": ["message.accepted"]});
    let body = json!({"channel": "crm", "to": house.listener.url("/other"), "content": {"body": 1}});
    let client = house.place.client();
    client.post("/v1/webhooks", Payload::json(&webhook)).await.unwrap();
    client.post("/v1/messages", Payload::json(&body)).await.unwrap();
    let heard = house.listener.wait("/hook", 2).await;
    let trace = &heard[0].header("traceparent").unwrap()[3..35];
    assert_eq!(&heard[1].header("traceparent").unwrap()[3..35], trace, "both attempts are in one trace");
    let trace = trace.to_owned();
    let spans: Vec<Span> = house.spans().await.into_iter().filter(|span| span.trace == trace).collect();
    let first = spans.iter().filter(|span| span.parent.is_none()).collect::<Vec<_>>();
    assert_eq!(first.len(), 1, "{spans:#?}");
    assert_eq!(first[0].name, "wait");
    let below = spans.iter().filter(|span| span.parent.as_ref() == Some(&first[0].id));
    let mut below: Vec<&str> = below.map(|span| span.name.as_str()).collect();
    below.sort_unstable();
    assert_eq!(below, ["attempt", "attempt", "wait"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn every_provider_is_told_of_the_trace_and_mail_only_where_it_is_wanted() {
    let listener = Listener::start().await;
    let options = smtp::Options { keep: true, ..smtp::Options::default() };
    let mails = SmtpSandbox::start((Ipv4Addr::LOCALHOST, 0).into(), &options).await.unwrap();
    let channel = |name: &str, more: &str| {
        let url = mails.url();
        format!(
            "[channels.{name}]\nkind = \"smtp\"\nurl = \"{url}\"\ntls = \"none\"\nfrom = \"mail@clinic.example\"\n{more}\n"
        )
    };
    let more = format!("{TRACES}{}{}", channel("plain", ""), channel("told", "trace_header = true"));
    let house = House::open_on(listener.clone(), &more).await;
    let caller = format!("traceparent: {CALLER}");
    let mail = json!({"subject": "canary", "text": "canary"});
    let claim = "<ans:loteGuias xmlns:ans=\"http://www.ans.gov.br/padroes/tiss/schemas\"><ans:numeroLote>1</ans:numeroLote>\
         <ans:guiasTISS><ans:guiaConsulta/></ans:guiasTISS></ans:loteGuias>";
    for body in [
        json!({"channel": "whatsapp", "to": "+5511988776655", "content": {"text": "canary"}}),
        json!({"channel": "resend", "to": "canary@x.example", "content": mail}),
        json!({"channel": "claims", "to": "operator", "reference": "CLM-A-1", "content": {"xml": claim}}),
        json!({"channel": "plain", "to": "canary@plain.example", "content": mail}),
        json!({"channel": "told", "to": "canary@told.example", "content": mail}),
    ] {
        house.post("/v1/messages", &[&caller], &body).await;
    }
    let mut told = Vec::new();
    for path in ["/message/sendText/clinic", "/emails", "/tiss"] {
        let heard = listener.wait(path, 1).await.remove(0);
        told.push(heard.header("traceparent").unwrap().to_owned());
    }
    let spans = house.spans().await;
    let mails: BTreeMap<String, String> =
        mails.taken().into_iter().map(|taken| (taken.to, String::from_utf8(taken.mail).unwrap())).collect();
    assert!(!mails["canary@plain.example"].to_lowercase().contains("traceparent"));
    let mail = &mails["canary@told.example"];
    let line = mail.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
    told.push(line.trim().to_owned());
    let sends: BTreeSet<String> = spans
        .iter()
        .filter(|span| span.name == "send")
        .map(|span| format!("00-{TRACE}-{}-01", span.id))
        .collect();
    for told in &told {
        assert!(sends.contains(told), "{told}: {sends:?}");
        assert!(Context::read(told, None).is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn a_caller_who_records_nothing_is_followed_and_nothing_is_recorded() {
    let house = House::traced().await;
    let body = json!({"channel": "crm", "to": house.listener.url("/hook"), "content": {"body": 1}});
    let unsampled = CALLER.replace("-01", "-00");
    house.post("/v1/messages", &[&format!("traceparent: {unsampled}")], &body).await;
    let heard = house.listener.wait("/hook", 1).await.remove(0);
    let told = heard.header("traceparent").unwrap();
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    assert!(house.spans().await.iter().all(|span| span.trace != TRACE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn without_a_collector_nothing_is_kept_or_passed_on() {
    let house = House::open("").await;
    let body = json!({"channel": "crm", "to": house.listener.url("/hook"), "content": {"body": 1}});
    house.post("/v1/messages", &[&format!("traceparent: {CALLER}")], &body).await;
    let heard = house.listener.wait("/hook", 1).await.remove(0);
    assert_eq!(heard.header("traceparent"), None);
    drained(&house.place.client(), 1).await;
    assert!(house.server.terminate().await.success());
    assert!(house.listener.heard("/v1/traces").is_empty());
    let file = std::fs::read(house.place.data().join("pombo.db")).unwrap();
    assert!(!file.windows(TRACE.len()).any(|bytes| bytes == TRACE.as_bytes()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn a_collector_that_is_gone_costs_spans_and_no_message() {
    let listener = Listener::start().await;
    // Nobody is there any more.
    let gone = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let house = House::open_on(listener, &format!("[traces]\nendpoint = \"http://{gone}\"\n")).await;
    let item = json!({"channel": "crm", "to": house.listener.url("/hook"), "content": {"body": 1}});
    let list = json!(vec![item; 2_000]);
    house.place.client().post("/v1/messages/batch", Payload::json(&list)).await.unwrap();
    house.listener.wait("/hook", 2_000).await;
    drained(&house.place.client(), 2_000).await;
    for attempt in 0.. {
        if house.place.said().contains("the collector does not take traces") {
            break;
        }
        assert!(attempt < 1_000, "it says that they are lost: {}", house.place.said());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(house.server.terminate().await.success());
}

/// The lines of the log, each of them a document.
fn lines(said: &str) -> Vec<Value> {
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)] // REQ OB-2
async fn every_decision_is_one_line_with_the_fields_that_billing_systems_know() {
    let house = House::traced().await;
    house.listener.say("/tiss", &[503, 503]);
    house.listener.say("/wrong/canary-5511988776655", &[404]);
    let claim = "<ans:loteGuias xmlns:ans=\"http://www.ans.gov.br/padroes/tiss/schemas\"><ans:numeroLote>1</ans:numeroLote>\
         <ans:guiasTISS><ans:guiaConsulta><ans:beneficiario>canary</ans:beneficiario></ans:guiaConsulta></ans:guiasTISS></ans:loteGuias>";
    let caller = format!("traceparent: {CALLER}");
    let hook = |path: &str| json!({"channel": "crm", "to": house.listener.url(path), "reference": "canary-reference", "content": {"body": "canary"}});
    let mut ids = Vec::new();
    for body in [
        json!({"channel": "claims", "to": "operator", "reference": "CLM-001-77", "content": {"xml": claim}}),
        hook("/wrong/canary-5511988776655"),
        hook("/fine"),
    ] {
        let accepted = house.post("/v1/messages", &[&caller], &body).await;
        ids.push(accepted["id"].as_str().unwrap().to_owned());
    }
    let question = json!({"claimId": "CLM-001-78", "submissionError": "TIMEOUT", "retryCount": 1});
    house.post("/v1/retry-decisions", &[], &question).await;
    drained(&house.place.client(), 3).await;
    let (folder, server) = (&house.place, house.server);
    assert!(server.terminate().await.success());
    let said = folder.said();
    assert!(!said.contains("canary"), "{said}");
    let lines = lines(&said);
    for line in &lines {
        assert!(
            line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    let of = |id: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["message_id"] == *id && line["event"].is_string()).collect()
    };

    // A claim whose operator does not answer: tried again, and then given up.
    let claim = of(&ids[0]);
    assert_eq!(claim.len(), 2, "one line a decision: {claim:#?}");
    for line in &claim {
        assert_eq!((&line["claimId"], &line["channel"]), (&json!("CLM-001-77"), &json!("claims")));
        assert_eq!((&line["submissionError"], &line["code"]), (&json!("service_unavailable"), &json!("503")));
        assert_eq!((&line["errorClassification"], &line["maxRetries"]), (&json!("TRANSIENT"), &json!(1)));
        assert!(line["executionTimeMs"].is_u64(), "{line}");
        assert_eq!(line["trace_id"], TRACE);
    }
    assert_eq!((&claim[0]["event"], &claim[0]["retryCount"]), (&json!("retry_scheduled"), &json!(1)));
    assert!(claim[0]["backoffMinutes"].as_f64().is_some_and(|minutes| minutes < 0.01), "{}", claim[0]);
    let next: Time = claim[0]["nextRetryTime"].as_str().unwrap().parse().unwrap();
    let at: Time = claim[0]["timestamp"].as_str().unwrap().parse().unwrap();
    assert!(next.since(at).millis() < 1_000, "{}", claim[0]);
    assert_eq!((&claim[1]["event"], &claim[1]["retryCount"]), (&json!("max_retries_exceeded"), &json!(1)));
    assert!(claim[1].get("nextRetryTime").is_none() && claim[1].get("backoffMinutes").is_none());

    // An error that no retry mends, of a message whose reference is nobody's business.
    let [wrong] = of(&ids[1])[..] else { panic!("one line a decision: {:#?}", of(&ids[1])) };
    assert_eq!(
        (&wrong["event"], &wrong["errorClassification"]),
        (&json!("permanent_error"), &json!("PERMANENT"))
    );
    assert!(wrong.get("claimId").is_none(), "{wrong}");
    // A success is told to those who look closely.
    let [fine] = of(&ids[2])[..] else { panic!("one line a decision: {:#?}", of(&ids[2])) };
    assert_eq!(
        (&fine["event"], &fine["level"], &fine["attempt"]),
        (&json!("sent"), &json!("DEBUG"), &json!(1))
    );

    // A decision that somebody else asked for.
    let asked: Vec<&Value> = lines.iter().filter(|line| line["claimId"] == "CLM-001-78").collect();
    let [asked] = asked[..] else { panic!("{asked:#?}") };
    for name in [
        "event",
        "claimId",
        "submissionError",
        "errorClassification",
        "retryCount",
        "maxRetries",
        "backoffMinutes",
        "nextRetryTime",
        "executionTimeMs",
        "timestamp",
    ] {
        assert!(asked.get(name).is_some(), "{name}: {asked}");
        assert!(claim[0].get(name).is_some(), "{name}: {}", claim[0]);
    }
    assert_eq!((&asked["event"], &asked["submissionError"]), (&json!("retry_scheduled"), &json!("TIMEOUT")));
}
