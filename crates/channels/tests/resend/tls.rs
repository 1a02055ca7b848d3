use std::path::PathBuf;
use std::sync::Arc;

use pombo_channels::resend::{Resend, ResendSettings};
use pombo_channels::resolve::Resolver;
use pombo_kernel::reply::FaultKind;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use crate::receiver::{Receiver, http};
use crate::{accepted, send, settings, unreachable};

/// An authority of our own, with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A server that takes every mail under this name, with a certificate of ours.
    async fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Receiver {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Receiver::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut tls) = acceptor.accept(stream).await else { return };
                while seen.read(&mut tls).await.is_some() {
                    tls.write_all(http(200, "", r#"{"id":"x"}"#).as_bytes()).await.unwrap();
                }
            }
        })
        .await
    }
}

/// A channel for which Resend's name leads to this server.
fn leading_to(server: &Receiver, ca_file: Option<PathBuf>) -> Resend {
    let address = server.address;
    let resolver = Resolver::new(move |_, _| Box::pin(async move { Ok(vec![address]) }));
    let url = format!("https://api.resend.example:{}", address.port());
    Resend::with_resolver(&ResendSettings { ca_file, ..settings(&url) }, resolver).unwrap()
}

#[tokio::test]
async fn a_certificate_that_is_not_good_ends_the_attempt_before_the_key_is_shown() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let good = authority.server("api.resend.example", |_| {}).await;
    accepted(send(&leading_to(&good, Some(authority.file())), "k", "ana@x.example").await);
    let misnamed = authority.server("other.example", |_| {}).await;
    let expired = authority
        .server("api.resend.example", |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
        .await;
    for (server, file, why) in [
        (&good, None, "unknown authority"),
        (&good, Some(stranger.file()), "another authority"),
        (&misnamed, Some(authority.file()), "another host"),
        (&expired, Some(authority.file()), "expired"),
    ] {
        let before = server.requests().len();
        let reply = send(&leading_to(server, file), "k", "ana@x.example").await;
        assert_eq!(unreachable(&reply), FaultKind::Tls, "{why}");
        assert_eq!(server.requests().len(), before, "{why}");
    }
}
