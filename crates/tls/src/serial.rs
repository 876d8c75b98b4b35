//! Which certificate of its issuer one is.

use std::fmt::Write as _;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// The serial number in upper-case hexadecimal digits, as `openssl x509 -serial` prints it; 42 at most. `None` if the
/// certificate cannot be read.
pub fn serial(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let bytes = match certificate.tbs_certificate().serial_number().as_bytes() {
        // It says that the number is not negative.
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let mut digits = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(digits, "{byte:02X}");
    }
    Some(digits)
}
