//! Refuses long chains of client certificates. TLS keeps a chain as long as its connection lives, whatever the
//! certificates are good for, and even a certificate of no bytes takes room.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// A client's own certificate, and those between it and the authority.
const MOST_CERTIFICATES: usize = 10;

/// Refuses long chains, and leaves the rest to another verifier.
#[derive(Debug)]
pub(super) struct ShortChains(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for ShortChains {
    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if others.len() >= MOST_CERTIFICATES {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        self.0.verify_client_cert(own, others, now)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
