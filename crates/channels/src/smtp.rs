//! E-mail to an SMTP server: a relay, or the recipient's own.

mod dkim;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod mail;
mod route;
mod said;
mod talk;
mod tls;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pombo_kernel::content::Problem;
use pombo_kernel::reply::{FaultKind, Refusal, Reply, Stage};
use pombo_kernel::secret::Secret;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;
use url::Url;

pub use self::dkim::DkimSettings;
use self::dkim::Signer;
use self::mail::{Mail, Stationery, sender_or_recipient};
use self::route::{Dns, Route};
use self::talk::{Fate, Login, Manner, Talk};
use self::tls::Connectors;
pub use self::tls::Tls;
use crate::client::roots;
use crate::guard::{Allowed, Guard};
use crate::line::fault;
use crate::pool::Pool;
use crate::resolve::Resolver;
use crate::{BoxFuture, Channel, Envelope, Health};

#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SmtpSettings {
    /// Whom mails are handed to: "relay", the server at `url`, or "mx", the servers of each recipient's domain.
    pub mode: Mode,
    /// The server, for example "smtps://user:${SMTP_PASSWORD}@mail.example:465".
    #[schemars(with = "Option<String>")]
    pub url: Option<Url>,
    /// Who we are to the server, where it does not stand in the address.
    pub username: Option<String>,
    /// The server's password, where it does not stand in the address.
    pub password: Option<Secret>,
    /// A file that holds the password, instead of `password`.
    pub password_file: Option<PathBuf>,
    /// When the connection is encrypted: "implicit", "starttls", "opportunistic" or "none".
    pub tls: Option<Tls>,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
    /// The sender of mails that name none, for example "Clinic <mail@clinic.example>".
    pub from: Option<String>,
    /// Where bounces go, if not to the sender.
    pub bounce_address: Option<String>,
    /// The name by which we greet the server, for example "pombo.clinic.example".
    pub hello: Option<String>,
    /// Tell recipients' servers which trace a mail belongs to, in a header `traceparent`, where traces are kept.
    pub trace_header: bool,
    /// Connections in use at once.
    pub connections: NonZeroU16,
    /// Signs every mail for a domain.
    pub dkim: Option<DkimSettings>,
    /// The port of recipients' servers, in mode "mx".
    pub port: NonZeroU16,
    /// The name server to ask in mode "mx", for example "127.0.0.1:53"; the system's otherwise.
    #[schemars(with = "Option<String>")]
    pub dns: Option<SocketAddr>,
    /// In mode "mx", send to servers at loopback and private addresses too.
    pub allow_private: bool,
    /// In mode "mx", hosts and networks that are open whatever their address, such as `10.0.0.0/8`.
    pub allow: Vec<Allowed>,
}

impl Default for SmtpSettings {
    fn default() -> SmtpSettings {
        const CONNECTIONS: NonZeroU16 = NonZeroU16::new(16).expect("not zero");
        const PORT: NonZeroU16 = NonZeroU16::new(25).expect("not zero");
        SmtpSettings {
            mode: Mode::Relay,
            url: None,
            username: None,
            password: None,
            password_file: None,
            tls: None,
            ca_file: None,
            from: None,
            bounce_address: None,
            hello: None,
            trace_header: false,
            connections: CONNECTIONS,
            dkim: None,
            port: PORT,
            dns: None,
            allow_private: false,
            allow: Vec::new(),
        }
    }
}

/// Leaves out the address, which may hold a password.
impl fmt::Debug for SmtpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.as_ref().and_then(Url::host_str);
        f.debug_struct("SmtpSettings").field("mode", &self.mode).field("host", &host).finish_non_exhaustive()
    }
}

/// Whom mails are handed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    #[default]
    Relay,
    Mx,
}

/// The SMTP channel: one mail, one recipient, one reply.
pub struct Smtp {
    route: Route,
    manner: Manner,
    stationery: Stationery,
    pool: Arc<Pool<Talk>>,
    turns: Semaphore,
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp")
            .field("route", &self.route)
            .field("tls", &self.manner.tls)
            .finish_non_exhaustive()
    }
}

impl Smtp {
    /// Sets the channel up, or names everything that is wrong with its settings.
    pub fn new(settings: &SmtpSettings) -> Result<Smtp, Vec<Problem>> {
        Smtp::with_resolver(settings, Resolver::default())
    }

