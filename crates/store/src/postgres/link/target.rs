//! Where a PostgreSQL is, and how to reach it: a URL, taken apart.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::words;
use crate::vault::Keys;

/// How long one host may take to answer before the next one is tried.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// How long what was sent may stay unacknowledged, and how long silence lasts before it is tested.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Where a database is, with the password that opens it. It is never shown with it.
///
/// A URL as libpq reads it, `postgres://user:password@host1,host2:5433/database?…`, with these differences:
/// - With several hosts the session must be `read-write` unless the URL says otherwise, so that the primary is found.
/// - A server's certificate is always verified when TLS is used, and its name as well: `sslmode=require` means what
///   libpq calls `verify-full`, which is accepted too. `sslrootcert=FILE` names a private authority; without it
///   the web's are trusted. Without `sslmode`, TLS is used where the server offers it, and not at all on this
///   machine's own addresses.
/// - `pooler=transaction` says that a pooler stands between, which gives a session away after each transaction.
#[derive(Clone)]
pub struct Target {
    /// One for each host, in the order of the URL.
    hosts: Vec<Config>,
    pub(super) tls: MakeRustlsConnect,
    pooled: bool,
    /// The host that answered last, which is asked first the next time.
    last: Arc<AtomicUsize>,
    /// What the store there is sealed with, if it is or is to be.
    keys: Option<Keys>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.shown()).finish()
    }
}

impl Target {
    pub fn parse(url: &str) -> Result<Target, String> {
        let Some((scheme, rest)) =
            url.split_once("://").filter(|(scheme, _)| ["postgres", "postgresql"].contains(scheme))
        else {
            return Err("a database URL looks like postgres://user:password@host/database".to_owned());
        };
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') || address.matches('@').count() > 1 {
            // What follows would be about some part of a password, and what is shown would have it.
            return Err(
                "a `?` or `@` inside of a user, password or parameter must be written %3F or %40".to_owned()
            );
        }
        let (mut pooled, mut roots, mut sslmode) = (false, None, None);
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("pooler", "transaction") => pooled = true,
                ("pooler", "none" | "session") => pooled = false,
                ("pooler", _) => return Err("pooler is `transaction`, or not given".to_owned()),
                ("sslrootcert", "system") => roots = None,
                ("sslrootcert", file) => roots = Some(decoded(file).ok_or("sslrootcert cannot be read")?),
                ("sslmode", "disable") => sslmode = Some(SslMode::Disable),
                ("sslmode", "prefer") => sslmode = Some(SslMode::Prefer),
                ("sslmode", "require" | "verify-full") => sslmode = Some(SslMode::Require),
                ("sslmode", _) => {
                    return Err("sslmode is disable, prefer, require or verify-full".to_owned());
                }
                _ => others.push(parameter),
            }
        }
        let plain = format!("{scheme}://{address}?{}", others.join("&"));
        let config: Config =
            plain.parse().map_err(|error| format!("a wrong database URL: {}", words(&error)))?;
        let hosts = hosts(&config, sslmode)?;
        let tls = tls(roots.as_deref().map(Path::new))?;
        Ok(Target { hosts, tls, pooled, last: Arc::default(), keys: None })
    }

    /// The same, where the store is sealed with these keys, or will be.
    #[must_use]
    pub fn with_keys(self, keys: Option<Keys>) -> Target {
        Target { keys, ..self }
    }

    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    /// Whether a pooler gives the session away after each transaction.
    ///
    /// Then nothing that belongs to a session can be used: no `LISTEN`, so that work from elsewhere is found by
    /// looking, no named statements, so that each is planned anew, and settings are sent with every transaction.
    pub fn pooled(&self) -> bool {
        self.pooled
    }

    /// For people, without the password: `postgres://user@host:5432/database`.
    pub fn shown(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(address).collect();
        let user = self.hosts.first().and_then(Config::get_user).map(|user| format!("{user}@"));
        let database = self.hosts.first().and_then(Config::get_dbname).map(|name| format!("/{name}"));
        format!("postgres://{}{}{}", user.unwrap_or_default(), hosts.join(","), database.unwrap_or_default())
    }

    /// Who logs in.
    pub(crate) fn user(&self) -> Option<&str> {
        self.hosts.first().and_then(Config::get_user)
    }

    /// Another database of the same server.
    pub(in crate::postgres) fn within(&self, database: &str) -> Target {
        let mut target = Target { last: Arc::default(), ..self.clone() };
        for host in &mut target.hosts {
            host.dbname(database);
        }
        target
    }

    /// Every host once, beginning with the one that answered last.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (usize, &Config)> {
        let first = self.last.load(Ordering::Relaxed);
        (0..self.hosts.len())
            .map(move |nth| (first + nth) % self.hosts.len())
            .map(|nth| (nth, &self.hosts[nth]))
    }

    pub(super) fn answered(&self, host: usize) {
        self.last.store(host, Ordering::Relaxed);
    }
}

/// The host and port of a configuration that has one of each.
pub(super) fn address(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) if name.contains(':') => format!("[{name}]"),
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(folder)) => return format!("{}:{}", folder.display(), port(config, 0)),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    format!("{host}:{}", port(config, 0))
}

fn port(config: &Config, nth: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(nth).or(ports.first()).copied().unwrap_or(5432)
}

