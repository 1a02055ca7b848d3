use pombo_channels::webhook::{Webhook, WebhookSettings};
use pombo_kernel::reply::{FaultKind, Reply};
use rcgen::CertificateParams;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::parts::authority::Authority;
use crate::receiver::{OK, Receiver, reset};
use crate::{accepted, channel, channel_where_names_lead_to, send, settings, unreachable};

impl Authority {
    fn trusted(&self) -> WebhookSettings {
        WebhookSettings { ca_file: Some(self.file()), ..settings() }
    }

    /// A receiver that speaks TLS under this name, with a certificate of ours.
    async fn receiver(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Receiver {
        let acceptor = TlsAcceptor::from(self.shown_by(name, change));
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

fn https(receiver: &Receiver) -> String {
    format!("https://crm.example:{}/hook", receiver.address.port())
}

fn leading_to(settings: &WebhookSettings, receiver: &Receiver) -> Webhook {
    channel_where_names_lead_to(settings, &[&receiver.address.to_string()])
}

#[tokio::test]
async fn an_authority_from_a_file_is_trusted_and_the_connection_kept() {
    let authority = Authority::new();
    let receiver = authority.receiver("crm.example", |_| {}).await;
    let channel = leading_to(&authority.trusted(), &receiver);
    accepted(&send(&channel, "a", &https(&receiver)).await);
    accepted(&send(&channel, "b", &https(&receiver)).await);
    assert_eq!((receiver.connections(), receiver.requests().len()), (1, 2));
}

#[tokio::test]
async fn an_address_can_have_a_certificate_too() {
    let authority = Authority::new();
    let receiver = authority.receiver("127.0.0.1", |_| {}).await;
    let channel = Webhook::new(&authority.trusted()).unwrap();
    accepted(&send(&channel, "a", &format!("https://{}/", receiver.address)).await);
}

#[tokio::test]
async fn a_certificate_that_is_not_good_ends_the_attempt_before_anything_is_sent() {
    let authority = Authority::new();
    let good = authority.receiver("crm.example", |_| {}).await;
    let misnamed = authority.receiver("other.example", |_| {}).await;
    let expired = authority
        .receiver("crm.example", |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
        .await;
    let early = authority
        .receiver("crm.example", |params| params.not_before = rcgen::date_time_ymd(2999, 1, 1))
        .await;
    let stranger = Authority::new();
    for (settings, receiver, why) in [
        (settings(), &good, "unknown authority"),
        (stranger.trusted(), &good, "another authority"),
        (authority.trusted(), &misnamed, "another host"),
        (authority.trusted(), &expired, "expired"),
        (authority.trusted(), &early, "not yet valid"),
    ] {
        let reply = send(&leading_to(&settings, receiver), "m", &https(receiver)).await;
        assert_eq!(unreachable(&reply), FaultKind::Tls, "{why}");
        assert_eq!(receiver.requests(), [""; 0], "{why}");
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_speak_tls_is_told_from_one_that_hangs_up() {
    let plain = Receiver::start(|mut stream, _| async move {
        let _ = stream.read_u8().await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(
        unreachable(&send(&leading_to(&settings(), &plain), "m", &https(&plain)).await),
        FaultKind::Tls
    );

    // What a server of TLS 1.1 says: a fatal alert, "protocol version".
    let old = Receiver::start(|mut stream, _| async move {
        let _ = stream.read_u8().await;
        let _ = stream.write_all(&[0x15, 3, 2, 0, 2, 2, 70]).await;
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(unreachable(&send(&leading_to(&settings(), &old), "m", &https(&old)).await), FaultKind::Tls);

    let rude = Receiver::start(|mut stream, _| async move {
        let _ = stream.read_u8().await;
        reset(stream);
    })
    .await;
    let reply = send(&leading_to(&settings(), &rude), "m", &https(&rude)).await;
    assert_eq!(unreachable(&reply), FaultKind::ConnectionReset);

    let silent = Receiver::start(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let short = std::time::Duration::from_secs(1);
    let reply = crate::send_within(&leading_to(&settings(), &silent), "m", &https(&silent), short).await;
    assert_eq!(unreachable(&reply), FaultKind::Timeout);
}

#[tokio::test]
async fn plain_http_is_not_upgraded_nor_https_downgraded() {
    let authority = Authority::new();
    let receiver = authority.receiver("127.0.0.1", |_| {}).await;
    let reply = send(&channel(), "m", &receiver.url()).await;
    assert!(matches!(reply, Reply::Unreachable(_) | Reply::Doubtful(_)), "{reply:?}");
    assert_eq!((receiver.requests(), receiver.connections()), (Vec::new(), 1));

    // One that would take a request in the clear, had it got one; whatever else it hears ends the connection.
    let plain = Receiver::start(|mut stream, seen| async move {
        let mut first = [0; 4];
        if stream.peek(&mut first).await.is_ok_and(|_| first == *b"POST") {
            seen.read(&mut stream).await;
            stream.write_all(OK.as_bytes()).await.unwrap();
        } else {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    accepted(&send(&channel(), "m", &plain.url()).await);
    let https = plain.url().replace("http://", "https://");
    assert_eq!(unreachable(&send(&channel(), "m", &https).await), FaultKind::Tls);
    assert_eq!(plain.requests().len(), 1, "the request in the clear, and no other");
}

#[test]
fn a_file_without_certificates_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["", "not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, text).unwrap();
        let problems = Webhook::new(&WebhookSettings { ca_file: Some(file), ..settings() }).unwrap_err();
        assert_eq!(problems[0].field, "ca_file", "{text:?}");
    }
}
