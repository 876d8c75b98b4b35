//! What is scraped.

use http::Uri;
use weir_otlp::build::Encoder;
use weir_otlp::field::{any_value, key_value, resource};

/// An endpoint that serves a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    url: Uri,
    job: String,
}

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not the address of a page of metrics: {cause}")]
pub struct NoTarget {
    url: String,
    cause: String,
}

impl Target {
    /// The target at this address. `job` is what its `service.name` becomes.
    ///
    /// # Errors
    /// When it is not an absolute address of HTTP or HTTPS.
    pub fn new(url: &str, job: &str) -> Result<Self, NoTarget> {
        let failed = |cause: &str| NoTarget { url: url.to_owned(), cause: cause.to_owned() };
        let parsed: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(&error.to_string()))?;
        match (parsed.scheme_str(), parsed.host()) {
            (Some("http" | "https"), Some(_)) => Ok(Self { url: parsed, job: job.to_owned() }),
            _ => Err(failed("write http://HOST:PORT/PATH or https://HOST:PORT/PATH")),
        }
    }

    /// Where its page is.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Its host and port.
    pub fn instance(&self) -> String {
        format!("{}:{}", self.host(), self.port())
    }

    fn host(&self) -> &str {
        self.url.host().unwrap_or_default()
    }

    fn scheme(&self) -> &str {
        self.url.scheme_str().unwrap_or("http")
    }

    fn port(&self) -> u16 {
        let usual = if self.scheme() == "https" { 443 } else { 80 };
        self.url.port_u16().unwrap_or(usual)
    }

    /// Its attributes, as the fields of a resource. The names are those of the Collector's receiver.
    pub(super) fn resource(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        for (key, value) in [
            ("service.name", self.job.as_str()),
            ("service.instance.id", &self.instance()),
            ("server.address", self.host()),
            ("server.port", &self.port().to_string()),
            ("url.scheme", self.scheme()),
        ] {
            let attribute = out.open(resource::ATTRIBUTES, 64);
            out.bytes(key_value::KEY, key.as_bytes());
            let holder = out.open(key_value::VALUE, 32);
            out.bytes(any_value::STRING_VALUE, value.as_bytes());
            out.close(holder);
            out.close(attribute);
        }
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let target = Target::new("http://example.com:9100/metrics?a=b", "node").unwrap();
        assert_eq!(target.instance(), "example.com:9100");
        assert_eq!(Target::new("https://[::1]/metrics", "node").unwrap().instance(), "[::1]:443");
        for wrong in ["", "example.com:9100/metrics", "/metrics", "ftp://example.com/metrics", "http://"] {
            assert!(Target::new(wrong, "node").is_err(), "{wrong}");
        }
    }
}
