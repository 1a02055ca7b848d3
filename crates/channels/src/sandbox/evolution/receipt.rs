//! Receipts that the pretend Evolution sends after a message went out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Request, Uri};
use http_body_util::Full;
use serde_json::{Value, json};
use url::{Position, Url};

use super::{Sent, Shared};
use crate::answer::host_header;
use crate::client::{Client, Need, roots};
use crate::guard::Guard;
use crate::resolve::Resolver;

/// The real one tries ten times, with growing pauses.
const TRIES: u32 = 3;
const DEADLINE: Duration = Duration::from_secs(30);

/// Where receipts go, and the headers that they carry, by which they are believed.
#[derive(Clone)]
pub struct Hook {
    pub url: Url,
    pub headers: BTreeMap<String, String>,
    /// Append the event's name to the path.
    pub by_events: bool,
}

/// Leaves out the headers: one of them is a secret.
impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("by_events", &self.by_events).finish_non_exhaustive()
    }
}

impl Hook {
    /// What `/webhook/set` asks for; nothing if it is switched off or not for receipts.
    pub(super) fn read(body: &Value) -> Option<Hook> {
        let set = body.get("webhook")?;
        let wanted = set["events"]
            .as_array()
            .is_none_or(|events| events.is_empty() || events.iter().any(|event| event == "MESSAGES_UPDATE"));
        if set["enabled"] != true || !wanted {
            return None;
        }
        let headers = set["headers"].as_object().into_iter().flatten();
        Some(Hook {
            url: Url::parse(set["url"].as_str()?).ok()?,
            headers: headers
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
            by_events: set["byEvents"] == true,
        })
    }

    pub(super) fn shown(&self) -> Value {
        json!({"enabled": true, "url": self.url.as_str(), "headers": self.headers, "webhookByEvents": self.by_events,
            "webhookBase64": false, "events": ["MESSAGES_UPDATE"]})
    }

    fn request(&self, receipt: &Value) -> Option<(Url, Request<Full<Bytes>>)> {
        let mut url = self.url.clone();
        if self.by_events {
            url.path_segments_mut().ok()?.pop_if_empty().push("messages-update");
        }
        let body = receipt.to_string();
        let mut request =
            Request::post(Uri::try_from(&url[Position::BeforePath..Position::AfterQuery]).ok()?)
                .header(header::HOST, host_header(&url).ok()?)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::CONTENT_LENGTH, body.len())
                .body(Full::from(body))
                .ok()?;
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().insert(name, HeaderValue::from_str(value).ok()?);
        }
        Some((url, request))
    }
}

/// Carries receipts.
pub(super) struct Postman(Client);

impl Postman {
    pub(super) fn new() -> Result<Postman, String> {
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let client = Client::new(guard, Resolver::default(), roots(None)?, None);
        client.map(Postman).map_err(|error| error.to_string())
    }

    async fn deliver(&self, hook: &Hook, receipt: &Value) -> bool {
        let Some((url, request)) = hook.request(receipt) else { return false };
        let answer = self.0.call(&url, request, Need::Head, DEADLINE).await;
        answer.is_ok_and(|answer| answer.status.is_success())
    }
}

/// Tells what became of a message, step by step.
pub(super) async fn follow(shared: Arc<Shared>, sent: Sent) {
    let Some(hook) = shared.world().hook.clone() else { return };
    let user = sent.jid.split('@').next().unwrap_or_default();
    let steps: &[&str] =
        if user.ends_with("0463") { &["ERROR"] } else { &["SERVER_ACK", "DELIVERY_ACK", "READ"] };
    for status in steps {
        let receipt = json!({
            "event": "messages.update", "instance": shared.options.instance,
            "data": {"messageId": "sandbox-row", "keyId": sent.key_id, "remoteJid": sent.jid, "fromMe": true,
                "status": status, "instanceId": "sandbox"},
            "destination": hook.url.as_str(), "date_time": "1970-01-01T00:00:00.000Z",
            "sender": "5511900000000@s.whatsapp.net", "server_url": "http://localhost", "apikey": null,
        });
        let mut arrived = false;
        for _ in 0..TRIES {
            tokio::time::sleep(shared.options.receipt_gap).await;
            arrived = shared.postman.deliver(&hook, &receipt).await;
            if arrived {
                break;
            }
        }
        let mut world = shared.world();
        if arrived {
            world.receipts += 1;
        } else {
            world.receipts_failed += 1;
        }
    }
}
