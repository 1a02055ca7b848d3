use std::collections::BTreeSet;

use super::*;
use crate::problem::{FieldError, Problem};

#[test]
fn every_route_is_described_and_nothing_else_is() {
    for route in ROUTES {
        assert!(
            entry(route).is_some(),
            "{route:?} is not described: add `entry(\"{}\", \"{}\", …)` to the ENTRIES of the table in \
             crates/web/src/openapi/ that it belongs to, with its words, its parameters, its body and its answers",
            route.method,
            route.path
        );
    }
    for entry in TABLES.iter().copied().flatten() {
        let routed =
            ROUTES.iter().any(|route| route.method.as_str() == entry.method && route.path == entry.path);
        assert!(routed, "{} {} is described, and there is no such route", entry.method, entry.path);
    }
}

#[test]
fn entries_have_what_readers_need() {
    let mut ids = BTreeSet::new();
    for entry in TABLES.iter().copied().flatten() {
        let name = format!("{} {}", entry.method, entry.path);
        assert!(ids.insert(entry.id), "{name}: another operation is called {}", entry.id);
        assert!(!entry.summary.is_empty() && !entry.summary.ends_with('.'), "{name}");
        assert!(!entry.answers.is_empty(), "{name} says nothing of its answers");
        assert!(TAGS.iter().any(|(tag, _)| *tag == entry.tag()), "{name}: add `{}` to TAGS", entry.tag());
        let braced = entry.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let named: Vec<&str> = entry.names.iter().map(|param| param.name).collect();
        assert_eq!(braced.collect::<Vec<_>>(), named, "{name}: `names` are not those of the path");
        for body in entry.bodies.iter().filter(|body| body.media == "application/json") {
            serde_json::from_str::<Value>(body.example)
                .unwrap_or_else(|error| panic!("{name}: its example is not JSON: {error}"));
        }
    }
}

/// Every member of that name, wherever it stands.
fn all<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(member, value)| {
            if member == name {
                found.push(value);
            }
            all(value, name, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| all(item, name, found)),
        _ => {}
    }
}

#[test]
fn whatever_the_document_refers_to_is_there() {
    let document = &*DOCUMENT;
    let mut refs = Vec::new();
    all(document, "$ref", &mut refs);
    assert!(refs.len() > 100);
    for to in refs {
        let place = to.as_str().and_then(|to| to.strip_prefix('#')).unwrap();
        assert!(document.pointer(place).is_some(), "{to} leads nowhere");
    }
    let mut links = Vec::new();
    all(document, "links", &mut links);
    for (id, link) in links.iter().flat_map(|links| links.as_object().unwrap()) {
        let entry = TABLES.iter().copied().flatten().find(|entry| entry.id == id);
        let entry = entry.unwrap_or_else(|| panic!("a link leads to `{id}`, which there is not"));
        for parameter in link["parameters"].as_object().unwrap().keys() {
            assert!(entry.names.iter().any(|param| param.name == parameter), "{id} has no {parameter}");
        }
    }
    // A name that two types share would get a number.
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "two types are called {name}");
        assert!(!name.ends_with("View"), "{name} is our own word for it");
    }
}

#[test]
fn a_request_of_one_name_has_one_shape() {
    let mut shapes: BTreeMap<&str, Value> = BTreeMap::new();
    let mut writer = Writer::new();
    for body in TABLES.iter().copied().flatten().flat_map(|entry| entry.bodies) {
        let shape = (body.shape)(&mut writer.asked).to_value();
        let first = shapes.entry(body.name).or_insert_with(|| shape.clone());
        assert_eq!(*first, shape, "{} is two things", body.name);
    }
}

#[test]
fn a_problem_has_the_fields_that_are_described() {
    let error =
        FieldError { code: Code::InvalidField, field: "to".into(), reason: "r".into(), hint: "h".into() };
    let full = Problem {
        message_id: Some("msg_".to_owned()),
        state: Some("sent"),
        ..Problem::fields(vec![error.clone()])
    };
    let schema = &DOCUMENT["components"]["schemas"]["Problem"];
    let described: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let full = serde_json::to_value(full).unwrap();
    assert_eq!(full.as_object().unwrap().keys().collect::<BTreeSet<_>>(), described);
    let least = serde_json::to_value(Problem::internal()).unwrap();
    let required: BTreeSet<&str> =
        schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(least.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>(), required);
    let field = serde_json::to_value(error).unwrap();
    let described = &DOCUMENT["components"]["schemas"]["FieldProblem"]["properties"];
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&field), names(described));
}

#[test]
fn a_message_is_described_by_the_fields_that_it_has() {
    use pombo_kernel::message::Json;
    use pombo_kernel::request::Request;
    let (text, json) = (|| Some("x".to_owned()), || Json::from_text("{}".to_owned()).ok());
    let full = Request {
        channel: "crm".to_owned(),
        to: "x".to_owned(),
        kind: text(),
        template: text(),
        payload: json(),
        content: json(),
        lane: text(),
        priority: Some(5),
        send_at: Some(pombo_kernel::time::Time::MAX),
        expires_after: Some(pombo_kernel::time::Span::ZERO),
        reference: text(),
        user_id: text(),
        ordering_key: text(),
        metadata: json(),
        retry: Some(pombo_kernel::policy::Overrides::default()),
        override_suppression: Some(true),
        idempotency_key: text(),
    };
    let full = serde_json::to_value(full).unwrap();
    let described = &DOCUMENT["components"]["schemas"]["MessageRequest"]["properties"];
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&full), names(described));
}
