//! What an error would mean, without sending anything.

use axum::response::Response;
use pombo_kernel::classify::{Rules, read};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::request::BadJson;
use serde_json::{Map, Value};

use crate::problem::{Code, FieldError, Problem};
use crate::route::Call;
use crate::{body, view};

const BODY_BYTES: usize = 128 * 1024;

/// Verdict, category and rule for an error of a channel (`channel`, with its own rules) or of a kind (`kind`).
///
/// The rest of the document is the answer as it came, or what is known of it.
pub(crate) async fn classify(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let json = body::json(&door, &head.headers, body, BODY_BYTES).await?;
    let mut members: Map<String, Value> = match serde_json::from_slice(json.trim_ascii()) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err(Problem::field("body", "is not an object", "write {\"name\": \"value\"}")),
        Err(_) if json.trim_ascii().is_empty() => Map::new(),
        Err(error) => return Err(BadJson::from(error).into()),
    };
    let mut errors = Vec::new();
    let mut wrong = |field: String, reason: String, hint: String| {
        errors.push(FieldError { code: Code::InvalidField, field: field.into(), reason, hint });
    };
    let mut word = |field: &str| match members.remove(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(word)) => Some(word),
        Some(_) => Some(String::new()),
    };
    let (kind, channel) = (word("kind"), word("channel"));

    let setup = door.setup();
    let named = kind.as_deref().map(|word| (word, read::kind(word)));
    if let Some((_, None)) = named {
        let hint = "one of evolution, smtp, resend, tiss, webhook, http, null";
        wrong("kind".into(), "is not a kind of channel".into(), hint.into());
    }
    let own = channel.as_deref().map(|name| {
        let channel = setup.channels.get(name).filter(|channel| channel.tenant == caller.tenant);
        if channel.is_none() {
            let hint = "GET /v1/channels and `pombo channels list` show them";
            wrong("channel".into(), "there is no such channel".into(), hint.into());
        }
        channel
    });
    let rules = match (own, named) {
        (Some(Some(channel)), named) => {
            if named.is_some_and(|(_, kind)| kind.is_some_and(|kind| kind != channel.kind)) {
                let reason = format!("is not the channel's, which is {}", channel.kind);
                wrong("kind".into(), reason, "leave it out: a channel has one kind".into());
            }
            Some((channel.kind, channel.rules.clone()))
        }
        (None, Some((_, Some(kind)))) => Rules::for_kind(kind, &[]).ok().map(|rules| (kind, rules)),
        (None, None) => {
            let hint = "name a kind such as `smtp`, or give `channel`";
            wrong("kind".into(), "is missing".into(), hint.into());
            None
        }
        _ => None,
    };
    // Whatever else is wrong with the question is told along with an unknown kind.
    let kind = rules.as_ref().map_or(ChannelKind::Null, |(kind, _)| *kind);
    let reply = read::document(kind, members);
    for problem in reply.as_ref().err().into_iter().flatten() {
        wrong(problem.field.chars().take(64).collect(), problem.reason.clone(), problem.hint.clone());
    }
    match (rules, reply, errors.is_empty()) {
        (Some((_, rules)), Ok(reply), true) => view::ok(&read::explain(&rules, &reply, door.now())),
        _ => Err(Problem::fields(errors)),
    }
}