    /// As `new`, with another way to find the relay.
    pub fn with_resolver(settings: &SmtpSettings, resolver: Resolver) -> Result<Smtp, Vec<Problem>> {
        let mut problems = Vec::new();
        let relay = relay(settings, &mut problems);
        let mut wrong = |field: &str, reason: String, hint: &str| {
            problems.push(Problem { field: field.to_owned(), reason, hint: hint.to_owned() });
        };
        let mut address = |field: &str, text: &Option<String>| {
            let read = text.as_deref().map(sender_or_recipient);
            if matches!(read, Some(None)) {
                wrong(field, "is not an e-mail address".to_owned(), "write Clinic <mail@clinic.example>");
            }
            read.flatten()
        };
        let from = address("from", &settings.from);
        let bounce_address = address("bounce_address", &settings.bounce_address).map(|mailbox| mailbox.email);
        if settings.hello.as_deref().is_some_and(|name| !is_greeting_name(name)) {
            wrong("hello", "is not a host name".to_owned(), "write pombo.clinic.example");
        }
        if settings.mode == Mode::Mx {
            if settings.hello.is_none() {
                let hint = "write the name that this machine's address leads back to, pombo.clinic.example";
                wrong("hello", "is missing, and strangers' servers ask for it".to_owned(), hint);
            }
            if matches!(settings.tls, Some(Tls::Implicit)) {
                wrong(
                    "tls",
                    "servers of domains do not speak TLS at once".to_owned(),
                    "write \"opportunistic\"",
                );
            }
        }
        let roots = roots(settings.ca_file.as_deref());
        if let Err(reason) = &roots {
            wrong("ca_file", format!("cannot be used: {reason}"), "name a readable PEM file of certificates");
        }
        let connectors = roots.ok().map(Connectors::new);
        if let Some(Err(error)) = &connectors {
            wrong("ca_file", format!("TLS cannot be set up: {error}"), "report this as a bug");
        }
        let signer = settings.dkim.as_ref().map(Signer::new).transpose();
        let signer = signer.unwrap_or_else(|found| {
            problems.extend(found);
            None
        });
        let (Some(Ok(connectors)), Some(relay), []) = (connectors, relay, problems.as_slice()) else {
            return Err(problems);
        };
        let guard = Guard { allow_private: settings.allow_private, allow: settings.allow.clone() };
        let route = match relay.host {
            Some(host) => Route::Relay { host, port: relay.port, resolver },
            None => Route::Mx { port: settings.port.get(), guard, dns: Box::new(Dns::new(settings.dns)) },
        };
        Ok(Smtp {
            route,
            manner: Manner { tls: relay.tls, connectors, hello: settings.hello.clone(), login: relay.login },
            stationery: Stationery { from, bounce_address, signer, trace_header: settings.trace_header },
            pool: Arc::default(),
            turns: Semaphore::new(settings.connections.get().into()),
        })
    }

    async fn attempt(&self, envelope: &Envelope, deadline: Duration) -> Reply {
        let mail = match self.stationery.write(envelope) {
            Ok(mail) => mail,
            Err(text) => return Reply::Unreachable(fault(FaultKind::BadContent, text)),
        };
        // Kept outside of what is given up when time is over, so that what was said is known then.
        let mut talk = None;
        let reply = tokio::time::timeout(deadline, self.carry(envelope, &mail, &mut talk, deadline)).await;
        reply.unwrap_or_else(|_| {
            if talk.as_ref().is_some_and(Talk::in_doubt) {
                Reply::Doubtful(fault(FaultKind::Timeout, "no reply to the mail in time"))
            } else {
                Reply::Unreachable(fault(FaultKind::Timeout, "the mail could not be handed over in time"))
            }
        })
    }

    /// Finds a server and hands the mail to it. Another is tried only where the one before did not let us in.
    async fn carry(
        &self,
        envelope: &Envelope,
        mail: &Mail,
        talk: &mut Option<Talk>,
        deadline: Duration,
    ) -> Reply {
        let Ok(_turn) = self.turns.acquire().await else {
            return Reply::Unreachable(fault(FaultKind::NotConfigured, "the channel is closed"));
        };
        let hosts = match self.route.hosts(&mail.domain, envelope.id).await {
            Ok(hosts) => hosts,
            Err(reply) => return reply,
        };
        let mut last = Reply::Unreachable(fault(FaultKind::DnsNotFound, "the domain has no server"));
        for (tried, host) in hosts.iter().enumerate() {
            if let Some(idle) = self.pool.take(host)
                && let Fate::Told(reply) = talk.insert(idle).deliver(mail).await
            {
                self.keep(host, talk);
                return reply;
            }
            // One that swallows packets must not use up the time of the others, or of the mail.
            let left = u32::try_from(hosts.len() - tried).unwrap_or(u32::MAX);
            let share = if left == 1 { deadline } else { deadline / (left + 1) };
            match self.open(host, share).await {
                Ok(fresh) => {
                    let (Fate::Told(reply) | Fate::Stale(reply)) = talk.insert(fresh).deliver(mail).await;
                    self.keep(host, talk);
                    return reply;
                }
                Err(
                    reply @ (Reply::Unreachable(_) | Reply::Refused(Refusal { stage: Stage::Greeting, .. })),
                ) => {
                    last = reply;
                }
                Err(reply) => return reply,
            }
        }
        last
    }

