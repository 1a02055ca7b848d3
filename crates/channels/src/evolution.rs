//! WhatsApp through Evolution API, version 2.

mod answer;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod request;

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use pombo_kernel::content::{Problem, phone};
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::secret::Secret;
use pombo_kernel::trace::Context;
use schemars::JsonSchema;
use serde::Deserialize;
use url::{Position, Url};

use self::request::Content;
use crate::answer::host_header;
use crate::client::{Client, Need, roots};
use crate::guard::Guard;
use crate::line::fault;
use crate::resolve::Resolver;
use crate::{BoxFuture, Channel, Envelope, Health, trace};

const APIKEY: HeaderName = HeaderName::from_static("apikey");
const INSTANCE_BYTES_MAX: usize = 255;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvolutionSettings {
    /// Where Evolution API answers, for example "https://evolution.example".
    #[schemars(with = "Option<String>")]
    pub base_url: Option<Url>,
    /// The instance that messages go out from, for example "clinic".
    pub instance: Option<String>,
    /// Evolution's key, from the environment: "${EVOLUTION_API_KEY}".
    pub api_key: Option<Secret>,
    /// A file that holds Evolution's key, instead of `api_key`.
    pub api_key_file: Option<PathBuf>,
    /// What receipts must show to be believed; without it they are refused.
    pub receipt_secret: Option<Secret>,
    /// A file that holds it, instead of `receipt_secret`.
    pub receipt_secret_file: Option<PathBuf>,
    /// Choose the id of each WhatsApp message, the same for every attempt of a round. Evolution 2.4 and later.
    pub message_id: bool,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
}

/// Evolution, ready to send.
#[derive(Debug)]
pub struct Evolution {
    client: Client,
    text: Url,
    media: Url,
    state: Url,
    /// What every request carries, the key among it.
    headers: HeaderMap,
    message_id: bool,
}

impl Evolution {
    /// Sets the channel up, or names everything that is wrong with its settings.
    pub fn new(settings: &EvolutionSettings) -> Result<Evolution, Vec<Problem>> {
        Evolution::with_resolver(settings, Resolver::default())
    }

