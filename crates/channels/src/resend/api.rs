//! Resend's HTTP interface: what is asked and how answers are read.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use pombo_kernel::reply::{FaultKind, Receipt, Refusal, Reply};
use pombo_kernel::trace::Context;
use serde::Deserialize;
use serde_json::Value;
use url::{Position, Url};

use super::batch::Post;
use crate::answer::{self, hints, words};
use crate::client::{Answer, Client, Need};
use crate::line::fault;
use crate::{BoxFuture, Health, trace};

const USER_AGENT: &str = concat!("Pombo/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const BATCH_VALIDATION: HeaderName = HeaderName::from_static("x-batch-validation");
/// The longest id and error name that are taken for one.
const WORD_BYTES_MAX: usize = 128;

pub(super) struct Api {
    pub(super) client: Client,
    pub(super) base: Url,
    pub(super) host: HeaderValue,
    pub(super) authorization: HeaderValue,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Post for Api {
    fn single<'a>(&'a self, key: &'a str, mail: Bytes, deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(self.alone(key, mail, None, deadline))
    }

    fn batch<'a>(
        &'a self,
        key: &'a str,
        mails: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<Answer, Reply>> {
        let mode = (BATCH_VALIDATION, HeaderValue::from_static("permissive"));
        Box::pin(self.post("/emails/batch", key, mails, HeaderMap::from_iter([mode]), deadline))
    }
}

impl Api {
    /// Sends a mail in a call of its own.
    pub(super) async fn alone(
        &self,
        key: &str,
        mail: Bytes,
        trace: Option<&Context>,
        deadline: Duration,
    ) -> Reply {
        let mut more = HeaderMap::new();
        trace::pass_on(trace, &mut more);
        match self.post("/emails", key, mail, more, deadline).await {
            Err(reply) => reply,
            Ok(answer) if answer.status.is_success() => receipt(&answer),
            Ok(answer) => Reply::Refused(refusal(&answer)),
        }
    }

    async fn post(
        &self,
        path: &str,
        key: &str,
        body: Bytes,
        more: HeaderMap,
        deadline: Duration,
    ) -> Result<Answer, Reply> {
        let mut headers = self.headers();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        headers.extend(more);
        match HeaderValue::from_str(key) {
            Ok(key) => headers.insert(IDEMPOTENCY_KEY, key),
            Err(_) => return Err(unusable("the idempotency key cannot be a header")),
        };
        self.call(Method::POST, path, headers, body, Need::Body, deadline).await
    }

    /// Whether the key is known, asked by listing domains: a key that may only send is refused in a way of its own.
    pub(super) async fn health(&self, deadline: Duration) -> Health {
        match self.call(Method::GET, "/domains", self.headers(), Bytes::new(), Need::Head, deadline).await {
            Err(reply) => Health::Sick(reply),
            Ok(answer) if answer.status.is_success() => Health::Ready("Resend knows the key".to_owned()),
            Ok(answer) => match refusal(&answer) {
                refusal if refusal.name.as_deref() == Some("restricted_api_key") => {
                    Health::Reachable("Resend knows the key, which may only send".to_owned())
                }
                refusal => Health::Sick(Reply::Refused(refusal)),
            },
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(9);
        headers.insert(header::HOST, self.host.clone());
        headers.insert(header::AUTHORIZATION, self.authorization.clone());
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        // Compressed answers are not asked for, since they would not be unpacked.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
        need: Need,
        deadline: Duration,
    ) -> Result<Answer, Reply> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(&url[Position::BeforePath..Position::AfterPath])
            .map_err(|_| unusable("the base address has no usable path"))?;
        *request.headers_mut() = headers;
        self.client.call(&url, request, need, deadline).await
    }
}

fn unusable(text: &str) -> Reply {
    Reply::Unreachable(fault(FaultKind::BadContent, text))
}

/// What a success says of one mail. Without an id nobody knows what it was that succeeded.
fn receipt(answer: &Answer) -> Reply {
    #[derive(Deserialize)]
    struct Taken {
        id: String,
    }
    match read::<Taken>(answer).filter(|taken| is_word(&taken.id)) {
        Some(taken) => accepted(taken.id, answer),
        None => Reply::Doubtful(no_id()),
    }
}

pub(super) fn accepted(id: String, answer: &Answer) -> Reply {
    Reply::Accepted(Receipt {
        provider_id: Some(id),
        code: Some(answer.status.as_u16()),
        hints: hints(&answer.headers),
        ..Receipt::default()
    })
}

pub(super) fn no_id() -> pombo_kernel::reply::Fault {
    fault(FaultKind::Protocol, "Resend answered with a success that names no mail")
}

/// The body of an answer, if all of it came and it is what was expected.
pub(super) fn read<T: for<'de> Deserialize<'de>>(answer: &Answer) -> Option<T> {
    answer.whole.then(|| serde_json::from_slice(&answer.body).ok()).flatten()
}

pub(super) fn is_word(text: &str) -> bool {
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// A refusal by the name and in the words of Resend; of an answer that is not Resend's, whatever it says.
pub(super) fn refusal(answer: &Answer) -> Refusal {
    let mut refusal = answer::refusal(answer);
    let body: Value = read(answer).unwrap_or_default();
    let said = |name: &str| body.get(name).and_then(Value::as_str);
    refusal.name = said("name").filter(|name| is_word(name)).map(str::to_owned);
    if let Some(message) = said("message").filter(|message| !message.is_empty()) {
        refusal.text = words(message.as_bytes());
    }
    refusal
}
