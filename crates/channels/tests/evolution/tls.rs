use std::path::PathBuf;

use pombo_channels::evolution::{Evolution, EvolutionSettings};
use pombo_channels::resolve::Resolver;
use pombo_kernel::reply::FaultKind;
use rcgen::CertificateParams;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use crate::parts::authority::Authority;
use crate::receiver::{KEY, Receiver, answer};
use crate::{accepted, send, settings, unreachable};

impl Authority {
    /// A server that speaks TLS under this name, with a certificate of ours.
    async fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Receiver {
        let acceptor = TlsAcceptor::from(self.shown_by(name, change));
        Receiver::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut tls) = acceptor.accept(stream).await else { return };
                while seen.read(&mut tls).await.is_some() {
                    tls.write_all(&answer(201, KEY)).await.unwrap();
                }
            }
        })
        .await
    }
}

/// A channel for `https://evolution.example`, which leads to this server.
fn leading_to(server: &Receiver, ca_file: Option<PathBuf>) -> Evolution {
    let address = server.address;
    let resolver = Resolver::new(move |_, _| Box::pin(async move { Ok(vec![address]) }));
    let settings = EvolutionSettings { ca_file, ..settings("https://evolution.example/evo") };
    Evolution::with_resolver(&settings, resolver).unwrap()
}

#[tokio::test]
async fn an_authority_from_a_file_is_trusted() {
    let authority = Authority::new();
    let server = authority.server("evolution.example", |_| {}).await;
    let channel = leading_to(&server, Some(authority.file()));
    assert_eq!(accepted(&send(&channel, "5511987654321").await), "3EB0AA");
    assert_eq!(accepted(&send(&channel, "5511987654321").await), "3EB0AA");
    assert_eq!((server.connections(), server.requests().len()), (1, 2));
}

#[tokio::test]
async fn a_certificate_that_is_not_good_ends_the_attempt_before_the_key_is_shown() {
    let authority = Authority::new();
    let good = authority.server("evolution.example", |_| {}).await;
    let misnamed = authority.server("other.example", |_| {}).await;
    let expired = authority
        .server("evolution.example", |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
        .await;
    let stranger = Authority::new();
    for (server, ca_file, why) in [
        (&good, None, "unknown authority"),
        (&good, Some(stranger.file()), "another authority"),
        (&misnamed, Some(authority.file()), "another host"),
        (&expired, Some(authority.file()), "expired"),
    ] {
        let reply = send(&leading_to(server, ca_file), "5511987654321").await;
        assert_eq!(unreachable(&reply), FaultKind::Tls, "{why}");
        assert_eq!(server.requests(), [""; 0], "{why}");
    }
}
