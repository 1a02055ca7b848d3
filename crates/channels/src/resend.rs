//! E-mail through Resend.

mod api;
mod batch;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod mail;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use pombo_kernel::content::{Problem, mailbox};
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::secret::Secret;
use pombo_kernel::signature::SigningKey;
use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use self::api::Api;
use self::batch::Batches;
use self::mail::Mail;
use crate::answer::host_header;
use crate::client::{Client, roots};
use crate::guard::Guard;
use crate::line::fault;
use crate::resolve::Resolver;
use crate::{BoxFuture, Channel, Envelope, Health};

/// The longest key that Resend takes.
const KEY_BYTES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResendSettings {
    /// Where Resend answers; only a test has a reason to change it.
    #[schemars(with = "String")]
    pub base_url: Url,
    /// Resend's key, from the environment: "${RESEND_API_KEY}".
    pub api_key: Option<Secret>,
    /// A file that holds Resend's key, instead of `api_key`.
    pub api_key_file: Option<PathBuf>,
    /// The sender of mails that name none, for example "Clinic <mail@clinic.example>".
    pub from: Option<String>,
    /// Let mails that leave at the same moment share one call, up to 100. A crash in the middle of one may repeat
    /// its mails.
    pub batch: bool,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
    /// Resend's signing secret for its webhooks, `whsec_…`; without it receipts are refused.
    pub receipt_secret: Option<Secret>,
    /// A file that holds it, instead of `receipt_secret`.
    pub receipt_secret_file: Option<PathBuf>,
}

impl Default for ResendSettings {
    fn default() -> ResendSettings {
        ResendSettings {
            base_url: Url::parse("https://api.resend.com").expect("a fixed address"),
            api_key: None,
            api_key_file: None,
            from: None,
            batch: false,
            ca_file: None,
            receipt_secret: None,
            receipt_secret_file: None,
        }
    }
}

/// Resend, ready to send: one call a mail, or one for many where the settings say so.
#[derive(Debug)]
pub struct Resend {
    api: Arc<Api>,
    from: Option<String>,
    batches: Option<Batches<Api>>,
}

impl Resend {
    /// Sets the channel up, or names everything that is wrong with its settings.
    pub fn new(settings: &ResendSettings) -> Result<Resend, Vec<Problem>> {
        Resend::with_resolver(settings, Resolver::default())
    }

    pub fn with_resolver(settings: &ResendSettings, resolver: Resolver) -> Result<Resend, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, reason: String, hint: &str| {
            problems.push(Problem { field: field.to_owned(), reason, hint: hint.to_owned() });
        };
        let base = settings.base_url.clone();
        let host = host_header(&base).ok().filter(|_| matches!(base.scheme(), "http" | "https"));
        if host.is_none() {
            wrong("base_url", "is not an address of the web".to_owned(), "leave it out");
        }
        let authorization = settings.api_key.as_ref().and_then(bearer);
        if authorization.is_none() {
            let reason = if settings.api_key.is_none() { "is missing" } else { "cannot be a header" };
            wrong("api_key", reason.to_owned(), "set RESEND_API_KEY to a key from resend.com/api-keys");
        }
        if settings.from.as_deref().is_some_and(|from| mailbox(from).is_none()) {
            wrong("from", "is not an e-mail address".to_owned(), "write Clinic <mail@clinic.example>");
        }
        let roots = roots(settings.ca_file.as_deref());
        if let Err(reason) = &roots {
            wrong("ca_file", format!("cannot be used: {reason}"), "name a readable PEM file of certificates");
        }
        if settings.receipt_secret.as_ref().is_some_and(|secret| SigningKey::from_secret(secret).is_none()) {
            let hint = "copy the signing secret, whsec_…, from the webhook's page at Resend";
            wrong("receipt_secret", "is not base64 of 24 to 64 bytes".to_owned(), hint);
        }
        let (Some(host), Some(authorization), Ok(roots), []) =
            (host, authorization, roots, problems.as_slice())
        else {
            return Err(problems);
        };
        // The address is the administrator's own word, so it may lead anywhere.
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let client = Client::new(guard, resolver, roots, None).map_err(|error| {
            vec![Problem {
                field: "ca_file".to_owned(),
                reason: format!("TLS cannot be set up: {error}"),
                hint: "report this as a bug".to_owned(),
            }]
        })?;
        let api = Arc::new(Api { client, base, host, authorization });
        let batches = settings.batch.then(|| Batches::new(api.clone()));
        Ok(Resend { api, from: settings.from.clone(), batches })
    }

    async fn attempt(&self, envelope: &Envelope, deadline: Duration) -> Reply {
        let mail = match Mail::of(envelope, self.from.as_deref()) {
            Ok(mail) => mail,
            Err(text) => return Reply::Unreachable(fault(FaultKind::BadContent, text)),
        };
        let key = key_of(envelope);
        match &self.batches {
            // Resend takes no attachments in a batch.
            Some(batches) if !mail.has_attachments => batches.send(key, mail, envelope.now, deadline).await,
            _ => self.api.alone(&key, mail.json, envelope.trace.as_ref(), deadline).await,
        }
    }
}

impl Channel for Resend {
    fn send<'a>(&'a self, envelope: &'a Envelope, deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(self.attempt(envelope, deadline))
    }

    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Health> {
        Box::pin(self.api.health(deadline))
    }
}

fn bearer(key: &Secret) -> Option<HeaderValue> {
    let key = key.expose();
    let fits = !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok().filter(|_| fits)?;
    value.set_sensitive(true);
    Some(value)
}

/// The key by which Resend knows a repeat. A message without a usable one is known by its id.
fn key_of(envelope: &Envelope) -> String {
    let key = &envelope.idempotency_key;
    let fits = (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if fits { key.clone() } else { envelope.id.to_string() }
}