    pub fn with_resolver(
        settings: &EvolutionSettings,
        resolver: Resolver,
    ) -> Result<Evolution, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, reason: String, hint: &str| {
            problems.push(Problem { field: field.to_owned(), reason, hint: hint.to_owned() });
        };
        let base = settings.base_url.as_ref();
        if let Err(reason) = checked_base(base) {
            wrong(
                "base_url",
                reason,
                "write https://evolution.example, with a path if Evolution is under one",
            );
        }
        let instance = settings.instance.as_deref().unwrap_or_default();
        // As segments of a path the dots would lead elsewhere.
        if instance.is_empty()
            || instance.len() > INSTANCE_BYTES_MAX
            || matches!(instance, "." | "..")
            || instance.chars().any(char::is_control)
        {
            let reason = "is not the name of an instance".to_owned();
            wrong("instance", reason, "write it as it stands in Evolution's manager");
        }
        let key = settings.api_key.as_ref().map(Secret::expose).unwrap_or_default();
        let key = HeaderValue::from_str(key).ok().filter(|key| !key.is_empty());
        if key.is_none() {
            let reason = "is missing, or cannot be a header".to_owned();
            wrong("api_key", reason, "give the instance's token or Evolution's global key, on one line");
        }
        let roots = roots(settings.ca_file.as_deref());
        if let Err(reason) = &roots {
            wrong("ca_file", format!("cannot be used: {reason}"), "name a readable PEM file of certificates");
        }
        let (Some(base), Some(key), Ok(roots), []) = (base, key, roots, problems.as_slice()) else {
            return Err(problems);
        };
        // The administrator named this address, so it may be inside the network.
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let made = Client::new(guard, resolver, roots, None).map_err(|error| error.to_string());
        let (client, headers) = match (made, headers(base, key)) {
            (Ok(client), Ok(headers)) => (client, headers),
            (Err(reason), _) | (_, Err(reason)) => {
                let hint = "report this as a bug".to_owned();
                return Err(vec![Problem { field: "base_url".to_owned(), reason, hint }]);
            }
        };
        Ok(Evolution {
            client,
            text: under(base, ["message", "sendText", instance]),
            media: under(base, ["message", "sendMedia", instance]),
            state: under(base, ["instance", "connectionState", instance]),
            headers,
            message_id: settings.message_id,
        })
    }

    /// One attempt. A Brazilian number that is said not to be on WhatsApp is tried once more in its other form,
    /// with or without the ninth digit: that answer is often false, and says for certain that nothing was sent.
    async fn attempt(&self, envelope: &Envelope, deadline: Duration) -> Reply {
        let bad = |text: &str| Reply::Unreachable(fault(FaultKind::BadContent, text));
        if !phone::is_recipient(&envelope.to) {
            return bad("the recipient is neither a phone number nor a JID");
        }
        let Ok(content) = serde_json::from_str::<Content<'_>>(&envelope.content) else {
            return bad("the content is not a WhatsApp message's");
        };
        let message_id = self.message_id.then(|| request::message_id(envelope));
        let (url, number) = (self.url_for(&content), phone::digits_for(&envelope.to));

        let timer = pin!(tokio::time::sleep(deadline));
        let trace = envelope.trace.as_ref();
        let first = self.ask(url, content.body(&number, message_id.as_deref()), trace, deadline).await;
        let Some(other) = phone::other_variant(&number).filter(|_| answer::is_not_on_whatsapp(&first)) else {
            return first;
        };
        let second = tokio::select! {
            biased;
            second = self.ask(url, content.body(&other, message_id.as_deref()), trace, deadline) => second,
            () = timer => Reply::Doubtful(fault(FaultKind::Timeout, "no answer in time for the number's other form")),
        };
        if answer::is_not_on_whatsapp(&second) { first } else { second }
    }

    fn url_for(&self, content: &Content<'_>) -> &Url {
        if content.media.is_some() { &self.media } else { &self.text }
    }

    async fn ask(&self, url: &Url, body: Vec<u8>, trace: Option<&Context>, deadline: Duration) -> Reply {
        let mut request = match self.request(Method::POST, url, body) {
            Ok(request) => request,
            Err(text) => return Reply::Unreachable(fault(FaultKind::BadContent, text)),
        };
        trace::pass_on(trace, request.headers_mut());
        match self.client.call(url, request, Need::Body, deadline).await {
            Err(reply) => reply,
            Ok(answer) => answer::to_a_send(&answer),
        }
    }

    async fn look(&self, deadline: Duration) -> Health {
        let request = match self.request(Method::GET, &self.state, Vec::new()) {
            Ok(request) => request,
            Err(text) => return Health::Sick(Reply::Unreachable(fault(FaultKind::BadContent, text))),
        };
        match self.client.call(&self.state, request, Need::Body, deadline).await {
            // Nothing was to be sent, so nothing is in doubt.
            Err(Reply::Doubtful(fault)) => Health::Sick(Reply::Unreachable(fault)),
            Err(reply) => Health::Sick(reply),
            Ok(answer) => answer::to_a_probe(&answer),
        }
    }

    fn request(
        &self,
        method: Method,
        url: &Url,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, &'static str> {
        let uri = Uri::try_from(&url[Position::BeforePath..Position::AfterQuery])
            .map_err(|_| "the URL has no usable path")?;
        let mut headers = self.headers.clone();
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

impl Channel for Evolution {
    fn send<'a>(&'a self, envelope: &'a Envelope, deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(self.attempt(envelope, deadline))
    }

    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Health> {
        Box::pin(self.look(deadline))
    }
}

fn checked_base(base: Option<&Url>) -> Result<(), String> {
    let base = base.ok_or("is missing")?;
    if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none_or(str::is_empty) {
        return Err("is not an http or https URL".to_owned());
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err("carries credentials, which Evolution does not take there".to_owned());
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err("has a query or fragment".to_owned());
    }
    Ok(())
}

fn headers(base: &Url, mut key: HeaderValue) -> Result<HeaderMap, String> {
    key.set_sensitive(true);
    Ok(HeaderMap::from_iter([
        (header::HOST, host_header(base)?),
        (APIKEY, key),
        (header::USER_AGENT, HeaderValue::from_static(concat!("Pombo/", env!("CARGO_PKG_VERSION")))),
        (header::ACCEPT, HeaderValue::from_static("application/json")),
        // Compressed answers are not asked for, since they would not be unpacked.
        (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
    ]))
}

/// A URL below the base, each segment percent-encoded as one.
fn under(base: &Url, segments: [&str; 3]) -> Url {
    let mut url = base.clone();
    // Every http URL has a path, so this never fails.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}
