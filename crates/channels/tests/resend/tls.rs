use std::path::PathBuf;

use pombo_channels::resend::{Resend, ResendSettings};
use pombo_channels::resolve::Resolver;
use pombo_kernel::reply::FaultKind;
use rcgen::CertificateParams;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use crate::parts::authority::Authority;
use crate::receiver::{Receiver, http};
use crate::{accepted, send, settings, unreachable};

impl Authority {
    /// A server that takes every mail under this name, with a certificate of ours.
    async fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Receiver {
        let acceptor = TlsAcceptor::from(self.shown_by(name, change));
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
