//! What an error would mean, without sending anything.

use axum::response::Response;
use pombo_kernel::classify::{Rules, Scope, Verdict};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::reply::{Enhanced, Fault, FaultKind, Refusal, Reply, Stage};
use pombo_kernel::time::Span;
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer, value};

use super::fields::Fields;
use crate::problem::Problem;
use crate::route::Call;
use crate::{body, view};

const BODY_BYTES: usize = 128 * 1024;
const TEXT_BYTES: usize = 64 * 1024;

#[derive(Serialize)]
struct Document<'a> {
    verdict: Verdict,
    category: &'a str,
    /// The rule that matched; null when nothing did.
    rule: Option<&'a str>,
    note: Option<&'a str>,
    destination_fault: bool,
    suppress: bool,
    scope: Option<Scope>,
    wait: Option<Span>,
}

/// Verdict, category and rule for an error of a channel (`channel`, with its own rules) or of a kind (`kind`).
pub(crate) async fn classify(call: Call) -> Result<Response, Problem> {
    let Call { door, caller, head, body, .. } = call;
    let mut fields = Fields::read(&body::json(&door, &head.headers, body, BODY_BYTES).await?)?;
    let setup = door.setup();
    let kind = fields.text("kind", 64);
    let channel = fields.text("channel", 64);
    let reply = reply(&mut fields);
    let rules = match (&channel, &kind) {
        (Some(name), _) => {
            let own = setup.channels.get(name.as_str()).filter(|channel| channel.tenant == caller.tenant);
            if own.is_none() {
                fields.wrong(
                    "channel",
                    "there is no such channel",
                    "GET /v1/channels and `pombo channels list` show them",
                );
            }
            own.map(|channel| channel.rules.clone())
        }
        (None, Some(kind)) => match kind.parse::<ChannelKind>() {
            Ok(kind) => Rules::for_kind(kind, &[]).ok(),
            Err(_) => {
                let hint = "one of evolution, smtp, resend, tiss, webhook, null";
                fields.wrong("kind", "is not a kind of channel", hint);
                None
            }
        },
        (None, None) => {
            fields.wrong("kind", "is missing", "name a kind such as `smtp`, or give `channel`");
            None
        }
    };
    fields.end()?;
    let meaning = rules.as_ref().and_then(|rules| rules.classify(&reply)).ok_or_else(Problem::internal)?;
    let rule = meaning.rule.as_deref();
    view::ok(&Document {
        verdict: meaning.verdict,
        category: &meaning.category,
        rule,
        note: rule.zip(rules.as_ref()).and_then(|(id, rules)| rules.rule(id)?.note.as_deref()),
        destination_fault: meaning.destination_fault,
        suppress: meaning.suppress,
        scope: (meaning.verdict == Verdict::SenderFault).then_some(meaning.scope),
        wait: meaning.wait,
    })
}

/// The reply that the fields describe: a fault on the way, or else a provider's refusal.
fn reply(fields: &mut Fields) -> Reply {
    let text = fields.text("error", TEXT_BYTES).unwrap_or_default();
    let fault = word::<FaultKind>(fields, "fault", "one such as `timeout`, `dns` or `connection_refused`");
    let status = fields.number("status");
    let enhanced = fields.text("enhanced", 32).and_then(|text| {
        let code = enhanced(&text);
        if code.is_none() {
            fields.wrong("enhanced", "is not an enhanced status code", "write for example \"5.1.1\"");
        }
        code
    });
    let name = fields.text("name", 256);
    let stage = word::<Stage>(fields, "stage", "one of request, greeting, auth, mail, rcpt, data");
    if fault.is_some() && (status.is_some() || enhanced.is_some() || name.is_some() || stage.is_some()) {
        fields.wrong("fault", "is given beside a provider's reply", "it is one or the other");
    }
    if text.is_empty() && fault.is_none() && status.is_none() && enhanced.is_none() && name.is_none() {
        fields.wrong("error", "is missing", "give the error's text, or status, enhanced, name or fault");
    }
    match fault {
        Some(kind) => Reply::Unreachable(Fault { kind, text }),
        None => {
            let stage = stage.unwrap_or_default();
            Reply::Refused(Refusal { status, enhanced, name, stage, text, ..Refusal::default() })
        }
    }
}

fn word<T: DeserializeOwned>(fields: &mut Fields, field: &'static str, hint: &str) -> Option<T> {
    let text = fields.text(field, 64)?;
    let read: Result<T, value::Error> = T::deserialize(text.as_str().into_deserializer());
    if read.is_err() {
        fields.wrong(field, "is not one that is known", hint);
    }
    read.ok()
}

fn enhanced(text: &str) -> Option<Enhanced> {
    let mut parts = text.split('.');
    let code = Enhanced {
        class: parts.next()?.parse().ok()?,
        subject: parts.next()?.parse().ok()?,
        detail: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(code)
}
