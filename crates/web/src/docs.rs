//! The API described for people: one page, made of the same document, that needs nothing from elsewhere.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderValue, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::openapi::DOCUMENT;

const STYLE: &str = include_str!("docs/style.css");
/// Schemas are shown so deep; what lies below is a link to the schema's own entry.
const DEPTH_MAX: usize = 12;

/// The page as an answer. Nothing on it runs, and nothing is fetched: its style alone is let in, by its digest.
pub(crate) fn answer() -> Response {
    static PAGE: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
        let digest = BASE64.encode(Sha256::digest(STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        (
            page(&DOCUMENT),
            HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'")),
        )
    });
    let mut response = Response::new(Body::from(PAGE.0.as_str()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, PAGE.1.clone());
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Text as HTML shows it, with what stands in backquotes as code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (n, part) in text.split('`').enumerate() {
        match n % 2 {
            0 => html.push_str(&plain(part)),
            _ => {
                let _ = write!(html, "<code>{}</code>", plain(part));
            }
        }
    }
    html
}

fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn page(document: &Value) -> String {
    let mut html = String::with_capacity(256 * 1024);
    // Writing into memory cannot fail.
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Pombo API</title>\
         <style>{STYLE}</style></head><body>\n<header><h1>Pombo API <small>{}</small></h1><p>{}</p>\
         <p>For programs: <a href=\"/openapi.json\">/openapi.json</a></p></header>\n<nav><ul>",
        plain(text(&document["info"], "version")),
        prose(text(&document["info"], "description")),
    );
    let operations: Vec<(&String, &String, &Value)> = members(&document["paths"])
        .flat_map(|(path, methods)| members(methods).map(move |(method, it)| (path, method, it)))
        .collect();
    for tag in items(&document["tags"]) {
        let name = plain(text(tag, "name"));
        let _ = write!(html, "<li><a href=\"#{name}\">{name}</a></li>");
    }
    html.push_str("<li><a href=\"#schemas\">schemas</a></li></ul></nav>\n<main>");
    for tag in items(&document["tags"]) {
        let name = text(tag, "name");
        let _ = write!(
            html,
            "\n<section id=\"{0}\"><h2>{0}</h2><p>{1}</p>",
            plain(name),
            prose(text(tag, "description"))
        );
        for (path, method, it) in operations.iter().filter(|(_, _, it)| it["tags"][0] == name) {
            operation(&mut html, path, method, it);
        }
        html.push_str("</section>");
    }
    html.push_str("\n<section id=\"schemas\"><h2>schemas</h2>");
    for (name, schema) in members(&document["components"]["schemas"]) {
        let _ = write!(html, "<details id=\"schema-{0}\"><summary><code>{0}</code></summary>", plain(name));
        if !text(schema, "description").is_empty() {
            let _ = write!(html, "<p>{}</p>", prose(text(schema, "description")));
        }
        fields(&mut html, schema, 0);
        html.push_str("</details>");
    }
    html.push_str("</section></main></body></html>\n");
    html
}

fn operation(html: &mut String, path: &str, method: &str, it: &Value) {
    let id = plain(text(it, "operationId"));
    let _ = write!(
        html,
        "\n<details class=\"operation\" id=\"{id}\"><summary><b class=\"{method}\">{}</b> <code>{}</code> \
         <span>{}</span></summary>",
        method.to_ascii_uppercase(),
        plain(path),
        prose(text(it, "summary")),
    );
    if !text(it, "description").is_empty() {
        let _ = write!(html, "<p>{}</p>", prose(text(it, "description")));
    }
    let roles: Vec<&str> = items(&it["x-pombo-roles"]).filter_map(Value::as_str).collect();
    if !roles.is_empty() {
        let _ = write!(html, "<p>Roles: {}</p>", roles.join(", "));
    }
    if items(&it["parameters"]).next().is_some() {
        html.push_str("<h4>Parameters</h4><dl>");
        for param in items(&it["parameters"]) {
            let _ = write!(
                html,
                "<dt><code>{}</code> <i>{}, {}</i></dt><dd>{}</dd>",
                plain(text(param, "name")),
                text(param, "in"),
                kind(&param["schema"]),
                prose(text(param, "description")),
            );
        }
        html.push_str("</dl>");
    }
    for (media, body) in members(&it["requestBody"]["content"]) {
        let _ = write!(html, "<h4>Body <i>{}, {}</i></h4>", plain(media), kind(&body["schema"]));
        let example = match &body["example"] {
            Value::Null => continue,
            Value::String(line) => line.clone(),
            example => serde_json::to_string_pretty(example).unwrap_or_default(),
        };
        let _ = write!(html, "<pre>{}</pre>", plain(&example));
    }
    html.push_str("<h4>Answers</h4><dl>");
    for (status, answer) in members(&it["responses"]) {
        let kinds: Vec<String> = members(&answer["content"])
            .map(|(media, it)| format!("{}, {}", plain(media), kind(&it["schema"])))
            .collect();
        let _ = write!(
            html,
            "<dt><b>{status}</b> <i>{}</i></dt><dd>{}</dd>",
            kinds.join("; "),
            prose(text(answer, "description"))
        );
    }
    html.push_str("</dl></details>");
}

/// What a value is, in a few words, with a link where it has a name.
fn kind(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").strip_prefix("#/components/schemas/") {
        return format!("<a href=\"#schema-{0}\">{0}</a>", plain(name));
    }
    for joined in ["anyOf", "oneOf", "allOf"] {
        let parts: Vec<String> = items(&schema[joined]).map(kind).filter(|it| !it.is_empty()).collect();
        if !parts.is_empty() {
            return parts.join(" or ");
        }
    }
    if let Some(only) = schema.get("const") {
        return plain(&only.to_string());
    }
    let named: Vec<String> = items(&schema["enum"]).map(|it| plain(&it.to_string())).collect();
    if !named.is_empty() {
        return named.join(", ");
    }
    match &schema["type"] {
        Value::String(one) if one == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(one) => match text(schema, "format") {
            "date-time" => "time".to_owned(),
            _ => plain(one),
        },
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).map(plain).collect::<Vec<_>>().join(" or ")
        }
        _ if schema.get("properties").is_some() => String::new(),
        _ => "anything".to_owned(),
    }
}

fn fields(html: &mut String, schema: &Value, depth: usize) {
    if depth == DEPTH_MAX {
        return;
    }
    if schema.get("properties").is_none() {
        let _ = write!(html, "<p>{}</p>", kind(schema));
        return;
    }
    let needed = |name: &str| items(&schema["required"]).any(|it| it == name);
    html.push_str("<dl>");
    for (name, field) in members(&schema["properties"]) {
        let always = if needed(name) { "" } else { ", may be left out" };
        let _ = write!(
            html,
            "<dt><code>{}</code> <i>{}{always}</i></dt><dd>{}",
            plain(name),
            kind(field),
            prose(text(field, "description"))
        );
        if field.get("properties").is_some() {
            fields(html, field, depth + 1);
        }
        html.push_str("</dd>");
    }
    html.push_str("</dl>");
}
