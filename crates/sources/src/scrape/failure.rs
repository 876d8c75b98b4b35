//! Why there is no page, in words that say what to do.

use std::error::Error;
use std::io;
use std::io::ErrorKind;
use std::time::Duration;

use http::{StatusCode, Uri};
use rustls::{AlertDescription, CertificateError};

use super::redirect::BadRedirect;
use crate::download::{DownloadError, causes, clipped};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// There is no TLS with the target, or its certificate is not right.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// What it says is no HTTP.
    #[error("does not speak HTTP: {0}")]
    NoHttp(String),
    /// It does not answer.
    #[error("no answer within {0:?}: it is busy, or a firewall or a NetworkPolicy is between")]
    Silent(Duration),
    /// It took too long.
    #[error("no whole page within {0:?}: it sends too slowly, or too much")]
    Slow(Duration),
    /// The answer is not a page.
    #[error("answered {0}{1}")]
    Status(StatusCode, &'static str),
    /// It sends us where nothing can be.
    #[error(transparent)]
    BadRedirect(#[from] BadRedirect),
    /// It sends us from one place to the next.
    #[error("redirected more than {0} times, last to {1}")]
    Redirects(usize, String),
    /// The page is in no format that is known.
    #[error("content type {0:?} is not a metrics format: perhaps the metrics are at another path")]
    ContentType(String),
    /// The page is compressed in a way that is not known.
    #[error("the content encoding {0:?} is none of gzip, zstd, deflate and snappy")]
    ContentEncoding(String),
    /// The page cannot be inflated.
    #[error("the page is broken, or not compressed as its content encoding {encoding:?} says: {cause}")]
    Corrupt {
        /// What its content encoding says.
        encoding: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The page is too large.
    #[error("the page is larger than {} MiB, which is the limit: let the target expose fewer series", .0 >> 20)]
    TooLarge(usize),
    /// There is no memory for the page now.
    #[error("no room in --memory for the page: give Weir more memory, or let the target expose fewer series")]
    NoMemory,
    /// Certificates of the service mesh cannot be read or used.
    #[error("cannot show a certificate of Istio's: {0}; --istio-certs names their directory")]
    Mesh(String),
    /// The system's certificates cannot be read.
    #[error("cannot load the system's trusted certificates: {0}")]
    Roots(String),
}

impl FetchError {
    /// In one word, for metrics.
    pub fn result(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Tls(_) | Self::Roots(_) | Self::Mesh(_) => "tls",
            Self::NoHttp(_) => "no_http",
            Self::Silent(_) | Self::Slow(_) => "timeout",
            Self::Status(..) => "status",
            Self::BadRedirect(_) | Self::Redirects(..) => "redirect",
            Self::ContentType(_) => "content_type",
            Self::ContentEncoding(_) | Self::Corrupt { .. } => "content_encoding",
            Self::TooLarge(_) => "too_large",
            Self::NoMemory => "no_memory",
        }
    }

    /// An answer that is not a page.
    pub(super) fn of_status(status: StatusCode, url: &Uri) -> Self {
        let hint = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": it wants credentials, and a scrape has none",
            StatusCode::NOT_FOUND => ": the metrics are at another path, or nowhere",
            StatusCode::BAD_REQUEST if !is_secure(url) => {
                ": some servers say so when they want HTTPS; then write https:// (for a pod or service, the annotation \
                 prometheus.io/scheme)"
            }
            _ => "",
        };
        Self::Status(status, hint)
    }

    /// A content type that is none of metrics.
    pub(super) fn of_content_type(value: &str) -> Self {
        Self::ContentType(clipped(value))
    }

    /// A content encoding that is not known.
    pub(super) fn of_content_encoding(value: &str) -> Self {
        Self::ContentEncoding(clipped(value))
    }

    /// No connection, or it broke.
    pub(super) fn of_connection(error: &(dyn Error + 'static), url: &Uri) -> Self {
        if let Some(error) = find::<rustls::Error>(error) {
            return Self::Tls(about_tls(error, url));
        }
        let http = find::<hyper::Error>(error);
        // The others only hold it.
        let io = chain(error).filter_map(|error| error.downcast_ref()).last().map(io::Error::kind);
        if http.is_some_and(hyper::Error::is_parse) {
            let hint = if is_secure(url) || http.is_some_and(hyper::Error::is_parse_too_large) {
                ""
            } else {
                "; perhaps it wants HTTPS: then write https:// (for a pod or \
                service, the annotation prometheus.io/scheme)"
            };
            return Self::NoHttp(format!("{}{hint}", causes(error)));
        }
        let is_cut = http.is_some_and(hyper::Error::is_incomplete_message)
            || matches!(io, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof));
        Self::Unreachable(match io {
            Some(ErrorKind::ConnectionRefused) => "nothing listens at this address and port".to_owned(),
            _ if is_cut && !is_secure(url) => {
                "it ends the connection without an answer; a port for TLS, or an Istio proxy with strict mTLS, does that to \
                 HTTP"
                    .to_owned()
            }
            _ if is_cut => "it ends the connection without an answer; perhaps it speaks no TLS".to_owned(),
            _ => causes(error),
        })
    }

    /// A page that is not whole.
    pub(super) fn of_page(error: DownloadError, most: usize) -> Self {
        match error {
            DownloadError::Broken(cause, bytes) => {
                Self::Unreachable(format!("the connection broke after {bytes} bytes of the page ({})", causes(&cause)))
            }
            DownloadError::TooLarge => Self::TooLarge(most),
            DownloadError::NoMemory => Self::NoMemory,
        }
    }
}

fn about_tls(error: &rustls::Error, url: &Uri) -> String {
    match error {
        rustls::Error::InvalidCertificate(cause) => about_certificate(cause, url),
        rustls::Error::InvalidMessage(_) => {
            "it speaks something else; write http:// (for a pod or service, the annotation prometheus.io/scheme)"
                .to_owned()
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::HandshakeFailure
            | AlertDescription::AccessDenied,
        ) => format!("it refuses us, and perhaps wants a client certificate (mTLS): {error}"),
        _ => clipped(&error.to_string()),
    }
}

fn about_certificate(cause: &CertificateError, url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    match cause {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: look at the clocks of both machines".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "nobody who is trusted has signed its certificate: add the one who has to the certificates of the system, or \
             name a file of trusted certificates in SSL_CERT_FILE"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for {}", clipped(host))
        }
        // That of most certificates that sign themselves. The library has no other way to tell.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority (CA:TRUE), which no server may have: make one with \
             basicConstraints=CA:FALSE, and add who has signed it to the certificates of the system"
                .to_owned()
        }
        _ => format!("its certificate cannot be used: {}", clipped(&cause.to_string())),
    }
}

fn is_secure(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// The first error of this type among an error and its causes.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// An error and its causes. One that `io::Error` holds is no cause of it by itself.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(held) => Some(held),
        None => error.source(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_holds_is_found() {
        let inner = rustls::Error::InvalidCertificate(CertificateError::Expired);
        let outer = io::Error::other(io::Error::new(ErrorKind::InvalidData, inner));
        let url = "https://node/metrics".parse().unwrap();
        let said = FetchError::of_connection(&outer, &url).to_string();
        assert_eq!(said, "TLS failed: its certificate has expired: renew it");
    }

    #[test]
    fn what_others_say_is_short_and_in_one_line() {
        let said = FetchError::of_content_type(&format!("text/\x1b[31mhtml\n{}", "x".repeat(100_000))).to_string();
        assert!(said.len() < 400 && said.contains("text/ [31mhtml x"), "{said}");
    }
}
