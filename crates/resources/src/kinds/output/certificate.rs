//! X.509 certificates: whether they can be read, belong to a key, may sign others, and are still valid.
//!
//! The caller says what time it is. No chain of trust is followed; that is done when a connection is made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use weir_tls::IdentityError;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::BasicConstraints;
use x509_cert::time::Time;

use crate::diagnostic::{Reason, Severity};

/// How long before its end there is a warning about a certificate.
const ABOUT_TO_EXPIRE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The certificate that is expected where there is a warning about one.
pub(crate) const IN_TIME: &str = "one that is valid now, and in two weeks";

/// What is wrong with a certificate.
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    /// A certificate expires without anybody's doing, and clocks differ. So that stops neither other pipelines nor its
    /// own, whose data waits.
    pub(crate) severity: Severity,
    pub(crate) message: String,
}

impl Problem {
    /// A certificate, a key or a CA that cannot be used at all.
    pub(crate) fn invalid(what: impl AsRef<str>) -> Self {
        let message = format!("TLS configuration invalid: {}", what.as_ref());
        Self { reason: Reason::TlsConfigurationInvalid, severity: Severity::Error, message }
    }
}

/// Checks every certificate of a chain that proves who the client is. All problems are given.
pub(crate) fn check_chain(chain: &[CertificateDer<'_>], now: SystemTime) -> Vec<Problem> {
    let mut problems = Vec::new();
    for certificate in chain {
        match Certificate::from_der(certificate) {
            Ok(certificate) => problems.extend(check_validity(&certificate, &OF_CLIENT, now)),
            Err(_) => problems.push(Problem::invalid("failed to parse certificate")),
        }
    }
    problems
}

/// Checks that a key can be used, and belongs to the first certificate of a chain.
pub(crate) fn check_key(key: &PrivateKeyDer<'static>, chain: &[CertificateDer<'static>]) -> Option<Problem> {
    match weir_tls::identity(chain.to_vec(), key.clone_key()) {
        // A certificate that cannot be read has its own message.
        Ok(_) | Err(IdentityError::Certificate) => None,
        Err(error) => Some(Problem::invalid(error.to_string())),
    }
}

/// Checks every certificate of a bundle that replaces the system's roots. All problems are given.
pub(crate) fn check_roots(bundle: &[CertificateDer<'static>], now: SystemTime) -> Vec<Problem> {
    let mut problems = Vec::new();
    for der in bundle {
        let Ok(certificate) = Certificate::from_der(der) else {
            problems.push(Problem::invalid("failed to parse CA certificate"));
            continue;
        };
        if !is_ca(&certificate) {
            problems.push(Problem::invalid("not a CA certificate"));
        }
        problems.extend(check_validity(&certificate, &OF_AUTHORITY, now));
        if let Err(error) = weir_tls::roots(vec![der.clone()]) {
            problems.push(Problem::invalid(format!("cannot use CA certificate: {error}")));
        }
    }
    problems
}

/// When the first certificate of a PEM text ends that does, in seconds since the Unix epoch. `None` if none can be read.
pub fn expires(pem: &str) -> Option<u64> {
    let end = |certificate: &CertificateDer<'_>| {
        let (_, end) = weir_tls::validity(certificate)?;
        Some(end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    };
    weir_tls::certificates(pem).ok()?.iter().filter_map(end).min()
}

fn is_ca(certificate: &Certificate) -> bool {
    let constraints = certificate.tbs_certificate().get_extension::<BasicConstraints>();
    matches!(constraints, Ok(Some((_, BasicConstraints { ca: true, .. }))))
}

/// What a certificate is for, and what follows when its time is not now.
struct Purpose {
    what: &'static str,
    early: &'static str,
    late: &'static str,
}

const OF_CLIENT: Purpose = Purpose {
    what: "TLS certificate",
    early: "data for this backend waits until then",
    late: "data for this backend waits until it is replaced",
};

/// Validity of a trust anchor is nothing that a client checks (RFC 5280, 6.1).
const OF_AUTHORITY: Purpose = Purpose {
    what: "TLS CA certificate",
    early: "backends that it has signed are believed all the same",
    late: "replace it; backends that it has signed are believed until then",
};

fn check_validity(certificate: &Certificate, purpose: &Purpose, now: SystemTime) -> Option<Problem> {
    let Purpose { what, early, late } = purpose;
    let validity = certificate.tbs_certificate().validity();
    let (begin, end) = (validity.not_before, validity.not_after);
    if UNIX_EPOCH + begin.to_unix_duration() > now {
        let message = format!("{what} is not valid before {}: {early}", date(begin));
        return Some(Problem { reason: Reason::TlsConfigurationInvalid, severity: Severity::Warning, message });
    }
    let left = (UNIX_EPOCH + end.to_unix_duration()).duration_since(now);
    let date = date(end);
    match left {
        Err(_) => {
            let message = format!("{what} expired on {date}: {late}");
            Some(Problem { reason: Reason::TlsCertificateExpired, severity: Severity::Warning, message })
        }
        Ok(left) if left <= ABOUT_TO_EXPIRE => {
            let message = format!("{what} is about to expire, configured certificate is valid until {date}");
            Some(Problem { reason: Reason::TlsCertificateAboutToExpire, severity: Severity::Warning, message })
        }
        Ok(_) => None,
    }
}

fn date(time: Time) -> String {
    let date = time.to_date_time();
    format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
}
