//! Which proxy stands between the gateway and a backend.
//!
//! The rules are those of Go programs, and so of the Collector, with two differences: names inside a cluster never go to
//! a proxy, which could not resolve them, and gRPC without TLS also takes the proxy for plain text.

use std::net::IpAddr;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use rustls::ClientConfig;
use weir_plan::{Protocol, Secret, Tls};

use super::tls;
use crate::settings;

/// Names in a cluster end like this.
const CLUSTER_SUFFIXES: [&str; 2] = [".svc", ".svc.cluster.local"];

/// A proxy, and what it does for a connection.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    /// Without credentials.
    pub(super) uri: Uri,
    pub(super) authorization: Option<HeaderValue>,
    /// For a proxy that is spoken to over TLS.
    pub(super) tls: Arc<ClientConfig>,
    pub(super) way: Way,
}

/// What a proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It connects to the backend and passes on what it does not understand (`CONNECT`).
    Tunnel,
    /// It takes plain HTTP requests and sends them on.
    Forward,
}

impl Proxy {
    /// The one on the way to `destination`, if there is one.
    pub(super) fn find(
        settings: &settings::Proxy,
        destination: &Uri,
        protocol: Protocol,
    ) -> Result<Option<Self>, String> {
        let (host, port) = host_and_port(destination);
        if is_near(host) {
            return Ok(None);
        }
        let tls = destination.scheme() == Some(&Scheme::HTTPS);
        let (https, http) = (named("HTTPS_PROXY", &settings.https), named("HTTP_PROXY", &settings.http));
        let chosen = match protocol {
            _ if tls => https,
            Protocol::Grpc => https.or(http),
            Protocol::Http => http,
        };
        let Some((name, url)) = chosen else { return Ok(None) };
        let Some(exceptions) = exceptions(&settings.except, port) else { return Ok(None) };
        let any = Uri::from_static("http://any");
        let usable = Matcher::builder().all(url.reveal()).build().intercept(&any).filter(is_http);
        // It may hold a password: it is not shown.
        usable.ok_or_else(|| format!("{name} is not the URL of a proxy; write http://[USER:PASSWORD@]HOST:PORT"))?;
        let matcher = Matcher::builder().all(url.reveal()).no(exceptions).build();
        let way = if tls || protocol == Protocol::Grpc { Way::Tunnel } else { Way::Forward };
        matcher.intercept(destination).map(|found| Self::new(&found, way)).transpose()
    }

    fn new(found: &Intercept, way: Way) -> Result<Self, String> {
        let uri = found.uri().clone();
        let secured = (uri.scheme() == Some(&Scheme::HTTPS)).then(Tls::default);
        let tls = Arc::new(tls::client_config(secured.as_ref())?);
        Ok(Self { uri, authorization: found.basic_auth().cloned(), tls, way })
    }

    /// What a request has to carry: a proxy that sends requests on looks for its credentials there.
    pub(super) fn request_header(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref().filter(|_| self.way == Way::Forward)
    }
}

/// Host, without brackets, and port.
pub(super) fn host_and_port(uri: &Uri) -> (&str, u16) {
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let default = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    (host, uri.port_u16().unwrap_or(default))
}

fn named<'a>(name: &'static str, url: &'a Option<Secret>) -> Option<(&'static str, &'a Secret)> {
    url.as_ref().map(|url| (name, url))
}

fn is_http(found: &Intercept) -> bool {
    [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&found.uri().scheme())
}

/// This machine and this cluster: no proxy knows the way.
fn is_near(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || CLUSTER_SUFFIXES.iter().any(|suffix| host.ends_with(suffix))
}