    /// A fresh connection, at the first address of the host that answers.
    async fn open(&self, host: &str, share: Duration) -> Result<Talk, Reply> {
        let late = || Reply::Unreachable(fault(FaultKind::Timeout, "no connection in time"));
        let opening = async {
            let addresses = self.route.addresses(host).await.map_err(Reply::Unreachable)?;
            let each = share / u32::try_from(addresses.len()).unwrap_or(1).max(1);
            let mut last = late();
            for address in addresses {
                match tokio::time::timeout(each, Talk::open(address, host, &self.manner)).await {
                    Ok(Ok(mut talk)) => {
                        self.pool.register(&mut talk);
                        return Ok(talk);
                    }
                    Ok(Err(reply @ Reply::Unreachable(_))) => last = reply,
                    Ok(Err(reply)) => return Err(reply),
                    Err(_) => last = late(),
                }
            }
            Err(last)
        };
        tokio::time::timeout(share, opening).await.unwrap_or_else(|_| Err(late()))
    }

    fn keep(&self, host: &str, talk: &mut Option<Talk>) {
        if let Some(talk) = talk.take() {
            self.pool.park(host, talk);
        }
    }

    async fn look(&self, deadline: Duration) -> Health {
        let Route::Relay { host, .. } = &self.route else { return Health::Unknown };
        let asking = async {
            let mut talk = self.open(host, deadline).await?;
            talk.noop().await
        };
        match tokio::time::timeout(deadline, asking).await {
            Ok(Ok(words)) if self.manner.login.is_some() => Health::Ready(words),
            Ok(Ok(words)) => Health::Reachable(words),
            Ok(Err(reply)) => Health::Sick(reply),
            Err(_) => Health::Sick(Reply::Unreachable(fault(FaultKind::Timeout, "no answer in time"))),
        }
    }
}

impl Channel for Smtp {
    fn send<'a>(&'a self, envelope: &'a Envelope, deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(self.attempt(envelope, deadline))
    }

    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Health> {
        Box::pin(self.look(deadline))
    }
}

/// The server that takes every mail, and how it is spoken to; no host where each domain has its own.
struct Relay {
    host: Option<String>,
    port: u16,
    tls: Tls,
    login: Option<Login>,
}

