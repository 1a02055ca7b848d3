//! The API described for programs: OpenAPI 3.1, made of the types that are read and answered.
//!
//! Every route has an entry in one of the tables below, with its words, its parameters and its answers. What follows
//! from the form of a route is added here and not written in the tables: the key that it asks for, and the problems
//! that anything with a key, a body, a cursor or a name in its path can answer with.

mod alerts;
mod audit;
mod campaigns;
mod entry;
mod events;
mod house;
mod ingress;
mod learning;
mod letters;
mod messages;
mod reports;
mod request;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use self::entry::{Answer, Entry, Param};
use crate::auth::Role;
use crate::ingress::Surface;
use crate::problem::Code;
use crate::route::{ROUTES, Route, Way};

/// The tables, in the order in which they are read.
const TABLES: &[&[Entry]] = &[
    messages::ENTRIES,
    campaigns::ENTRIES,
    letters::ENTRIES,
    house::ENTRIES,
    learning::ENTRIES,
    alerts::ENTRIES,
    reports::ENTRIES,
    events::ENTRIES,
    audit::ENTRIES,
    ingress::ENTRIES,
];

/// What the sections are about.
const TAGS: &[(&str, &str)] = &[
    ("messages", "Handing messages in, following them and taking them back."),
    ("campaigns", "One template to many people, one at a time, at a pace."),
    ("dead-letters", "Messages that failed: grouped by cause, put right, sent again or given up."),
    ("operations", "Work that outlasts the request that asked for it."),
    ("alerts", "What is wrong, who is told and who looks after it."),
    ("reports", "Figures that people are sent regularly."),
    ("channels", "Where messages go out, and what makes them wait."),
    ("templates", "What messages say, version by version."),
    ("suppressions", "Who is not written to any more."),
    ("classifications", "What an error would mean."),
    ("retry-decisions", "Whether a claim that failed is submitted again, and when."),
    ("keys", "Who may come in, and how far."),
    ("webhooks", "Who is told of events."),
    ("events", "What happens, as it happens."),
    ("audit", "What happened and by whom, and whether the record of it is whole."),
    ("receipts", "What providers report of messages that they took. No key, but proof."),
    ("learning", "What retries have taught."),
    ("rules", "What errors mean: rules that there are, and those that history suggests."),
    ("stats", "What was counted, and how well it goes."),
    ("store", "Whether anything is sent at all."),
    ("privacy", "What people may ask for who were written to."),
    ("health", "Whether a node is well, and these pages."),
    ("drop-in", "Doors in the manner of other systems, with their keys, answers and errors."),
];

const ABOUT: &str = "Hand messages in; they are delivered, tried again by policy, or kept as dead letters for somebody \
    to decide about. JSON in snake_case, times in RFC 3339. A key goes in `Authorization: Bearer KEY`. Errors are \
    problem documents with a stable `code` and a `hint`. Whatever stands under an address that is none of these is \
    NOT_FOUND, and a method that an address does not take is METHOD_NOT_ALLOWED.";

/// What went wrong, why, and what to do next.
#[derive(JsonSchema)]
#[schemars(rename = "Problem")]
#[allow(dead_code)]
pub(crate) struct ProblemDocument {
    /// `urn:pombo:error:` and the code.
    r#type: String,
    title: String,
    /// The status of the answer.
    status: u16,
    /// What programs key on.
    code: String,
    /// What is wrong here.
    detail: String,
    /// What to do about it.
    hint: String,
    /// Where it lies in fields of the request: each of them.
    #[schemars(skip_serializing_if = "Option::is_none")]
    errors: Vec<FieldProblem>,
    /// The message that it is about, or the first one under the same idempotency key.
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    message_id: Option<String>,
    /// The state that stands in the way.
    #[schemars(skip_serializing_if = "Option::is_none", with = "String")]
    state: Option<String>,
}

/// One field that cannot be accepted.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct FieldProblem {
    code: String,
    field: String,
    reason: String,
    hint: String,
}