/// The part of `NO_PROXY` that is about destinations with this port, in the words of the matcher. Nothing when all are
/// meant.
fn exceptions(text: &str, port: u16) -> Option<String> {
    let mut kept = Vec::new();
    for entry in text.split([',', ' ']).filter(|entry| !entry.is_empty()) {
        let host = match entry.rsplit_once(':') {
            // An IPv6 address has colons of its own.
            Some((host, number)) if !host.contains(':') || host.ends_with(']') => match number.parse() {
                Ok::<u16, _>(number) if number == port => host,
                _ => continue,
            },
            _ => entry,
        };
        if host == "*" {
            return None;
        }
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        kept.push(host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host));
    }
    Some(kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXIES: [&str; 2] = ["http://user:p%40ss@secure:3128", "plain:8080"];

    fn find(except: &str, [https, http]: [&str; 2], destination: &str, protocol: Protocol) -> Result<String, String> {
        let set = |url: &str| Some(url).filter(|url| !url.is_empty()).map(Secret::new);
        let settings = settings::Proxy { https: set(https), http: set(http), except: except.into() };
        let found = Proxy::find(&settings, &destination.parse().unwrap(), protocol)?;
        Ok(found.map_or("none".into(), |proxy| format!("{:?} {}", proxy.way, proxy.uri.authority().unwrap())))
    }

    #[test]
    fn the_scheme_and_the_protocol_choose_the_proxy() {
        let (grpc, http) = (Protocol::Grpc, Protocol::Http);
        for (proxies, destination, protocol, expected) in [
            (PROXIES, "https://backend.test:4317", grpc, "Tunnel secure:3128"),
            (PROXIES, "https://backend.test:443/v1/traces", http, "Tunnel secure:3128"),
            (PROXIES, "http://backend.test:4317", grpc, "Tunnel secure:3128"),
            (PROXIES, "http://backend.test:4318/v1/traces", http, "Forward plain:8080"),
            (["", PROXIES[1]], "http://backend.test:4317", grpc, "Tunnel plain:8080"),
            (["", PROXIES[1]], "https://backend.test:4317", grpc, "none"),
            ([PROXIES[0], ""], "http://backend.test:4318/", http, "none"),
            (PROXIES, "https://localhost:4317", grpc, "none"),
            (PROXIES, "https://127.0.0.2:4317", grpc, "none"),
            (PROXIES, "https://[::1]:4317", grpc, "none"),
            (PROXIES, "https://[2001:db8::1]:4317", grpc, "Tunnel secure:3128"),
            (PROXIES, "https://otel.shop.svc:4317", grpc, "none"),
            (PROXIES, "https://otel.shop.SVC.cluster.local.:4317", grpc, "none"),
            (PROXIES, "https://svc:4317", grpc, "Tunnel secure:3128"),
        ] {
            assert_eq!(find("", proxies, destination, protocol), Ok(expected.to_owned()), "{destination} {protocol:?}");
        }
    }

    #[test]
    fn exceptions_are_names_addresses_networks_and_ports() {
        for (except, destination, excepted) in [
            ("example.com", "https://example.com:443", true),
            ("example.com", "https://otel.Example.com:443", true),
            ("example.com", "https://badexample.com:443", false),
            (".example.com", "https://otel.example.com:443", true),
            ("*.example.com", "https://otel.example.com:443", true),
            ("other.test, example.com", "https://example.com:443", true),
            ("other.test example.com", "https://example.com:443", true),
            ("example.com:4317", "https://example.com:4317", true),
            ("example.com:4317", "https://example.com:4318", false),
            ("192.0.2.7", "https://192.0.2.7:4317", true),
            ("192.0.2.7:4318", "https://192.0.2.7:4317", false),
            ("192.0.2.0/24", "https://192.0.2.7:4317", true),
            ("192.0.2.0/24", "https://192.0.3.7:4317", false),
            ("2001:db8::/32", "https://[2001:db8::1]:4317", true),
            ("2001:db8::1", "https://[2001:db8::1]:4317", true),
            ("[2001:db8::1]:4317", "https://[2001:db8::1]:4317", true),
            ("[2001:db8::1]:4318", "https://[2001:db8::1]:4317", false),
            ("*", "https://192.0.2.7:4317", true),
            ("*:4317", "https://example.com:4317", true),
            ("", "https://example.com:4317", false),
        ] {
            let expected = if excepted { "none" } else { "Tunnel secure:3128" };
            let found = find(except, PROXIES, destination, Protocol::Grpc);
            assert_eq!(found, Ok(expected.to_owned()), "{except:?} {destination}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_said_without_its_value() {
        for url in ["socks5://hunter2@proxy:1080", "ftp://hunter2", "http://user:hunter2 @proxy", "hunter2://"] {
            let error = find("", [url, ""], "https://example.com:443", Protocol::Http).unwrap_err();
            assert_eq!(error, "HTTPS_PROXY is not the URL of a proxy; write http://[USER:PASSWORD@]HOST:PORT", "{url}");
        }
    }
}
