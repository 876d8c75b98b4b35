//! Root certificates.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// Authorities to trust.
///
/// # Errors
/// When one of them cannot be used.
pub fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}
