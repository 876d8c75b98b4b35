//! X.509 certificates: whether they can be read, belong to a key, may sign others, and are still valid.
//!
//! It takes the time it is told and follows no chain of trust; that is done when a connection is made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::BasicConstraints;
use x509_cert::time::Time;

use crate::diagnostic::Reason;

/// How long before its end a certificate is warned of.
const ABOUT_TO_EXPIRE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// What is wrong with a certificate.
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Problem {
    /// A certificate, a key or a CA that cannot be used at all.
    pub(crate) fn invalid(what: impl AsRef<str>) -> Self {
        let message = format!("TLS configuration invalid: {}", what.as_ref());
        Self { reason: Reason::TlsConfigurationInvalid, message }
    }
}

/// Checks every certificate of a chain that proves who the client is. All problems are given.
pub(crate) fn check_chain(chain: &[Vec<u8>], now: SystemTime) -> Vec<Problem> {
    let mut problems = Vec::new();
    for certificate in chain {
        match Certificate::from_der(certificate) {
            Ok(certificate) => problems.extend(check_validity(&certificate, "TLS certificate", now)),
            Err(_) => problems.push(Problem::invalid("failed to parse certificate")),
        }
    }
    problems
}

/// Checks that a key can be used, and belongs to the first certificate of a chain.
pub(crate) fn check_key(key: &PrivateKeyDer<'static>, chain: &[Vec<u8>]) -> Option<Problem> {
    let provider = ring::default_provider();
    let Ok(key) = provider.key_provider.load_private_key(key.clone_key()) else {
        return Some(Problem::invalid("failed to parse private key"));
    };
    let chain = chain.iter().map(|certificate| CertificateDer::from(certificate.clone())).collect();
    match CertifiedKey::new(chain, key).keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Some(Problem::invalid("certificate and private key do not match"))
        }
        // What else can be wrong is wrong with the certificate, and has its own message.
        _ => None,
    }
}

/// Checks every certificate of a bundle that replaces the system's roots. All problems are given.
pub(crate) fn check_roots(bundle: &[Vec<u8>], now: SystemTime) -> Vec<Problem> {
    let mut problems = Vec::new();
    for certificate in bundle {
        let Ok(certificate) = Certificate::from_der(certificate) else {
            problems.push(Problem::invalid("failed to parse CA certificate"));
            continue;
        };
        if !is_ca(&certificate) {
            problems.push(Problem::invalid("not a CA certificate"));
        }
        problems.extend(check_validity(&certificate, "TLS CA certificate", now));
    }
    problems
}

fn is_ca(certificate: &Certificate) -> bool {
    let constraints = certificate.tbs_certificate().get_extension::<BasicConstraints>();
    matches!(constraints, Ok(Some((_, BasicConstraints { ca: true, .. }))))
}

fn check_validity(certificate: &Certificate, what: &str, now: SystemTime) -> Option<Problem> {
    let end = certificate.tbs_certificate().validity().not_after;
    let left = (UNIX_EPOCH + end.to_unix_duration()).duration_since(now);
    let date = date(end);
    match left {
        Err(_) => {
            let message = format!("{what} expired on {date}");
            Some(Problem { reason: Reason::TlsCertificateExpired, message })
        }
        Ok(left) if left <= ABOUT_TO_EXPIRE => {
            let message = format!("{what} is about to expire, configured certificate is valid until {date}");
            Some(Problem { reason: Reason::TlsCertificateAboutToExpire, message })
        }
        Ok(_) => None,
    }
}

fn date(time: Time) -> String {
    let date = time.to_date_time();
    format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
}
