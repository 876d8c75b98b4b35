//! What is scraped.

use std::net::IpAddr;

use http::Uri;
use weir_engine::InputKind;
use weir_otlp::build::Encoder;
use weir_otlp::field::resource;

use crate::download::clipped;
use crate::encoding::attribute;

/// Bytes of an address at most, as with browsers and proxies. It is said in every message about its target.
const MOST_URL_BYTES: usize = 2048;

/// An endpoint that serves a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    url: Uri,
    job: Job,
    /// What its resource says of it, beside the address.
    attributes: Vec<(&'static str, String)>,
    /// Labels that every sample gets.
    labels: Vec<(&'static str, String)>,
    /// Whether somebody wants what a proxy says of itself.
    has_envoy: bool,
    /// Whether somebody wants native histograms.
    has_native_histograms: bool,
}

/// Why a target is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Job {
    /// A pipeline names it.
    Static,
    /// A pod is annotated.
    Pods,
    /// A service is annotated.
    Services,
    /// A service is annotated, and what is behind it wants certificates of the mesh.
    SecureServices,
    /// It is a proxy of Istio.
    IstioProxies,
}

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not the address of a page of metrics: {cause}")]
pub struct NoTarget {
    url: String,
    cause: String,
}

impl Job {
    /// Its name. Those of a cluster have it from Kyma's agent.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Pods => "app-pods",
            Self::Services => "app-services",
            Self::SecureServices => "app-services-secure",
            Self::IstioProxies => "istio-proxy",
        }
    }

    /// How often metrics are in memory while requests are made of them.
    pub(super) fn copies(self) -> usize {
        if self == Self::IstioProxies { 2 } else { 1 }
    }

    /// The input that takes its metrics, or most of them.
    pub(super) fn input(self) -> InputKind {
        if self == Self::IstioProxies { InputKind::Istio } else { InputKind::Prometheus }
    }

    /// The inputs that take what is said of its scrapes.
    pub(super) fn diagnostics(self) -> InputKind {
        if self == Self::IstioProxies { InputKind::IstioDiagnostics } else { InputKind::PrometheusDiagnostics }
    }

    /// The scope of its metrics, which is that of Kyma's agent.
    pub(super) fn scope(self) -> &'static str {
        match self {
            Self::IstioProxies => "io.kyma-project.telemetry/istio",
            _ => "io.kyma-project.telemetry/prometheus",
        }
    }
}

impl NoTarget {
    /// The text, as far as it may be shown.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The beginning of an address, without a user and a password.
pub(super) fn shown(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let authority = url[start..].find(['/', '?', '#']).map_or(url.len(), |end| start + end);
    match url[start..authority].rfind('@') {
        Some(at) => clipped(&format!("{}...{}", &url[..start], &url[start + at..])),
        None => clipped(url),
    }
}

/// What a target takes beside its page: its task, and itself with its address in several places.
const TARGET_BYTES: usize = 12 << 10;

impl Target {
    /// Memory that it takes while it is scraped, in bytes.
    pub(super) fn memory(&self) -> usize {
        let texts = |all: &[(&str, String)]| all.iter().map(|(name, text)| name.len() + text.len() + 64).sum::<usize>();
        TARGET_BYTES + 6 * (self.url.to_string().len() + texts(&self.attributes) + texts(&self.labels))
    }

