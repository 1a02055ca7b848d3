//! Any JSON to any URL, signed as Standard Webhooks are.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use pombo_kernel::content::{Problem, WebhookContent, reserved_in_http, web_address};
use pombo_kernel::reply::{FaultKind, Receipt, Reply};
use schemars::JsonSchema;
use serde::Deserialize;
use url::{Position, Url};

use crate::answer::{host_header, refusal};
use crate::client::{Client, Need, roots};
use crate::guard::{Allowed, Guard};
use crate::line::fault;
use crate::resolve::Resolver;
use crate::{BoxFuture, Channel, Envelope, trace};
use pombo_kernel::secret::Secret;
use pombo_kernel::signature::{SigningKey, sign};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// Signs every request: `whsec_` and base64 of 24 to 64 bytes. Without it requests are not signed.
    pub secret: Option<Secret>,
    /// The secret before this one. Requests carry a signature of each while receivers change over.
    pub previous_secret: Option<Secret>,
    /// Send to loopback and private addresses too. Cloud metadata stays closed unless `allow` names it.
    pub allow_private: bool,
    /// Hosts and networks that are open whatever their address, such as `evolution.lan` or `10.0.0.0/8`.
    pub allow: Vec<Allowed>,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
    pub user_agent: String,
}

impl Default for WebhookSettings {
    fn default() -> WebhookSettings {
        WebhookSettings {
            secret: None,
            previous_secret: None,
            allow_private: false,
            allow: Vec::new(),
            ca_file: None,
            user_agent: concat!("Pombo/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// The webhook channel: one POST (or another method), one answer.
#[derive(Debug)]
pub struct Webhook {
    client: Client,
    keys: Vec<SigningKey>,
    user_agent: HeaderValue,
}

impl Webhook {
    /// Sets the channel up, or names everything that is wrong with its settings.
    pub fn new(settings: &WebhookSettings) -> Result<Webhook, Vec<Problem>> {
        Webhook::with_resolver(settings, Resolver::default())
    }

    pub fn with_resolver(settings: &WebhookSettings, resolver: Resolver) -> Result<Webhook, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, reason: String, hint: &str| {
            problems.push(Problem { field: field.to_owned(), reason, hint: hint.to_owned() });
        };
        let mut keys = Vec::new();
        for (field, secret) in [("secret", &settings.secret), ("previous_secret", &settings.previous_secret)]
        {
            match secret.as_ref().map(SigningKey::from_secret) {
                None => {}
                Some(Some(key)) => keys.push(key),
                Some(None) => wrong(
                    field,
                    "is not base64 of 24 to 64 bytes".to_owned(),
                    "make one with: echo whsec_$(openssl rand -base64 32)",
                ),
            }
        }
        if settings.secret.is_none() && settings.previous_secret.is_some() {
            wrong("previous_secret", "stands without a secret".to_owned(), "set `secret`, or take this out");
        }
        let user_agent = HeaderValue::from_str(&settings.user_agent);
        if user_agent.is_err() {
            wrong("user_agent", "cannot be a header".to_owned(), "use plain ASCII on one line");
        }
        let roots = roots(settings.ca_file.as_deref());
        if let Err(reason) = &roots {
            wrong("ca_file", format!("cannot be used: {reason}"), "name a readable PEM file of certificates");
        }
        let (Ok(user_agent), Ok(roots), []) = (user_agent, roots, problems.as_slice()) else {
            return Err(problems);
        };
        let guard = Guard { allow_private: settings.allow_private, allow: settings.allow.clone() };
        match Client::new(guard, resolver, roots, None) {
            Ok(client) => Ok(Webhook { client, keys, user_agent }),
            Err(error) => Err(vec![Problem {
                field: "ca_file".to_owned(),
                reason: format!("TLS cannot be set up: {error}"),
                hint: "report this as a bug".to_owned(),
            }]),
        }
    }

    async fn attempt(&self, envelope: &Envelope, deadline: Duration) -> Reply {
        let (url, request) = match self.request(envelope) {
            Ok(made) => made,
            Err(text) => return Reply::Unreachable(fault(FaultKind::BadContent, text)),
        };
        match self.client.call(&url, request, Need::Head, deadline).await {
            Err(reply) => reply,
            Ok(answer) if answer.status.is_success() => {
                Reply::Accepted(Receipt { code: Some(answer.status.as_u16()), ..Receipt::default() })
            }
            Ok(answer) => Reply::Refused(refusal(&answer)),
        }
    }

    /// Puts the request together. The error never repeats what the caller wrote.
    fn request(&self, envelope: &Envelope) -> Result<(Url, Request<Full<Bytes>>), String> {
        let url = web_address(&envelope.to).map_err(|problem| format!("the URL {}", problem.reason))?;
        let content: WebhookContent = serde_json::from_str(&envelope.content)
            .map_err(|_| "the content is not a webhook's".to_owned())?;
        let body =
            content.body.map_or_else(Bytes::new, |body| Bytes::from(Box::<str>::from(body).into_string()));

        let mut headers = HeaderMap::with_capacity(10);
        headers.insert(header::HOST, host_header(&url)?);
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in content.headers.iter().flatten() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header has no usable name")?;
            let value =
                HeaderValue::from_bytes(value.as_bytes()).map_err(|_| "a header has no usable value")?;
            if reserved_in_http(name.as_str()) {
                return Err("a header is not the caller's to set".to_owned());
            }
            headers.insert(name, value);
        }
        let method = method(content.method.unwrap_or_default());
        // Without a length some receivers wait for a body that never comes.
        if !body.is_empty() || matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        // Compressed answers are not asked for, since they would not be unpacked.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        self.stamp(&mut headers, envelope, &body);
        trace::pass_on(envelope.trace.as_ref(), &mut headers);

        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(&url[Position::BeforePath..Position::AfterQuery])
            .map_err(|_| "the URL has no usable path".to_owned())?;
        *request.headers_mut() = headers;
        Ok((url, request))
    }

    /// Adds id, time and signatures. The id stays the same over all attempts of a round, so that the
    /// receiver can tell a repeat.
    fn stamp(&self, headers: &mut HeaderMap, envelope: &Envelope, body: &[u8]) {
        let key = &envelope.idempotency_key;
        let own = !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
        let id = if own { key.clone() } else { envelope.id.to_string() };
        let timestamp = envelope.now.millis().div_euclid(1000);
        let written = timestamp.to_string();
        let keys = if envelope.signers.is_empty() { &self.keys } else { &envelope.signers };
        if !keys.is_empty()
            && let Ok(signature) = HeaderValue::try_from(sign(keys, &id, &written, body))
        {
            headers.insert(WEBHOOK_SIGNATURE, signature);
        }
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(WEBHOOK_ID, id);
        }
        headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(timestamp));
    }
}

