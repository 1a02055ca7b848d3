//! The API described: what the document says is what the doors do, and the page can be read anywhere.

use std::collections::BTreeSet;

use axum::body::Body;
use http::StatusCode;
use pombo_web::ROUTES;
use serde_json::{Value, json};

use crate::house::{House, request};

async fn document(house: &House) -> Value {
    let reply = house.send(request("GET", "/openapi.json").body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    reply.json()
}

/// The fields that a request's schema names.
fn described<'a>(document: &'a Value, operation: &'a Value) -> Option<BTreeSet<&'a str>> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let place = schema["$ref"].as_str()?.strip_prefix('#')?;
    let schema = document.pointer(place).filter(|schema| schema["type"] == "object")?;
    Some(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect())
}

#[tokio::test] // REQ IN-1
async fn the_fields_that_are_described_are_those_that_are_read() {
    let house = House::new().await;
    house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
    let message = house.created(&json!({})).await;
    let webhook = house.post("/v1/webhooks", &json!({"url": "https://hooks.example/x"})).await.json();
    let wish = json!({"filter": {"reference": "none"}});
    let operation = house.post("/v1/dead-letters/reprocess", &wish).await.json();
    let wish = json!({"name": "x", "channel": "mail", "template": "greeting"});
    let campaign = house.post("/v1/campaigns", &wish).await.json();
    let document = document(&house).await;
    let mut seen = 0;
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/v1/") && route.access().is_some()) {
        let operation_of = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        let Some(fields) = described(&document, operation_of) else { continue };
        let noun = match route.path.split('/').nth(2).unwrap() {
            "channels" => "crm",
            "templates" => "greeting",
            "keys" => "key_viewer",
            "webhooks" => webhook["id"].as_str().unwrap(),
            "operations" => operation["id"].as_str().unwrap(),
            "campaigns" => campaign["id"].as_str().unwrap(),
            _ => &message,
        };
        let path = route.path.replace("{id}", noun).replace("{name}", noun);
        let odd = json!({"no-such-field": 1}).to_string();
        let reply = house.call(route.method.as_str(), &path, odd).await;
        // Whoever writes a field that there is not is told which there are.
        let told = reply.refused("INVALID_FIELD", "no-such-field");
        let hint = told["hint"].as_str().unwrap();
        let mut told: BTreeSet<&str> = hint
            .strip_prefix("there are ")
            .unwrap_or_default()
            .split(", ")
            .filter(|it| !it.is_empty())
            .collect();
        match route.path {
            // Which guesses what was meant; a test beside the schemas holds them together.
            "/v1/messages" => continue,
            "/v1/classifications" => told.extend(["kind", "channel"]),
            _ => {}
        }
        assert_eq!(fields, told, "{route:?}: the schema of its body and what is read are not the same");
        seen += 1;
    }
    assert!(seen > 20, "only {seen} requests were looked at");
}

#[tokio::test] // REQ IN-1
async fn examples_are_taken_as_they_stand() {
    let house = House::new().await;
    house.put_template("greeting", &json!({"subject": "Hello", "text": "you"})).await;
    let document = document(&house).await;
    for (path, method) in [
        ("/v1/messages", "post"),
        ("/v1/messages/batch", "post"),
        ("/v1/dead-letters/reprocess", "post"),
        ("/v1/dead-letters/discard", "post"),
        ("/v1/templates/{name}", "put"),
        ("/v1/templates/{name}/render", "post"),
        ("/v1/classifications", "post"),
        ("/v1/retry-decisions", "post"),
        ("/v1/channels/{name}/hold", "post"),
        ("/v1/channels/{name}/open", "post"),
        ("/v1/keys", "post"),
        ("/v1/keys/{id}", "patch"),
        ("/v1/keys/{id}/rotate", "post"),
        ("/v1/webhooks", "post"),
        ("/v1/store/pause", "post"),
        ("/v1/privacy/erase", "post"),
        ("/emails", "post"),
        ("/emails/batch", "post"),
    ] {
        let content = &document["paths"][path][method]["requestBody"]["content"]["application/json"];
        let noun = if path.contains("templates") { "greeting" } else { "crm" };
        let target = path.replace("{name}", noun).replace("{id}", "key_viewer");
        let reply = house.call(&method.to_ascii_uppercase(), &target, content["example"].to_string()).await;
        assert!(reply.status.is_success(), "{method} {path}: {}", reply.text);
    }
}

#[tokio::test] // REQ IN-1
async fn the_page_can_be_read_without_script_and_without_anything_from_elsewhere() {
    let house = House::new().await;
    let reply = house.send(request("GET", "/docs").body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = reply.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for odd in
        ["<script", "javascript:", "<link", "<img", "<iframe", "@import", "url(", " style=", " onclick"]
    {
        assert!(!reply.text.contains(odd), "{odd}");
    }
    for (start, _) in reply.text.match_indices("href=\"") {
        let to = &reply.text[start + 6..];
        assert!(to.starts_with('#') || to.starts_with("/openapi.json\""), "{}", &to[..40]);
    }
    for route in ROUTES {
        let shown = format!("</b> <code>{}</code>", route.path);
        assert!(reply.text.contains(&shown), "{route:?} is not on the page");
    }
    assert!(reply.text.contains("name=\"viewport\""));
}

#[tokio::test]
async fn a_node_without_the_api_does_not_describe_it() {
    let house = House::new().await;
    let probes = pombo_web::probes(house.door.clone());
    for path in ["/docs", "/openapi.json"] {
        let call = request("GET", path).body(Body::empty()).unwrap();
        let service = hyper_util::service::TowerToHyperService::new(probes.clone());
        let response = hyper::service::Service::call(&service, call).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
}
