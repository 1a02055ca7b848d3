//! The example processes: well-formed, whole, and asking as the workers answer.

use std::collections::BTreeMap;

use pombo_kernel::xml::{Step, walk};
use regex::Regex;

struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

fn elements(file: &str) -> Vec<Element> {
    let path = format!("{}/../../docs/examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let attribute = Regex::new(r#"([\w:]+)="([^"]*)""#).unwrap();
    let mut found = Vec::new();
    walk(&text, |step| {
        if let Step::Close { tag, inner, .. } = step {
            let attributes = attribute.captures_iter(tag.attributes);
            found.push(Element {
                name: tag.local().to_owned(),
                attributes: attributes.map(|it| (it[1].to_owned(), it[2].to_owned())).collect(),
                text: text[inner].trim().to_owned(),
            });
        }
    })
    .unwrap();
    found
}

const NODES: [&str; 7] = [
    "startEvent",
    "serviceTask",
    "boundaryEvent",
    "intermediateCatchEvent",
    "exclusiveGateway",
    "endEvent",
    "userTask",
];

fn check(file: &str, (task, kind): (&str, &str), (timer, when): (&str, &str)) {
    let all = elements(file);
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        all.iter().filter(move |it| names.contains(&it.name))
    };
    let asks = named(&[task]).filter(|it| it.attribute(kind) == Some("analyze-retry")).count();
    assert_eq!(asks, 1, "{file}");
    let timers: Vec<&str> = named(&[timer]).map(|it| it.text.as_str()).collect();
    assert_eq!(timers, [when], "{file}");
    let mut codes: Vec<_> = named(&["error"]).filter_map(|it| it.attribute("errorCode")).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["MAX_RETRIES_EXCEEDED", "PERMANENT_ERROR", "SUBMISSION_FAILED"], "{file}");

    // Every arrow leads from something to something, and everything is drawn.
    let nodes: Vec<&str> = named(&NODES).filter_map(|it| it.attribute("id")).collect();
    let flows: Vec<&Element> = named(&["sequenceFlow"]).collect();
    for flow in &flows {
        for end in ["sourceRef", "targetRef"] {
            assert!(nodes.contains(&flow.attribute(end).unwrap()), "{file}: {:?}", flow.attribute("id"));
        }
    }
    let drawn: Vec<&str> =
        named(&["BPMNShape", "BPMNEdge"]).filter_map(|it| it.attribute("bpmnElement")).collect();
    let flows = flows.iter().filter_map(|flow| flow.attribute("id"));
    for id in nodes.iter().copied().chain(flows) {
        assert!(drawn.contains(&id), "{file}: {id} is not drawn");
    }
}

#[test] // REQ RD-5
fn the_camunda_8_process_waits_until_the_time_that_was_decided() {
    check("camunda8-retry.bpmn", ("taskDefinition", "type"), ("timeDate", "=date and time(nextRetryTime)"));
}

#[test] // REQ RD-5
fn the_camunda_7_process_waits_for_the_minutes_that_were_decided() {
    check("camunda7-retry.bpmn", ("serviceTask", "camunda:topic"), ("timeDuration", "PT${backoffMinutes}M"));
}