impl Channel for Webhook {
    fn send<'a>(&'a self, envelope: &'a Envelope, deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(self.attempt(envelope, deadline))
    }
}

fn method(method: pombo_kernel::content::Method) -> Method {
    match method {
        pombo_kernel::content::Method::Post => Method::POST,
        pombo_kernel::content::Method::Put => Method::PUT,
        pombo_kernel::content::Method::Patch => Method::PATCH,
        pombo_kernel::content::Method::Delete => Method::DELETE,
        pombo_kernel::content::Method::Get => Method::GET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pombo_kernel::content;
    use pombo_kernel::id::{MessageId, MessageKey};
    use pombo_kernel::kind::ChannelKind;
    use pombo_kernel::time::Time;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn envelope(to: &str, content: &serde_json::Value) -> Envelope {
        Envelope {
            id: MessageId::new(MessageKey(1), 2),
            idempotency_key: "k".to_owned(),
            now: Time::from_millis(1_700_000_000_000),
            to: to.to_owned(),
            content: content.to_string(),
            reference: None,
            signers: Vec::new(),
            trace: None,
        }
    }

    #[test] // REQ ML-7
    fn whoever_a_message_names_signs_it_instead_of_the_channel() {
        let key = |text: &str| SigningKey::from_secret(&Secret::new(text)).unwrap();
        let own = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let others =
            ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="];
        let settings = WebhookSettings { secret: Some(Secret::new(own)), ..WebhookSettings::default() };
        let webhook = Webhook::new(&settings).unwrap();
        let signed = |signers: Vec<SigningKey>| {
            let content = serde_json::json!({"body": {"a": 1}});
            let envelope = Envelope { signers, ..envelope("https://x/", &content) };
            let (_, request) = webhook.request(&envelope).unwrap();
            request.headers()[WEBHOOK_SIGNATURE].to_str().unwrap().to_owned()
        };
        let is_by = |secret: &str, header: &str| {
            pombo_kernel::signature::verify(&key(secret), "k", "1700000000", br#"{"a":1}"#, header)
        };
        let usual = signed(Vec::new());
        assert!(is_by(own, &usual) && !is_by(others[0], &usual));
        let named = signed(others.map(key).into());
        assert!(others.iter().all(|secret| is_by(secret, &named)) && !is_by(own, &named));
    }

    #[test] // REQ OB-2
    fn a_receiver_is_told_of_the_trace_unless_the_message_tells_of_another() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace = pombo_kernel::trace::Context::read(parent, Some("a=1"));
        let webhook = Webhook::new(&WebhookSettings::default()).unwrap();
        let told = |content: serde_json::Value| {
            let envelope = Envelope { trace: trace.clone(), ..envelope("https://x/", &content) };
            let (_, request) = webhook.request(&envelope).unwrap();
            ["traceparent", "tracestate"].map(|name| request.headers().get(name).cloned())
        };
        let value = |text: &'static str| Some(HeaderValue::from_static(text));
        assert_eq!(told(serde_json::json!({"body": 1})), [value(parent), value("a=1")]);
        let own = serde_json::json!({"headers": {"Traceparent": "mine"}});
        assert_eq!(told(own), [value("mine"), None]);
    }

    proptest! {
        #[test]
        fn whatever_the_door_lets_in_can_be_sent(
            to in "https?://[ -~é]{0,30}",
            headers in proptest::collection::btree_map("[!-~é]{0,6}", ".{0,12}", 0..5),
        ) {
            let content = serde_json::json!({"headers": headers, "body": 1});
            if content::check(ChannelKind::Webhook, &to, &content).is_ok() {
                let webhook = Webhook::new(&WebhookSettings::default()).unwrap();
                prop_assert!(webhook.request(&envelope(&to, &content)).is_ok());
            }
        }

        #[test] // REQ SE-2
        fn no_header_carries_another(name in any::<String>(), value in any::<String>()) {
            let content = serde_json::json!({"headers": BTreeMap::from([(&name, &value)])});
            let webhook = Webhook::new(&WebhookSettings::default()).unwrap();
            if let Ok((_, request)) = webhook.request(&envelope("https://x/", &content)) {
                let own = 7;
                prop_assert!(request.headers().len() <= own + 1);
                for value in request.headers().values() {
                    prop_assert!(!value.as_bytes().iter().any(|b| b"\r\n\0".contains(b)));
                }
            }
        }
    }
}