/// One configuration for each host, so that one that does not answer takes no time from the next.
fn hosts(all: &Config, sslmode: Option<SslMode>) -> Result<Vec<Config>, String> {
    let (names, addresses) = (all.get_hosts(), all.get_hostaddrs());
    let count = names.len().max(addresses.len());
    if count == 0 {
        return Err("the database URL names no host".to_owned());
    }
    if all.get_ports().len() > 1 && all.get_ports().len() != count
        || !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len()
    {
        return Err("the database URL has another number of ports or addresses than of hosts".to_owned());
    }
    let session = match all.get_target_session_attrs() {
        // What was not said is the same to the parser as `any`, which nothing here could work with.
        TargetSessionAttrs::Any if count > 1 => TargetSessionAttrs::ReadWrite,
        said => said,
    };
    let one = |nth: usize| {
        let mut config = Config::new();
        let mut unasked = SslMode::Prefer;
        match names.get(nth) {
            Some(Host::Tcp(name)) => {
                config.host(name);
                let here =
                    name.parse::<IpAddr>().map_or(name == "localhost", |address| address.is_loopback());
                unasked = if here { SslMode::Disable } else { SslMode::Prefer };
            }
            Some(Host::Unix(folder)) => drop(config.host_path(folder)),
            None => {}
        }
        if let Some(address) = addresses.get(nth) {
            config.hostaddr(*address);
        }
        if let Some(user) = all.get_user() {
            config.user(user);
        }
        if let Some(password) = all.get_password() {
            config.password(password);
        }
        if let Some(name) = all.get_dbname() {
            config.dbname(name);
        }
        if let Some(options) = all.get_options() {
            config.options(options);
        }
        config
            .port(port(all, nth))
            .application_name(all.get_application_name().unwrap_or("pombo"))
            .ssl_mode(sslmode.unwrap_or(unasked))
            .ssl_negotiation(all.get_ssl_negotiation())
            .channel_binding(all.get_channel_binding())
            .target_session_attrs(session)
            .connect_timeout(all.get_connect_timeout().copied().unwrap_or(CONNECT))
            .tcp_user_timeout(all.get_tcp_user_timeout().copied().unwrap_or(UNACKNOWLEDGED))
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(all.get_keepalives_interval().unwrap_or(KEEPALIVE / 2))
            .keepalives_retries(all.get_keepalives_retries().unwrap_or(3));
        config
    };
    Ok((0..count).map(one).collect())
}

fn tls(roots: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let mut trusted = RootCertStore::empty();
    match roots {
        None => trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unread = |error: &dyn fmt::Display| format!("sslrootcert {}: {error}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unread(&error))? {
                let certificate = certificate.map_err(|error| unread(&error))?;
                trusted.add(certificate).map_err(|error| unread(&error))?;
            }
            if trusted.is_empty() {
                return Err(unread(&"it holds no certificate"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// What `%41` and its like stand for; none if that is not text.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    out.extend(parts.next()?.bytes());
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        out.push(u8::from_str_radix(code, 16).ok()?);
        out.extend(rest.bytes());
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts_of(url: &str) -> Vec<Config> {
        Target::parse(url).unwrap().hosts
    }

    #[test]
    fn no_password_is_shown() {
        let target = Target::parse("postgres://ana:canary%40x@db1:5433,db2/pombo?sslmode=require").unwrap();
        assert_eq!(target.shown(), "postgres://ana@db1:5433,db2:5432/pombo");
        assert!(!format!("{target:#?}").contains("canary"));
        assert_eq!(target.hosts[1].get_password(), Some(b"canary@x".as_slice()));
        for wrong in ["postgres://ana:can?ary=x@db/pombo", "mysql://ana:canary@db", "postgres://a@db?canary"]
        {
            let error = Target::parse(wrong).unwrap_err();
            assert!(!error.contains("ary=") && !error.contains(":can"), "{error}");
        }
    }

    #[test]
    fn of_several_hosts_the_one_that_takes_writes_is_wanted() {
        let several = hosts_of("postgres://a@db1,db2:5433/x");
        assert_eq!(several.len(), 2);
        assert!(several.iter().all(|one| one.get_target_session_attrs() == TargetSessionAttrs::ReadWrite));
        assert_eq!((port(&several[0], 0), port(&several[1], 0)), (5432, 5433));
        assert_eq!(hosts_of("postgres://a@db/x")[0].get_target_session_attrs(), TargetSessionAttrs::Any);
    }

    #[test]
    fn the_host_that_answered_last_is_asked_first() {
        let target = Target::parse("postgres://a@db1,db2,db3/x").unwrap();
        target.answered(1);
        assert_eq!(target.hosts().map(|(nth, _)| nth).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn tls_is_used_where_it_is_asked_for_or_offered_by_another_machine() {
        let mode = |url: &str| hosts_of(url)[0].get_ssl_mode();
        assert_eq!(mode("postgres://a@db/x"), SslMode::Prefer);
        assert_eq!(mode("postgres://a@127.0.0.1/x"), SslMode::Disable);
        assert_eq!(mode("postgres://a@localhost/x?sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgres://a@db/x?sslmode=disable&pooler=transaction"), SslMode::Disable);
        assert!(Target::parse("postgres://a@db/x?sslmode=maybe").is_err());
    }

    #[test]
    fn a_pooler_is_said_in_the_url() {
        assert!(Target::parse("postgres://a@db/x?connect_timeout=3&pooler=transaction").unwrap().pooled());
        assert!(!Target::parse("postgres://a@db/x").unwrap().pooled());
        assert!(Target::parse("postgres://a@db/x?pooler=statement").is_err());
    }

    #[test]
    fn a_file_of_authorities_must_hold_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a ca.pem");
        std::fs::write(&file, "nothing").unwrap();
        let url = format!("postgres://a@db/x?sslrootcert={}", file.display().to_string().replace(' ', "%20"));
        assert!(Target::parse(&url).unwrap_err().contains("holds no certificate"));
        assert!(Target::parse("postgres://a@db/x?sslrootcert=/nowhere").unwrap_err().contains("/nowhere"));
    }
}