fn relay(settings: &SmtpSettings, problems: &mut Vec<Problem>) -> Option<Relay> {
    let before = problems.len();
    let mut wrong = |field: &str, reason: &str, hint: &str| {
        problems.push(Problem { field: field.into(), reason: reason.into(), hint: hint.into() });
    };
    let url = settings.url.as_ref();
    if settings.mode == Mode::Mx {
        for (field, given) in [
            ("url", url.is_some()),
            ("username", settings.username.is_some()),
            ("password", settings.password.is_some()),
        ] {
            if given {
                wrong(field, "has no use in mode `mx`", "take it out, or take out `mode`");
            }
        }
        let tls = settings.tls.unwrap_or(Tls::Opportunistic);
        return (problems.len() == before).then_some(Relay { host: None, port: 0, tls, login: None });
    }
    let Some(url) = url else {
        wrong("url", "is missing", "write smtp://host:587 or smtps://host:465");
        return None;
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    if !matches!(url.scheme(), "smtp" | "smtps") || host.is_empty() {
        wrong("url", "is not the address of a mail server", "write smtp://host:587 or smtps://host:465");
        return None;
    }
    let in_url = (!url.username().is_empty()).then(|| decoded(url.username()));
    if in_url.is_some() && settings.username.is_some() {
        wrong("username", "is given twice, here and in `url`", "keep one of them");
    }
    if url.password().is_some() && settings.password.is_some() {
        wrong("password", "is given twice, here and in `url`", "keep one of them");
    }
    let username = in_url.or_else(|| settings.username.clone());
    let password =
        settings.password.clone().or_else(|| url.password().map(|text| Secret::new(decoded(text))));
    let login = match (username, password) {
        (None, None) => None,
        (Some(username), Some(password)) => Some(Login { username: Secret::new(username), password }),
        (Some(_), None) => {
            wrong("password", "is missing beside the user's name", "set `password` or `password_file`");
            None
        }
        (None, Some(_)) => {
            wrong("username", "is missing beside the password", "set `username`");
            None
        }
    };

    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let secure = url.scheme() == "smtps";
    let port = url.port().unwrap_or(if secure { 465 } else { 25 });
    let fitting = match (secure, port) {
        (true, _) => Tls::Implicit,
        (false, 587) => Tls::Starttls,
        (false, _) if login.is_some() && !here => Tls::Starttls,
        (false, _) => Tls::Opportunistic,
    };
    let tls = settings.tls.unwrap_or(fitting);
    if secure && tls != Tls::Implicit {
        wrong("tls", "contradicts smtps://", "write smtp://, or take `tls` out");
    }
    if tls == Tls::Opportunistic && login.is_some() && !here {
        wrong("tls", "would show the password to anybody in between", "write \"starttls\"");
    }
    (problems.len() == before).then_some(Relay { host: Some(host), port, tls, login })
}

/// What stands percent-encoded in a URL; bytes that are no text come out replaced.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match code {
            Some(code) if *first == b'%' => {
                bytes.push(code);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_greeting_name(name: &str) -> bool {
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    match literal {
        Some(address) => address.strip_prefix("IPv6:").unwrap_or(address).parse::<IpAddr>().is_ok(),
        None => (1..=253).contains(&name.len()) && name.bytes().all(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> SmtpSettings {
        SmtpSettings { url: Some(url.parse().unwrap()), ..SmtpSettings::default() }
    }

    /// How, at which port, and as whom.
    type Spoken = (Tls, u16, Option<(String, String)>);

    fn read(settings: &SmtpSettings) -> Result<Spoken, Vec<String>> {
        let smtp = Smtp::new(settings)
            .map_err(|problems| problems.into_iter().map(|problem| problem.field).collect::<Vec<_>>())?;
        let port = match &smtp.route {
            Route::Relay { port, .. } | Route::Mx { port, .. } => *port,
        };
        let login = smtp
            .manner
            .login
            .map(|login| (login.username.expose().to_owned(), login.password.expose().to_owned()));
        Ok((smtp.manner.tls, port, login))
    }

    #[test]
    fn the_address_says_how_to_speak() {
        let login = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        for (url, tls, port, expected) in [
            ("smtps://mail.example", Tls::Implicit, 465, None),
            ("smtps://u:p@mail.example:8465", Tls::Implicit, 8465, login("u", "p")),
            ("smtp://mail.example:587", Tls::Starttls, 587, None),
            ("smtp://mail.example", Tls::Opportunistic, 25, None),
            ("smtp://mail.example:2525", Tls::Opportunistic, 2525, None),
            ("smtp://u:p@mail.example:2525", Tls::Starttls, 2525, login("u", "p")),
            ("smtp://a%40b:p%3A%25%2f+%zz@localhost", Tls::Opportunistic, 25, login("a@b", "p:%/+%zz")),
            ("smtp://u:p@[::1]:1025", Tls::Opportunistic, 1025, login("u", "p")),
        ] {
            assert_eq!(read(&settings(url)), Ok((tls, port, expected)), "{url}");
        }
        let none = SmtpSettings { tls: Some(Tls::None), ..settings("smtp://u:p@mail.example") };
        assert_eq!(read(&none).unwrap().0, Tls::None);
    }

    #[test]
    fn every_wrong_setting_is_named_at_once() {
        let wrong = SmtpSettings {
            username: Some("u".to_owned()),
            tls: Some(Tls::Opportunistic),
            ca_file: Some("nowhere.pem".into()),
            from: Some("nobody".to_owned()),
            bounce_address: Some("a@b\r\n".to_owned()),
            hello: Some("a b".to_owned()),
            dkim: Some(DkimSettings::default()),
            ..settings("smtp://u:p@mail.example")
        };
        let fields = [
            "username",
            "tls",
            "from",
            "bounce_address",
            "hello",
            "ca_file",
            "dkim.domain",
            "dkim.selector",
            "dkim.key_file",
        ];
        assert_eq!(read(&wrong).unwrap_err(), fields);
        assert_eq!(read(&SmtpSettings::default()).unwrap_err(), ["url"]);
        assert_eq!(read(&settings("https://mail.example")).unwrap_err(), ["url"]);
        assert_eq!(read(&settings("smtp://u@mail.example")).unwrap_err(), ["password"]);
        let contrary = SmtpSettings { tls: Some(Tls::None), ..settings("smtps://mail.example") };
        assert_eq!(read(&contrary).unwrap_err(), ["tls"]);
    }

    #[test]
    fn mx_needs_a_name_and_no_server() {
        let mx = SmtpSettings { mode: Mode::Mx, ..SmtpSettings::default() };
        assert_eq!(read(&mx).unwrap_err(), ["hello"]);
        let named = SmtpSettings { hello: Some("pombo.clinic.example".to_owned()), ..mx };
        assert_eq!(read(&named), Ok((Tls::Opportunistic, 25, None)));
        let odd = SmtpSettings {
            tls: Some(Tls::Implicit),
            url: Some("smtp://u:p@h".parse().unwrap()),
            password: Some(Secret::new("p")),
            ..named
        };
        assert_eq!(read(&odd).unwrap_err(), ["url", "password", "tls"]);
    }
}
