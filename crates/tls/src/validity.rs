//! When a certificate can be used.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// When a certificate begins and ends. `None` if it cannot be read.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<(SystemTime, SystemTime)> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some((UNIX_EPOCH + validity.not_before.to_unix_duration(), UNIX_EPOCH + validity.not_after.to_unix_duration()))
}