/// The document.
pub(crate) static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// The document as an answer.
pub(crate) fn answer() -> Response {
    static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| serde_json::to_vec(&*DOCUMENT).unwrap_or_default());
    let mut response = Response::new(Body::from(TEXT.as_slice()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What describes a route.
fn entry(route: &Route) -> Option<&'static Entry> {
    let all = || TABLES.iter().copied().flatten();
    all().find(|entry| entry.method == route.method.as_str() && entry.path == route.path)
}

fn document() -> Value {
    let mut writer = Writer::new();
    let mut paths: Map<String, Value> = Map::new();
    for (route, entry) in ROUTES.iter().filter_map(|route| Some((route, entry(route)?))) {
        let operation = writer.operation(route, entry);
        let place = paths.entry(entry.path).or_insert_with(|| json!({}));
        place[entry.method.to_ascii_lowercase()] = operation;
    }
    let tags: Vec<Value> =
        TAGS.iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pombo",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": writer.schemas(),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of Pombo's."},
                "apikey": {"type": "apiKey", "in": "header", "name": "apikey", "description": "A key of Pombo's, where clients of Evolution and Supabase put theirs."},
                "receipt": {"type": "apiKey", "in": "header", "name": "x-receipt-token", "description": "The channel's `receipt_secret`; also as `Authorization: Bearer` or `apikey`. Or a signature: see the parameters."},
            },
        },
    })
}

/// Writes operations, and gathers the schemas that they refer to.
struct Writer {
    /// For what is answered: by name, under `components`.
    answered: SchemaGenerator,
    /// For what is asked, where a field may be left out that an answer always has: each in one piece.
    asked: SchemaGenerator,
    requests: Map<String, Value>,
}

impl Writer {
    fn new() -> Writer {
        let settings = |contract, inline| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.contract = contract;
                settings.inline_subschemas = inline;
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Writer {
            answered: settings(Contract::Serialize, false).into_generator(),
            asked: settings(Contract::Deserialize, true).into_generator(),
            requests: Map::new(),
        }
    }

    fn schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.answered.take_definitions(true);
        schemas.append(&mut self.requests);
        schemas
    }

    fn operation(&mut self, route: &Route, entry: &Entry) -> Value {
        let mut operation = json!({
            "operationId": entry.id,
            "tags": [entry.tag()],
            "summary": entry.summary,
            "parameters": self.parameters(entry),
            "responses": self.responses(route, entry),
            "security": security(route),
        });
        if !entry.about.is_empty() {
            operation["description"] = entry.about.into();
        }
        if let Some(access) = route.access() {
            let roles = Role::ALL.into_iter().filter(|role| access.allows(*role)).map(Role::as_str);
            operation["x-pombo-roles"] = roles.collect();
        }
        if !entry.bodies.is_empty() {
            let mut content = Map::new();
            for body in entry.bodies {
                let schema = match body.name {
                    "" => (body.shape)(&mut self.asked).to_value(),
                    name => {
                        let mut schema = (body.shape)(&mut self.asked).to_value();
                        if !matches!(route.way, Way::DropIn(..)) && schema.get("properties").is_some() {
                            schema["additionalProperties"] = false.into();
                        }
                        self.requests.insert(name.to_owned(), schema);
                        json!({"$ref": format!("#/components/schemas/{name}")})
                    }
                };
                let mut media = json!({ "schema": schema });
                if !body.example.is_empty() {
                    // Of a stream the text is the example.
                    let read = serde_json::from_str(body.example);
                    media["example"] = read.unwrap_or_else(|_| body.example.into());
                }
                content.insert(body.media.to_owned(), media);
            }
            operation["requestBody"] = json!({"required": entry.body_needed, "content": content});
        }
        operation
    }

    fn parameters(&mut self, entry: &Entry) -> Vec<Value> {
        let mut parameters = Vec::new();
        let mut add = |place: &str, needed: bool, param: &Param, asked: &mut SchemaGenerator| {
            parameters.push(json!({
                "name": param.name, "in": place, "required": needed, "description": param.about,
                "schema": (param.shape)(asked),
            }));
        };
        for param in entry.names {
            add("path", true, param, &mut self.asked);
        }
        for param in entry.query {
            add("query", false, param, &mut self.asked);
        }
        for param in entry.headers {
            add("header", false, param, &mut self.asked);
        }
        parameters
    }

    fn responses(&mut self, route: &Route, entry: &Entry) -> Map<String, Value> {
        let mut responses = Map::new();
        for answer in entry.answers {
            self.response(&mut responses, answer);
        }
        if let Way::DropIn(surface, ..) = route.way {
            for answer in ingress::refusals(surface, entry) {
                self.response(&mut responses, &answer);
            }
            return responses;
        }
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        let mut codes = [follows(route, entry), entry.codes.to_vec()].concat();
        codes.sort_unstable();
        codes.dedup();
        for code in codes {
            by_status.entry(code.status().as_u16()).or_default().push(code);
        }
        let problem = self.answered.subschema_for::<ProblemDocument>().to_value();
        for (status, codes) in by_status {
            let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
            let titles: Vec<String> =
                codes.iter().map(|code| format!("{}: {}.", code.as_str(), code.title())).collect();
            let mut response = json!({
                "description": titles.join(" "),
                "content": {"application/problem+json": {
                    "schema": {"allOf": [problem, {"properties": {"code": {"enum": names}}}]},
                }},
            });
            if codes.iter().any(|code| code.retry_after().is_some()) {
                response["headers"] = json!({"Retry-After": {
                    "description": "Seconds after which it is worth another try.",
                    "schema": {"type": "integer"},
                }});
            }
            responses.insert(status.to_string(), response);
        }
        responses
    }

    fn response(&mut self, responses: &mut Map<String, Value>, answer: &Answer) {
        let response = responses
            .entry(answer.status.to_string())
            .or_insert_with(|| json!({ "description": answer.about }));
        if let Some(shape) = answer.shape {
            response["content"][answer.media] = json!({ "schema": shape(&mut self.answered) });
        }
        for (name, about) in answer.headers {
            response["headers"][*name] = json!({"description": about, "schema": {"type": "string"}});
        }
        for (operation, parameter) in answer.links {
            response["links"][*operation] = json!({"operationId": operation, "parameters": {*parameter: format!("$response.body#/{}", entry::ID)}});
        }
    }
}

