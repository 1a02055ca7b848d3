//! The process engines that ask for retry decisions. A section that is there switches its worker on.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use pombo_kernel::decision::Language;
use pombo_kernel::secret::Secret;
use pombo_kernel::time::Span;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;
use url::Url;

use super::channel::{secret, web_address};
use super::environment::joined;
use super::section::Reading;

/// A worker for jobs of a Camunda 8 cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Camunda8 {
    /// Where the cluster's REST API answers, without `/v2`, for example "http://camunda.example:8080".
    #[schemars(with = "Option<String>")]
    pub base_url: Option<Url>,
    /// The type of the jobs, for example "analyze-retry".
    #[serde(rename = "type")]
    pub kind: String,
    /// What the cluster calls this worker; made up at start unless it is given.
    pub worker: Option<String>,
    /// Jobs under way at once, for example 50.
    pub max_jobs: NonZeroU16,
    /// How long a job is this worker's, for example "10s". Then the cluster hands it out again.
    pub job_timeout: Span,
    /// How long one question for jobs waits for some, for example "30s".
    pub request_timeout: Span,
    /// What reasons are written in: "en" or "pt".
    pub language: Language,
    /// How the cluster knows us: "none", "basic" or "oidc".
    pub auth: Auth,
    /// For "basic": the user's name.
    pub username: Option<String>,
    /// For "basic": the password, from the environment: "${CAMUNDA8_PASSWORD}".
    pub password: Option<Secret>,
    /// A file that holds the password, instead of `password`.
    pub password_file: Option<PathBuf>,
    /// For "oidc": where tokens are given out, for example "https://login.cloud.camunda.io/oauth/token".
    #[schemars(with = "Option<String>")]
    pub token_url: Option<Url>,
    /// For "oidc": the client's id.
    pub client_id: Option<String>,
    /// For "oidc": the client's secret, from the environment: "${CAMUNDA8_CLIENT_SECRET}".
    pub client_secret: Option<Secret>,
    /// A file that holds the secret, instead of `client_secret`.
    pub client_secret_file: Option<PathBuf>,
    /// For "oidc": whom tokens are for, for example "zeebe.camunda.io".
    pub audience: Option<String>,
    /// For "oidc": the scope to ask for, where the giver of tokens wants one.
    pub scope: Option<String>,
    /// Certificates to trust besides those of the web, in a PEM file.
    pub ca_file: Option<PathBuf>,
}

/// How a cluster knows us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// By a name and a password.
    Basic,
    /// By tokens that an identity provider gives out (client credentials).
    Oidc,
}

impl Default for Camunda8 {
    fn default() -> Camunda8 {
        Camunda8 {
            base_url: None,
            kind: TOPIC.to_owned(),
            worker: None,
            max_jobs: AT_ONCE,
            job_timeout: LOCK,
            request_timeout: POLL,
            language: Language::default(),
            auth: Auth::default(),
            username: None,
            password: None,
            password_file: None,
            token_url: None,
            client_id: None,
            client_secret: None,
            client_secret_file: None,
            audience: None,
            scope: None,
            ca_file: None,
        }
    }
}

/// A worker for external tasks of a Camunda 7 engine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Camunda7 {
    /// Where the engine's REST API answers, for example "http://camunda.example:8080/engine-rest".
    #[schemars(with = "Option<String>")]
    pub base_url: Option<Url>,
    /// The topic of the tasks, for example "analyze-retry".
    pub topic: String,
    /// What the engine calls this worker; made up at start unless it is given. No two nodes may have the same.
    pub worker_id: Option<String>,
    /// Tasks under way at once, for example 50.
    pub max_tasks: NonZeroU16,
    /// How long a task is this worker's, for example "10s". Then the engine hands it out again.
    pub lock_duration: Span,
    /// How long one question for tasks waits for some, for example "30s".
    pub request_timeout: Span,
    /// What reasons are written in: "en" or "pt".
    pub language: Language,
    /// The user's name, where the engine wants one.
    pub username: Option<String>,
    /// The password, from the environment: "${CAMUNDA7_PASSWORD}".
    pub password: Option<Secret>,
    /// A file that holds the password, instead of `password`.
    pub password_file: Option<PathBuf>,
    /// Certificates to trust besides those of the web, in a PEM file.
    pub ca_file: Option<PathBuf>,
}

impl Default for Camunda7 {
    fn default() -> Camunda7 {
        Camunda7 {
            base_url: None,
            topic: TOPIC.to_owned(),
            worker_id: None,
            max_tasks: AT_ONCE,
            lock_duration: LOCK,
            request_timeout: POLL,
            language: Language::default(),
            username: None,
            password: None,
            password_file: None,
            ca_file: None,
        }
    }
}

const TOPIC: &str = "analyze-retry";
const AT_ONCE: NonZeroU16 = NonZeroU16::new(50).expect("not nothing");
const LOCK: Span = Span::from_secs(10);
const POLL: Span = Span::from_secs(30);

/// Camunda 7 refuses to wait longer.
const POLL_MAX: Span = Span::from_mins(30);
const LOCK_MIN: Span = Span::from_secs(1);

