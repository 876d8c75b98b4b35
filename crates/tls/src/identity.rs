//! A certificate with its key.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};

use crate::key;

/// Why a certificate and a key cannot be used together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// The first certificate.
    #[error("failed to parse certificate")]
    Certificate,
    /// The private key.
    #[error("{0}")]
    Key(String),
    /// They are not of the same pair.
    #[error("certificate and private key do not match")]
    Mismatch,
}

/// A chain of certificates and the private key of its first one, which is of whatever version: rustls reads X.509 v3
/// only, because that is what it trusts others by.
///
/// # Errors
/// When the key cannot be used, or is not that of the certificate.
pub fn identity(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, IdentityError> {
    let key = key::load(key).map_err(IdentityError::Key)?;
    let first = chain.first().ok_or(IdentityError::Certificate)?;
    let certified = public_key(first).ok_or(IdentityError::Certificate)?;
    match key.public_key() {
        Some(public) if public.as_ref() != certified => Err(IdentityError::Mismatch),
        _ => Ok(CertifiedKey::new(chain, key)),
    }
}

/// The public key of a certificate with its algorithm, in DER.
fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    certificate.tbs_certificate().subject_public_key_info().to_der().ok()
}