/// The problems that a route can answer with because of its form.
fn follows(route: &Route, entry: &Entry) -> Vec<Code> {
    let mut codes = Vec::new();
    match route.way {
        Way::Keyed(..) => codes.extend([
            Code::Unauthorized,
            Code::Forbidden,
            Code::TooManyFailures,
            Code::Overloaded,
            Code::Internal,
            Code::ReadTooLong,
            Code::StoreUnavailable,
            Code::ShuttingDown,
        ]),
        Way::Proven(_) => codes.extend([
            Code::Unauthorized,
            Code::Overloaded,
            Code::Internal,
            Code::ReadTooLong,
            Code::StoreUnavailable,
            Code::ShuttingDown,
        ]),
        Way::Open(_) | Way::Watched(_) | Way::Page(_) | Way::Preflight | Way::DropIn(..) => {}
    }
    if !entry.bodies.is_empty() {
        codes.extend([
            Code::InvalidJson,
            Code::RequestTimeout,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::InvalidField,
        ]);
    }
    if !entry.query.is_empty() || !entry.headers.is_empty() {
        codes.push(Code::InvalidField);
    }
    if entry.query.iter().any(|param| param.name == "cursor") {
        codes.push(Code::InvalidCursor);
    }
    if !entry.names.is_empty() {
        codes.push(Code::NotFound);
    }
    codes
}

/// What a caller shows.
fn security(route: &Route) -> Value {
    match route.way {
        Way::Open(_) | Way::Page(_) | Way::Preflight => json!([]),
        Way::Watched(_) => json!([{}, {"key": []}]),
        Way::Keyed(..) | Way::DropIn(Surface::Resend, ..) => json!([{"key": []}]),
        Way::DropIn(Surface::Evolution, ..) => json!([{"apikey": []}]),
        Way::DropIn(Surface::Rest | Surface::Function, ..) => json!([{"apikey": []}, {"key": []}]),
        Way::Proven(_) => json!([{"receipt": []}, {}]),
    }
}

#[cfg(test)]
mod tests;
