//! When a connection is encrypted, and whose certificate is believed.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_rustls::TlsConnector;

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// From the first byte on, with a certificate that is verified.
    Implicit,
    /// After STARTTLS, with a certificate that is verified; a server without it gets nothing.
    Starttls,
    /// After STARTTLS where the server offers it, whoever it says it is; in the clear otherwise.
    Opportunistic,
    /// Never.
    None,
}

/// The two ways to shake hands.
#[derive(Clone)]
pub(super) struct Connectors {
    pub(super) verifying: TlsConnector,
    /// For opportunistic encryption only, whose alternative is no encryption: it keeps out who only listens.
    pub(super) lenient: TlsConnector,
}

impl Connectors {
    pub(super) fn new(roots: RootCertStore) -> Result<Connectors, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            || ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let verifying = builder()?.with_root_certificates(roots).with_no_client_auth();
        let lenient = builder()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider.clone())))
            .with_no_client_auth();
        Ok(Connectors {
            verifying: TlsConnector::from(Arc::new(verifying)),
            lenient: TlsConnector::from(Arc::new(lenient)),
        })
    }
}

/// Believes whoever holds the key of the certificate that is shown.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
