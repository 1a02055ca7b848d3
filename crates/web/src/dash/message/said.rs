//! What a message says: as it is shown to whoever gets it, and as it was handed in.

use axum::response::Response;
use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Persons, REVEALED, Story, find};
use crate::dash::frame;
use crate::dash::parts::{self, encoded, facts};
use crate::dash::visit::Visit;
use crate::problem::Problem;
use crate::route::no_address;

/// What it says: its own words, or those that its template makes of its payload.
async fn words(visit: &Visit, story: &Story) -> Result<Option<Value>, Problem> {
    if let Some(content) = &story.content {
        return Ok(Some(content.clone()));
    }
    let (Some(template), true) = (&story.template, visit.may(&Method::POST, RENDER)) else { return Ok(None) };
    let payload = story.payload.clone().unwrap_or_else(|| json!({}));
    let ask = json!({"payload": payload, "version": story.template_version, "channel": story.channel});
    let mut rendered = visit.act(Method::POST, RENDER, template, &without_null(ask)).await?;
    Ok(Some(rendered["content"].take()))
}

const RENDER: &str = "/v1/templates/{name}/render";

fn without_null(mut ask: Value) -> Value {
    if let Some(members) = ask.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    ask
}

fn text<'a>(content: &'a Value, name: &str) -> Option<&'a str> {
    content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

pub(super) async fn content(visit: &Visit, story: &Story, persons: Persons) -> Markup {
    let lang = visit.lang();
    let words = words(visit, story).await;
    let shown = match &words {
        Ok(Some(content)) => as_seen(visit, story, content, persons),
        Ok(None) => html! {},
        Err(problem) => {
            html! { p .flash.bad { (lang.problem(problem.code)) ": " span lang="en" { (problem.detail) } } }
        }
    };
    html! {
        section .card aria-labelledby="said-title" {
            header { h2 #said-title { (lang.say("What it says", "O que ela diz")) } }
            (shown)
            @if let Some(payload) = &story.payload {
                details .more open[words.is_err()] { summary { (lang.say("Payload", "Dados")) } (parts::json(payload)) }
            }
            @if let Some(content) = &story.content {
                details .more { summary { (lang.say("Content as it was handed in", "Conteúdo como foi entregue")) } (parts::json(content)) }
            }
        }
    }
}

/// As whoever gets it sees it. Somebody else's HTML is shown in a frame in which nothing runs.
fn as_seen(visit: &Visit, story: &Story, content: &Value, persons: Persons) -> Markup {
    let lang = visit.lang();
    let preview = match persons {
        Persons::AsUsual => format!("/messages/{}/preview", encoded(&story.id)),
        Persons::Revealed => format!("/messages/{}/preview?{REVEALED}", encoded(&story.id)),
    };
    let heads: Vec<(&str, Markup)> = [
        ("from", lang.say("From", "De")),
        ("subject", lang.say("Subject", "Assunto")),
        ("method", lang.say("Method", "Método")),
    ]
    .into_iter()
    .filter_map(|(name, words)| Some((words, html! { (text(content, name)?) })))
    .collect();
    let headers = content.get("headers").filter(|it| it.as_object().is_some_and(|it| !it.is_empty()));
    let attached = content.get("attachments").and_then(Value::as_array).map_or(0, Vec::len);
    html! {
        @if !heads.is_empty() { (facts(heads)) }
        @if text(content, "html").is_some() {
            iframe .letter sandbox="" title=(lang.say("The mail as its reader sees it", "O e-mail como quem recebe o vê")) src=(preview) loading="lazy" {}
        } @else if let Some(text) = text(content, "text") {
            p .bubble { (text) }
        } @else if let Some(xml) = text(content, "xml") {
            pre { (xml) }
        } @else if let Some(body) = content.get("body") {
            (parts::json(body))
        }
        @if attached > 0 { p .quiet { (lang.count(attached as u64, ("attachment", "attachments"), ("anexo", "anexos"))) } }
        @if let Some(headers) = headers { details .more { summary { (lang.say("Headers", "Cabeçalhos")) } (parts::json(headers)) } }
    }
}

/// The HTML of a mail, as a document of its own.
pub(crate) async fn preview(visit: Visit) -> Result<Response, Problem> {
    let asked = visit.asked("reveal").is_some_and(|asked| asked == "true");
    let story = find(&visit, if asked { REVEALED } else { "" }).await?;
    let words = words(&visit, &story).await?;
    let html = words.as_ref().and_then(|content| text(content, "html"));
    html.map(frame::foreign).ok_or_else(no_address)
}
