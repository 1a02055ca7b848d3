//! What comes of a template, in a frame of its own in which nothing runs.

use axum::response::Response;
use http::{Method, StatusCode};
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::{document, find, made_up, written};
use crate::dash::form::Form;
use crate::dash::frame;
use crate::dash::reasons;
use crate::dash::visit::{Reply, Visit};
use crate::dash::words::Lang;
use crate::problem::Problem;

const RENDER: &str = "/v1/templates/{name}/render";

/// The version that there is, filled with the names of its gaps.
pub(crate) async fn preview(visit: Visit) -> Result<Response, Problem> {
    let words = find(&visit, visit.asked("version").as_deref()).await?;
    let version = words.version;
    let payload = made_up(&words.into());
    let rendered =
        visit.act(Method::POST, RENDER, visit.name(), &json!({"version": version, "payload": payload})).await;
    Ok(shown(visit.lang(), &rendered))
}

/// What was typed, filled with what was typed for it.
pub(crate) async fn try_out(visit: Visit, typed: Form) -> Result<Reply, Problem> {
    let lang = visit.lang();
    let payload = match typed.given("payload") {
        None => Ok(json!({})),
        Some(text) => serde_json::from_str::<Value>(text),
    };
    let rendered = match payload {
        Err(error) => Err(Problem::field(
            "payload",
            lang.say(format!("is not JSON: {error}"), format!("não é JSON: {error}")),
            "",
        )),
        Ok(payload) => {
            let mut ask = json!({"payload": payload, "draft": document(&written(&typed))});
            if let Some(kind) = typed.given("kind") {
                ask["kind"] = kind.into();
            }
            visit.act(Method::POST, RENDER, visit.name(), &ask).await
        }
    };
    Ok(Reply::Raw(shown(lang, &rendered)))
}

/// The frame has no stylesheet of ours: what stands in it looks as it will elsewhere.
const FONT: &str = "font: 14px/1.5 system-ui, sans-serif; color: #15201f";

fn shown(lang: Lang, rendered: &Result<Value, Problem>) -> Response {
    let (status, html) = match rendered {
        Ok(rendered) => (StatusCode::OK, content(lang, &rendered["content"])),
        Err(problem) => (StatusCode::UNPROCESSABLE_ENTITY, trouble(lang, problem)),
    };
    let mut response = frame::foreign(&format!("<!doctype html>{}", html.into_string()));
    *response.status_mut() = status;
    response
}

fn content(lang: Lang, content: &Value) -> Markup {
    let text = |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    html! {
        @if let Some(subject) = text("subject") {
            div style=(format!("{FONT}; padding: 0 0 10px; margin: 0 0 12px; border-bottom: 1px solid #dbe2e1")) { small style="color: #53615f" { (lang.say("Subject", "Assunto")) } br; strong { (subject) } }
        }
        @match (text("html"), text("text")) {
            (Some(html), _) => (PreEscaped(html)),
            (None, Some(words)) if text("subject").is_some() => pre style=(format!("{FONT}; white-space: pre-wrap")) { (words) },
            (None, Some(words)) => div style=(format!("{FONT}; white-space: pre-wrap; background: #e0f0f0; border-radius: 4px 14px 14px 14px; padding: 10px 14px; max-width: 32em")) { (words) },
            (None, None) => pre style=(FONT) { (content.to_string()) },
        }
    }
}

fn trouble(lang: Lang, problem: &Problem) -> Markup {
    html! {
        div style=(format!("{FONT}; color: #ad1f1a")) {
            p { strong { (lang.problem(problem.code)) } }
            @for error in &problem.errors { p { code { (error.field) } " " (reasons::wrong(lang, error)) } }
            @if problem.errors.is_empty() { p lang="en" { (problem.detail) } p lang="en" { (problem.hint) } }
        }
    }
}
