//! Spans as OTLP has them in JSON: ids in hex, numbers of 64 bits as text, kinds by their numbers.

use pombo_kernel::trace::{Context, Fact, Kind, Moment, Span};
use serde::{Deserialize, Serialize, Serializer};

/// Whose spans they are.
#[derive(Debug)]
pub(super) struct Resource {
    /// Which life of which process; another one with every start.
    instance: String,
}

impl Resource {
    pub(super) fn new(instance: String) -> Resource {
        Resource { instance }
    }
}

/// The document that a collector takes.
pub(super) fn export(resource: &Resource, spans: &[Span]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let document = Export {
        resource_spans: [ResourceSpans {
            resource: Attributed {
                attributes: vec![
                    Attribute::text("service.name", "pombo"),
                    Attribute::text("service.version", version),
                    Attribute::text("service.instance.id", &resource.instance),
                ],
            },
            scope_spans: [ScopeSpans {
                scope: Scope { name: "pombo", version },
                spans: spans.iter().map(Entry::of).collect(),
            }],
        }],
    };
    serde_json::to_string(&document).unwrap_or_default()
}

/// How many spans a collector says that it has refused, though it took the others.
pub(super) fn refused(answer: &[u8]) -> u64 {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Said {
        partial_success: Option<Partial>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Partial {
        #[serde(default)]
        rejected_spans: serde_json::Value,
    }
    let said: Said = serde_json::from_slice(answer).unwrap_or_default();
    let rejected = said.partial_success.map(|partial| partial.rejected_spans).unwrap_or_default();
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Export<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Attributed<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Attributed<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: &'a str,
    kind: u8,
    #[serde(serialize_with = "as_text")]
    start_time_unix_nano: Moment,
    #[serde(serialize_with = "as_text")]
    end_time_unix_nano: Moment,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    trace_id: String,
    span_id: String,
    flags: u32,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    message: &'a str,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: Value<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Value<'a> {
    StringValue(&'a str),
    IntValue(String),
}

const FAILED: u8 = 2;

impl<'a> Entry<'a> {
    fn of(span: &'a Span) -> Entry<'a> {
        let facts = span.facts.iter().map(|(key, fact)| match fact {
            Fact::Text(text) => Attribute::text(key, text),
            Fact::Number(number) => Attribute { key, value: Value::IntValue(number.to_string()) },
        });
        let fault = span.fault.as_deref();
        Entry {
            trace_id: span.at.trace.to_string(),
            span_id: span.at.span.to_string(),
            trace_state: span.at.state.as_deref(),
            parent_span_id: span.parent.map(|parent| parent.to_string()),
            flags: flags(&span.at),
            name: &span.name,
            kind: match span.kind {
                Kind::Internal => 1,
                Kind::Server => 2,
                Kind::Client => 3,
            },
            start_time_unix_nano: span.from,
            // A clock that was set back in between makes no time negative.
            end_time_unix_nano: span.until.max(span.from),
            attributes: facts.chain(fault.map(|fault| Attribute::text("error.type", fault))).collect(),
            links: span.link.iter().map(Link::to).collect(),
            status: fault.map(|message| Status { code: FAILED, message }),
        }
    }
}

impl Link {
    fn to(context: &Context) -> Link {
        let (trace_id, span_id) = (context.trace.to_string(), context.span.to_string());
        Link { trace_id, span_id, flags: flags(context) }
    }
}

impl<'a> Attribute<'a> {
    fn text(key: &'a str, text: &'a str) -> Attribute<'a> {
        Attribute { key, value: Value::StringValue(text) }
    }
}

fn flags(context: &Context) -> u32 {
    u32::from(context.sampled)
}

fn as_text<S: Serializer>(moment: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&moment.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test] // REQ OB-2
    fn a_span_is_written_as_the_protocol_says() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let at = Context::read(parent, Some("a=1")).unwrap();
        let span = Span {
            parent: Some(at.span),
            link: Some(at.clone()),
            at,
            name: "send".into(),
            kind: Kind::Client,
            from: Moment(1_700_000_000_000_000_001),
            until: Moment(1_700_000_000_000_000_000),
            facts: vec![("pombo.reply", "refused".into()), ("pombo.reply.status", Fact::Number(503))],
            fault: Some("unavailable".to_owned()),
        };
        let resource = Resource::new("i1".to_owned());
        let text = export(&resource, std::slice::from_ref(&span));
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let whose = &document["resourceSpans"][0];
        assert_eq!(
            whose["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "pombo"}})
        );
        assert_eq!(
            whose["scopeSpans"][0]["spans"],
            json!([{
                "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
                "traceState": "a=1", "parentSpanId": "b7ad6b7169203331", "flags": 1,
                "name": "send", "kind": 3,
                "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000000000000001",
                "attributes": [
                    {"key": "pombo.reply", "value": {"stringValue": "refused"}},
                    {"key": "pombo.reply.status", "value": {"intValue": "503"}},
                    {"key": "error.type", "value": {"stringValue": "unavailable"}},
                ],
                "links": [{"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "flags": 1}],
                "status": {"code": 2, "message": "unavailable"},
            }])
        );
    }

    #[test]
    fn what_a_collector_refuses_is_read_from_its_answer() {
        for (answer, count) in [
            ("", 0),
            ("{}", 0),
            ("not json", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":null}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"5","errorMessage":"x"}}"#, 5),
            (r#"{"partialSuccess":{"rejectedSpans":3}}"#, 3),
        ] {
            assert_eq!(refused(answer.as_bytes()), count, "{answer}");
        }
    }
}
