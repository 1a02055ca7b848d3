use std::path::PathBuf;
use std::sync::Arc;

use pombo_channels::resolve::Resolver;
use pombo_channels::tiss::{Tiss, TissSettings};
use pombo_kernel::reply::FaultKind;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use crate::parts::authority::Authority;
use crate::receiver::Receiver;
use crate::{accepted, lot, send, settings, unreachable};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 85\r\n\r\n\
    <protocoloRecebimentoWS><numeroProtocolo>1</numeroProtocolo></protocoloRecebimentoWS>";

impl Authority {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for a provider, in files.
    fn provider(&self) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["clinica.example".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path("client.pem"), certificate.pem()).unwrap();
        std::fs::write(self.path("client.key"), key.serialize_pem()).unwrap();
        (self.path("client.pem"), self.path("client.key"))
    }

    /// An operator under this name; with `strict`, only for providers whom this authority knows.
    async fn operator(
        &self,
        name: &str,
        strict: bool,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Receiver {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if strict {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(
            builder.with_single_cert(vec![certificate.der().clone()], key).unwrap(),
        ));
        Receiver::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut tls) = acceptor.accept(stream).await else { return };
                while seen.read(&mut tls).await.is_some() {
                    tls.write_all(OK.as_bytes()).await.unwrap();
                }
            }
        })
        .await
    }
}

fn leading_to(settings: TissSettings, receiver: &Receiver) -> Tiss {
    let address = receiver.address;
    let resolver = Resolver::new(move |_, _| Box::pin(async move { Ok(vec![address]) }));
    let url = format!("https://tiss.example:{}/ws", address.port()).parse().unwrap();
    Tiss::with_resolver(&TissSettings { url: Some(url), ..settings }, resolver).unwrap()
}

#[tokio::test]
async fn the_operator_knows_us_by_our_certificate() {
    let authority = Authority::new();
    let operator = authority.operator("tiss.example", true, |_| {}).await;
    let (certificate, key) = authority.provider();
    let trusting = TissSettings { ca_file: Some(authority.path("ca.pem")), ..settings("https://x/") };
    let known =
        TissSettings { client_cert_file: Some(certificate), client_key_file: Some(key), ..trusting.clone() };
    accepted(send(&leading_to(known, &operator), &lot("1")).await);
    assert_eq!(operator.seen().len(), 1);
    let reply = send(&leading_to(trusting, &operator), &lot("1")).await;
    assert!(!matches!(reply, pombo_kernel::reply::Reply::Accepted(_)), "{reply:?}");
    assert_eq!(operator.seen().len(), 1);
}

#[tokio::test]
async fn a_certificate_that_is_not_good_ends_the_attempt_before_anything_is_sent() {
    let authority = Authority::new();
    let good = authority.operator("tiss.example", false, |_| {}).await;
    let misnamed = authority.operator("other.example", false, |_| {}).await;
    let expired = authority
        .operator("tiss.example", false, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
        .await;
    let trusting = TissSettings { ca_file: Some(authority.path("ca.pem")), ..settings("https://x/") };
    for (settings, operator, why) in [
        (settings("https://x/"), &good, "unknown authority"),
        (trusting.clone(), &misnamed, "another host"),
        (trusting.clone(), &expired, "expired"),
    ] {
        let reply = send(&leading_to(settings, operator), &lot("1")).await;
        assert_eq!(unreachable(&reply).0, FaultKind::Tls, "{why}");
        assert_eq!(operator.seen().len(), 0, "{why}");
    }
    accepted(send(&leading_to(trusting, &good), &lot("1")).await);
}

#[test]
fn files_that_hold_no_certificate_or_key_are_refused() {
    let authority = Authority::new();
    let (certificate, key) = authority.provider();
    std::fs::write(authority.path("empty"), "").unwrap();
    for (certificate, key, field) in [
        (authority.path("empty"), key.clone(), "client_cert_file"),
        (certificate.clone(), authority.path("empty"), "client_key_file"),
        (certificate.clone(), certificate, "client_key_file"),
        (authority.path("ca.pem"), key, "client_cert_file"),
    ] {
        let both = TissSettings {
            client_cert_file: Some(certificate),
            client_key_file: Some(key),
            ..settings("https://x/")
        };
        let problems = Tiss::new(&both).unwrap_err();
        assert_eq!(problems[0].field, field);
    }
}
