//! The line to a process engine: one POST, answered or not, with whatever shows who we are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use pombo_channels::client::{Client, Need, roots};
use pombo_channels::resolve::Resolver;
use pombo_kernel::guard::Guard;
use pombo_kernel::mask;
use pombo_kernel::reply::Reply;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::{Clock, Span, Time};
use serde_json::Value;
use tokio::sync::Mutex;
use url::{Position, Url};

/// As much as a full batch of jobs with long errors may have.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a token may take to be given out.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// A token is renewed this long before it ends.
const TOKEN_SLACK: Span = Span::from_secs(30);
/// As much as is shown of what an engine says.
const WORDS_MAX: usize = 300;

/// Why a request came to nothing: one for each reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// No answer, backpressure, or a fault of the engine's that may pass.
    Passing(String),
    /// The engine knows no such job, or it is no longer in that state: whatever was to be done is done.
    Gone(String),
    /// The engine does not take this, and will not take it later.
    Refused(String),
}

/// How the engine knows us.
#[derive(Debug)]
pub(super) enum Login {
    Nobody,
    Basic(HeaderValue),
    Tokens(Box<Tokens>),
}

impl Login {
    pub(super) fn basic(name: &str, password: &Secret) -> Login {
        let words = BASE64_STANDARD.encode(format!("{name}:{}", password.expose()));
        Login::Basic(hidden(&format!("Basic {words}")))
    }
}

/// Words of base64 or a token; whatever else came is no header, and shows nobody who we are.
fn hidden(words: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(words).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Tokens by client credentials, each used until shortly before its end.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) url: Url,
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) audience: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) current: Mutex<Option<Token>>,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    value: HeaderValue,
    until: Time,
}

impl Tokens {
    fn form(&self) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials")
            .append_pair("client_id", &self.client_id)
            .append_pair("client_secret", self.client_secret.expose());
        for (name, value) in [("audience", &self.audience), ("scope", &self.scope)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        form.finish()
    }
}

/// A line to one engine.
#[derive(Debug)]
pub(super) struct Line {
    base: Url,
    client: Client,
    login: Login,
}

impl Line {
    /// A line to the engine at `base`, which may be at any address: whoever configured it knows where it is.
    pub(super) fn new(mut base: Url, ca_file: Option<&Path>, login: Login) -> Result<Line, String> {
        // Who we are is said by the login alone, and an address may be shown.
        let _ = (base.set_username(""), base.set_password(None));
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let client = Client::new(guard, Resolver::default(), roots(ca_file)?, None);
        let client = client.map_err(|error| error.to_string())?.reading_up_to(ANSWER_BYTES_MAX);
        Ok(Line { base, client, login })
    }

    /// Where it leads, without any words that show who we are.
    pub(super) fn shown(&self) -> &str {
        &self.base[Position::BeforeHost..Position::AfterPort]
    }

    /// Posts a document below the base address, and reads the answer; nothing is null.
    pub(super) async fn post(&self, path: &str, body: &Value, deadline: Duration) -> Result<Value, Failed> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        let text = Bytes::from(body.to_string());
        let known = self.authorization().await?;
        match self.send(&url, known.as_ref(), "application/json", text.clone(), deadline).await {
            Err((Some(StatusCode::UNAUTHORIZED), _)) if matches!(self.login, Login::Tokens(_)) => {
                // A token may end before its time.
                let renewed = self.renewed(known.as_ref()).await?;
                self.send(&url, Some(&renewed), "application/json", text, deadline).await
            }
            other => other,
        }
        .map_err(|(status, words)| failed(status, words))
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, Failed> {
        match &self.login {
            Login::Nobody => Ok(None),
            Login::Basic(value) => Ok(Some(value.clone())),
            Login::Tokens(tokens) => {
                let mut current = tokens.current.lock().await;
                match &*current {
                    Some(token) if token.until > tokens.clock.now() => Ok(Some(token.value.clone())),
                    _ => self.ask_token(tokens, &mut current).await.map(Some),
                }
            }
        }
    }

    /// Another token than the one that was refused.
    async fn renewed(&self, refused: Option<&HeaderValue>) -> Result<HeaderValue, Failed> {
        let Login::Tokens(tokens) = &self.login else { return Err(Failed::Refused("no tokens".to_owned())) };
        let mut current = tokens.current.lock().await;
        match &*current {
            Some(token) if Some(&token.value) != refused => Ok(token.value.clone()),
            _ => self.ask_token(tokens, &mut current).await,
        }
    }