    /// The target at this address.
    ///
    /// # Errors
    /// When it is not an absolute address of HTTP or HTTPS.
    pub fn new(url: &str, job: Job) -> Result<Self, NoTarget> {
        let failed = |cause: &str| NoTarget { url: shown(url), cause: cause.to_owned() };
        if url.len() > MOST_URL_BYTES {
            return Err(failed(&format!("it has {} bytes, the limit is {MOST_URL_BYTES}", url.len())));
        }
        if !url.is_ascii() {
            return Err(failed("write characters that are not ASCII as %XX"));
        }
        let parsed: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(&error.to_string()))?;
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(failed("leave out the user and the password, Weir sends none"));
        }
        match (parsed.scheme_str(), parsed.host()) {
            (Some("http" | "https"), Some(_)) => {
                let (attributes, labels) = (Vec::new(), Vec::new());
                Ok(Self { url: parsed, job, attributes, labels, has_envoy: false, has_native_histograms: false })
            }
            _ => Err(failed("write http://HOST:PORT/PATH or https://HOST:PORT/PATH")),
        }
    }

    /// The same target, which is asked for a page with native histograms.
    #[must_use]
    pub(super) fn with_native_histograms(self) -> Self {
        Self { has_native_histograms: true, ..self }
    }

    pub(super) fn has_native_histograms(&self) -> bool {
        self.has_native_histograms
    }

    /// The same target, of which the resource says this, too.
    #[must_use]
    pub(super) fn with_attributes(self, attributes: Vec<(&'static str, String)>) -> Self {
        Self { attributes, ..self }
    }

    /// The same target, whose samples all have this label.
    #[must_use]
    pub(super) fn with_label(mut self, name: &'static str, value: &str) -> Self {
        self.labels.push((name, value.to_owned()));
        self
    }

    /// The same proxy, of which somebody wants what it says of itself.
    #[must_use]
    pub(super) fn with_envoy(self, has_envoy: bool) -> Self {
        Self { has_envoy, ..self }
    }

    /// Whether somebody wants what a proxy says of itself.
    pub(super) fn has_envoy(&self) -> bool {
        self.has_envoy
    }

    /// Where its page is.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Why it is a target.
    pub fn job(&self) -> Job {
        self.job
    }

    /// Labels that every sample gets, as bytes.
    pub(super) fn labels(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.labels.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    /// What its resource says, beside the address.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
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

    /// Its attributes, as the fields of a resource. The names are those of the Collector's receiver. What a cluster runs
    /// is named by enrichment, and not by the job.
    pub(super) fn resource(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        let mut add = |key: &str, value: &str| {
            attribute(&mut out, resource::ATTRIBUTES, key.as_bytes(), value.as_bytes());
        };
        if self.job == Job::Static {
            add("service.name", self.job.name());
        }
        add("service.instance.id", &self.instance());
        if self.has_telling_host() {
            add("server.address", self.host());
        }
        add("server.port", &self.port().to_string());
        add("url.scheme", self.scheme());
        self.attributes.iter().for_each(|(key, value)| add(key, value));
        out.into_bytes()
    }

    /// Whether the host says anything on another machine.
    fn has_telling_host(&self) -> bool {
        let host = self.host();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(ip) => !ip.is_loopback() && !ip.is_unspecified(),
            Err(_) => host != "localhost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let target = Target::new("http://example.com:9100/metrics?a=b", Job::Static).unwrap();
        assert_eq!(target.instance(), "example.com:9100");
        assert_eq!(Target::new("https://[::1]/metrics", Job::Static).unwrap().instance(), "[::1]:443");
        for wrong in ["", "example.com:9100/metrics", "/metrics", "ftp://example.com/metrics", "http://"] {
            assert!(Target::new(wrong, Job::Static).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_in_few_words_and_without_its_password() {
        let said = |url: &str| Target::new(url, Job::Static).unwrap_err().to_string();
        let secret = said("http://user:hunter2@example.com/metrics?a=b@c");
        assert!(secret.contains("http://...@example.com/metrics") && !secret.contains("hunter2"), "{secret}");
        assert!(!said("http://user:hunter2@").contains("hunter2"));
        let long = said(&format!("http://example.com/{}", "x".repeat(100_000)));
        assert!(long.len() < 400 && long.contains("the limit is 2048"), "{long}");
        let escape = said("http://example.com/\u{9b}31m\u{202e}");
        assert!(escape.contains("%XX") && !escape.contains('\u{9b}'), "{escape}");
    }

    #[test]
    fn hosts_that_are_everywhere_say_nothing() {
        let tells = |host: &str| Target::new(&format!("http://{host}:80/"), Job::Static).unwrap().has_telling_host();
        for host in ["10.0.0.1", "[fd00::1]", "example.com", "localhost.example.com"] {
            assert!(tells(host), "{host}");
        }
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "0.0.0.0", "[::]"] {
            assert!(!tells(host), "{host}");
        }
    }
}
