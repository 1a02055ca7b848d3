//! The door for mail: SMTP submission. It opens only where an address is given.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pombo_web::smtp::{Bounds, Manner};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Value;

use super::environment::joined;
use super::problem::Problem;
use super::section::Reading;

/// SMTP submission: mails in, each through the channel whose name the client logs in with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Smtp {
    /// The address to listen on, for example "127.0.0.1:2525"; the door stays closed without one.
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// Who the server says that it is, for example "pombo.clinic.example"; its address otherwise.
    pub hostname: Option<String>,
    /// A PEM file with the server's certificate and those that vouch for it.
    pub tls_cert: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    pub tls_key: Option<PathBuf>,
    /// TLS from the first byte on, as at port 465, instead of STARTTLS.
    pub implicit_tls: bool,
    /// Take keys in the clear from other machines too; from this one they always are.
    pub allow_plaintext_auth: bool,
    /// Connections at once, for example 1000.
    pub connections: NonZeroU16,
    /// Connections at once from one address, for example 100.
    pub connections_per_address: NonZeroU16,
}

impl Default for Smtp {
    fn default() -> Smtp {
        const CONNECTIONS: NonZeroU16 = NonZeroU16::new(1_000).expect("not zero");
        const PER_ADDRESS: NonZeroU16 = NonZeroU16::new(100).expect("not zero");
        Smtp {
            listen: None,
            hostname: None,
            tls_cert: None,
            tls_key: None,
            implicit_tls: false,
            allow_plaintext_auth: false,
            connections: CONNECTIONS,
            connections_per_address: PER_ADDRESS,
        }
    }
}

impl Smtp {
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            connections: self.connections.get().into(),
            connections_per_address: self.connections_per_address.get().into(),
            ..Bounds::default()
        }
    }

    /// How the door behaves, with its certificate read from the disk.
    pub(crate) fn manner(&self) -> Result<Manner, Problem> {
        Ok(Manner {
            name: self.hostname.clone(),
            tls: self.certificate()?,
            implicit_tls: self.implicit_tls,
            allow_plaintext_auth: self.allow_plaintext_auth,
        })
    }

    fn certificate(&self) -> Result<Option<Arc<ServerConfig>>, Problem> {
        let wrong = |key: &str, what: String, hint: &str| Problem::new(joined("smtp", key), what, hint);
        let (cert, key) = match (&self.tls_cert, &self.tls_key) {
            (None, None) if self.implicit_tls => {
                let hint = "set `tls_cert` and `tls_key`, or take this out";
                return Err(wrong("implicit_tls", "there is no certificate".to_owned(), hint));
            }
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => (cert, key),
            (Some(_), None) => {
                return Err(wrong("tls_key", "missing".to_owned(), "name the certificate's key"));
            }
            (None, Some(_)) => {
                return Err(wrong("tls_cert", "missing".to_owned(), "name the key's certificate"));
            }
        };
        let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| {
            wrong("tls_cert", format!("cannot be read: {error}"), "name a readable PEM file of certificates")
        })?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            wrong(
                "tls_key",
                format!("cannot be read: {error}"),
                "name a readable PEM file with a private key",
            )
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let made = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let made = made.map_err(|error| {
            wrong("tls_cert", format!("cannot be used: {error}"), "name a certificate and its own key")
        })?;
        Ok(Some(Arc::new(made)))
    }
}

pub(super) fn read(reading: &mut Reading, value: Option<Value>, folder: &Path) -> Smtp {
    let table = value.and_then(|value| reading.table("smtp", value)).unwrap_or_default();
    let mut smtp: Smtp = reading.section("smtp", table);
    for file in [&mut smtp.tls_cert, &mut smtp.tls_key] {
        *file = file.take().map(|file| folder.join(file));
    }
    let fits = |name: &String| {
        (1..=253).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
    };
    if !smtp.hostname.as_ref().is_none_or(fits) {
        reading.problems.say("smtp.hostname", "not a host name", "write pombo.clinic.example");
    }
    if let Err(Problem { path, what, hint }) = smtp.manner() {
        reading.problems.say(path, what, hint);
    }
    smtp
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Environment, Source};

    /// The keys that are at fault.
    fn wrong(section: &str) -> Vec<String> {
        let text = format!("[smtp]\n{section}");
        let read = Config::parse(&text, Source::default(), &Environment::default());
        read.err().map(|problems| problems.0.into_iter().map(|it| it.path).collect()).unwrap_or_default()
    }

    #[test] // REQ IN-3
    fn a_door_for_mail_is_checked_before_it_opens() {
        for (section, keys) in [
            ("listen = \"127.0.0.1:2525\"", &[][..]),
            ("listen = \"here\"\ncolour = 1", &["smtp.colour", "smtp.listen"]),
            ("hostname = \"a b\"", &["smtp.hostname"]),
            ("implicit_tls = true", &["smtp.implicit_tls"]),
            ("tls_cert = \"a.pem\"", &["smtp.tls_key"]),
            ("tls_key = \"a.pem\"", &["smtp.tls_cert"]),
            ("tls_cert = \"nowhere.pem\"\ntls_key = \"nowhere.pem\"", &["smtp.tls_cert"]),
            ("connections = 0", &["smtp.connections"]),
        ] {
            assert_eq!(wrong(section), keys, "{section}");
        }
    }
}