    async fn ask_token(&self, tokens: &Tokens, current: &mut Option<Token>) -> Result<HeaderValue, Failed> {
        *current = None;
        let kind = "application/x-www-form-urlencoded";
        let asked_at = tokens.clock.now();
        let answer = self.send(&tokens.url, None, kind, tokens.form().into(), TOKEN_TIMEOUT).await;
        // What was asked holds a secret that an answer could repeat, so none of its words are passed on.
        let answer = answer.map_err(|(status, _)| match status {
            Some(status) if status.is_client_error() => {
                Failed::Refused(format!("no token was given out: {status}"))
            }
            Some(status) => Failed::Passing(format!("no token was given out: {status}")),
            None => Failed::Passing("whoever gives out tokens cannot be reached".to_owned()),
        })?;
        let Some(words) = answer["access_token"].as_str() else {
            return Err(Failed::Refused("there is no `access_token` in what was given out".to_owned()));
        };
        let length = Span::from_secs(answer["expires_in"].as_u64().unwrap_or(300));
        let slack = TOKEN_SLACK.min(length.scaled(0.2));
        let value = hidden(&format!("Bearer {words}"));
        *current = Some(Token { value: value.clone(), until: asked_at + length - slack });
        Ok(value)
    }

    /// One request. An error is the status, if there was an answer, and what was said.
    async fn send(
        &self,
        url: &Url,
        authorization: Option<&HeaderValue>,
        kind: &'static str,
        body: Bytes,
        deadline: Duration,
    ) -> Result<Value, (Option<StatusCode>, String)> {
        let mut request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
            .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(header::USER_AGENT, concat!("pombo/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, kind)
            .header(header::ACCEPT, "application/json, application/problem+json");
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| (None, error.to_string()))?;
        let answer =
            self.client.call(url, request, Need::Body, deadline).await.map_err(|reply| match reply {
                Reply::Unreachable(fault) | Reply::Doubtful(fault) => (None, fault.text),
                _ => (None, "no answer".to_owned()),
            })?;
        if !answer.status.is_success() {
            return Err((Some(answer.status), words(&answer.body)));
        }
        match (answer.whole, answer.body.trim_ascii()) {
            (true, []) => Ok(Value::Null),
            (true, text) => serde_json::from_slice(text)
                .map_err(|_| (Some(StatusCode::BAD_GATEWAY), "what it answered is not JSON".to_owned())),
            (false, _) => Err((None, "its answer broke off, or was too long".to_owned())),
        }
    }
}

/// What a status means. A redirect is not followed: the address is to be put right.
fn failed(status: Option<StatusCode>, words: String) -> Failed {
    let Some(status) = status else { return Failed::Passing(words) };
    let said = if words.is_empty() { status.to_string() } else { format!("{status}: {words}") };
    match status.as_u16() {
        404 | 409 => Failed::Gone(said),
        408 | 425 | 429 | 500..=599 => Failed::Passing(said),
        _ => Failed::Refused(said),
    }
}

/// What an engine says of a failure: Camunda 8 in a problem document, Camunda 7 in a message.
fn words(body: &[u8]) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let said: Vec<&str> =
        ["title", "detail", "message"].iter().filter_map(|name| document[name].as_str()).collect();
    mask::personal(&said.join(": ")).chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_reaction() {
        let check = |status: u16, expected: fn(String) -> Failed| {
            let got = failed(StatusCode::from_u16(status).ok(), "why".to_owned());
            let same = std::mem::discriminant(&got) == std::mem::discriminant(&expected(String::new()));
            assert!(same, "{status}: {got:?}");
        };
        for status in [404, 409] {
            check(status, Failed::Gone);
        }
        for status in [408, 425, 429, 500, 502, 503, 504] {
            check(status, Failed::Passing);
        }
        for status in [301, 307, 400, 401, 403, 405, 413, 422] {
            check(status, Failed::Refused);
        }
        assert_eq!(failed(None, "reset".into()), Failed::Passing("reset".into()));
    }

    #[test]
    fn what_an_engine_says_is_read_from_either_shape_and_bounded() {
        let problem = br#"{"type":"about:blank","title":"RESOURCE_EXHAUSTED","status":503,"detail":"busy"}"#;
        assert_eq!(words(problem), "RESOURCE_EXHAUSTED: busy");
        let exception = br#"{"type":"RestException","message":"locked by\n another","code":1}"#;
        assert_eq!(words(exception), "locked by another");
        assert_eq!(words(b"<html>"), "");
        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(5_000));
        assert_eq!(words(long.as_bytes()).len(), WORDS_MAX);
    }

    #[test]
    fn no_login_is_shown() {
        let login = Login::basic("ana", &Secret::new("canary-password"));
        let base = Url::parse("https://ana:canary@camunda.example/x").unwrap();
        let line = Line::new(base, None, login).unwrap();
        assert_eq!(line.shown(), "camunda.example");
        let encoded = BASE64_STANDARD.encode("ana:canary-password");
        assert!(!format!("{line:?}").contains("canary") && !format!("{line:?}").contains(&encoded));
    }
}