pub(super) fn read_eight(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Option<Camunda8> {
    let here = "camunda8";
    let table = reading.table(here, value?)?;
    let mut it: Camunda8 = reading.section(here, table);
    check(reading, here, it.base_url.as_ref(), ("type", &it.kind), ("job_timeout", it.job_timeout));
    check_poll(reading, here, it.request_timeout);
    it.password = secret(reading, here, "password", it.password, it.password_file.as_deref(), folder);
    let file = it.client_secret_file.as_deref();
    it.client_secret = secret(reading, here, "client_secret", it.client_secret, file, folder);
    it.ca_file = it.ca_file.map(|file| folder.join(file));
    let token = joined(here, "token_url");
    web_address(reading, &token, it.token_url.as_ref());
    let needed = [
        (Auth::Basic, "username", it.username.is_some()),
        (Auth::Basic, "password", it.password.is_some()),
        (Auth::Oidc, "token_url", it.token_url.is_some()),
        (Auth::Oidc, "client_id", it.client_id.is_some()),
        (Auth::Oidc, "client_secret", it.client_secret.is_some()),
    ];
    for (_, key, _) in needed.into_iter().filter(|(auth, _, given)| it.auth == *auth && !given) {
        missing(reading, &joined(here, key), "give it, or another `auth`");
    }
    Some(it)
}

pub(super) fn read_seven(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Option<Camunda7> {
    let here = "camunda7";
    let table = reading.table(here, value?)?;
    let mut it: Camunda7 = reading.section(here, table);
    check(reading, here, it.base_url.as_ref(), ("topic", &it.topic), ("lock_duration", it.lock_duration));
    check_poll(reading, here, it.request_timeout);
    it.password = secret(reading, here, "password", it.password, it.password_file.as_deref(), folder);
    it.ca_file = it.ca_file.map(|file| folder.join(file));
    if it.username.is_some() != it.password.is_some() {
        let key = if it.username.is_some() { "password" } else { "username" };
        missing(reading, &joined(here, key), "a user has both; leave both out if the engine wants none");
    }
    Some(it)
}

/// A key without which the section cannot be used, unless something is already said of it.
fn missing(reading: &mut Reading, here: &str, hint: &str) {
    if !reading.problems.0.iter().any(|problem| problem.path == here) {
        reading.problems.say(here, "missing", hint);
    }
}

fn check(
    reading: &mut Reading,
    here: &str,
    base_url: Option<&Url>,
    (topic_key, topic): (&str, &str),
    (lock_key, lock): (&str, Span),
) {
    let base = joined(here, "base_url");
    web_address(reading, &base, base_url);
    if base_url.is_none() {
        missing(reading, &base, "where the engine answers; or remove the section");
    }
    if topic.trim().is_empty() {
        reading.problems.say(joined(here, topic_key), "empty", "for example \"analyze-retry\"");
    }
    if lock < LOCK_MIN {
        let what = format!("{lock} is too short for an answer");
        reading.problems.say(joined(here, lock_key), what, "at least 1s, for example \"10s\"");
    }
}

fn check_poll(reading: &mut Reading, here: &str, poll: Span) {
    if poll < Span::from_millis(100) || poll > POLL_MAX {
        let what = format!("{poll} is out of bounds");
        reading.problems.say(joined(here, "request_timeout"), what, "from 100ms to 30m, for example \"30s\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Source};

    fn load(text: &str) -> Result<Config, Vec<String>> {
        let environment: Environment = [("PASSWORD", "canary")].into_iter().collect();
        Config::parse(text, Source::default(), &environment)
            .map_err(|problems| problems.0.into_iter().map(|problem| problem.path).collect())
    }

    #[test]
    fn no_section_no_worker() {
        let config = load("").unwrap();
        assert!(config.camunda8.is_none() && config.camunda7.is_none());
    }

    #[test] // REQ RD-5
    fn an_address_is_enough_and_the_rest_is_as_the_source_document_says() {
        let text = "[camunda8]\nbase_url = \"http://c.example:8080\"\n[camunda7]\nbase_url = \"http://c.example/engine-rest\"";
        let config = load(text).unwrap();
        let eight = config.camunda8.unwrap();
        assert_eq!((eight.kind.as_str(), eight.max_jobs.get()), ("analyze-retry", 50));
        assert_eq!((eight.job_timeout, eight.auth), (Span::from_secs(10), Auth::None));
        let seven = config.camunda7.unwrap();
        assert_eq!((seven.topic.as_str(), seven.max_tasks.get()), ("analyze-retry", 50));
    }

    #[test]
    fn whatever_is_missing_or_out_of_bounds_is_told_by_its_path() {
        let refused = |text: &str| load(text).unwrap_err();
        assert_eq!(refused("[camunda8]\n"), ["camunda8.base_url"]);
        assert_eq!(refused("[camunda7]\nbase_url = \"ftp://x\""), ["camunda7.base_url"]);
        let base = "base_url = \"http://c.example\"";
        assert_eq!(
            refused(&format!("[camunda8]\n{base}\nauth = \"oidc\"\nclient_id = \"x\"")),
            ["camunda8.client_secret", "camunda8.token_url"]
        );
        assert_eq!(refused(&format!("[camunda8]\n{base}\nauth = \"kerberos\"")), ["camunda8.auth"]);
        let basic = "auth = \"basic\"\nusername = \"a\"\npassword = \"in the file\"";
        assert_eq!(refused(&format!("[camunda8]\n{base}\n{basic}")), ["camunda8.password"]);
        assert_eq!(refused(&format!("[camunda7]\n{base}\nusername = \"a\"")), ["camunda7.password"]);
        let odd =
            "topic = \" \"\nlock_duration = \"10ms\"\nrequest_timeout = \"2h\"\nmax_tasks = 0\nworkers = 3";
        assert_eq!(
            refused(&format!("[camunda7]\n{base}\n{odd}")),
            [
                "camunda7.lock_duration",
                "camunda7.max_tasks",
                "camunda7.request_timeout",
                "camunda7.topic",
                "camunda7.workers"
            ]
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let text =
            "[camunda7]\nbase_url = \"http://c.example\"\nusername = \"a\"\npassword = \"${PASSWORD}\"";
        let config = load(text).unwrap();
        assert!(!format!("{config:?}").contains("canary"));
    }
}
