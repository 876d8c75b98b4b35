//! The address of an OTLP backend: from text to scheme, host, port and path, with every rule it breaks.
//!
//! It knows the rules of the two OTLP transports and no YAML, Secret or diagnostic.

use std::net::Ipv6Addr;

use http::uri::PathAndQuery;
use weir_plan::Protocol;

const EXAMPLE_GRPC: &str = "HOST:PORT, for example backend.example.com:4317";
const EXAMPLE_HTTP: &str = "a URL, for example https://backend.example.com:4318";
const PORT_RANGE: &str = "a number from 1 to 65535";

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// As written; without one, gRPC uses TLS.
    pub(crate) scheme: Option<Scheme>,
    /// Host name or IP address, without brackets.
    pub(crate) host: String,
    /// Given, or the scheme's default for HTTP.
    pub(crate) port: u16,
    /// As written, empty for none.
    pub(crate) path: String,
}

/// The scheme of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

/// A rule that an address breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) expected: &'static str,
}

impl Problem {
    fn new(message: impl Into<String>, expected: &'static str) -> Self {
        Self { message: message.into(), expected }
    }
}

/// Whether the text may hold a credential (user information or a query) and must not be shown.
pub(crate) fn may_be_secret(text: &str) -> bool {
    text.contains(['@', '?', '#'])
}

/// Parses an endpoint.
///
/// # Errors
/// Every rule the text breaks.
pub(crate) fn parse(text: &str, protocol: Protocol) -> Result<Address, Vec<Problem>> {
    let mut problems = Vec::new();
    let (scheme, rest) = scheme(text, protocol, &mut problems);
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    check_tail(tail, protocol, &mut problems);
    if authority.contains('@') {
        let message = "credentials in an endpoint are not supported";
        problems.push(Problem::new(message, "'authentication.basic' to hold them"));
        return Err(problems);
    }
    match (host_and_port(authority, protocol), problems.is_empty()) {
        (Ok((host, port)), true) => {
            let default = if scheme == Some(Scheme::Http) { 80 } else { 443 };
            Ok(Address { scheme, host, port: port.unwrap_or(default), path: tail.to_owned() })
        }
        (Ok(_), false) => Err(problems),
        (Err(problem), _) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

fn scheme<'a>(text: &'a str, protocol: Protocol, problems: &mut Vec<Problem>) -> (Option<Scheme>, &'a str) {
    const UNSUPPORTED: &str = "missing or unsupported protocol scheme";
    match (text.split_once("://"), protocol) {
        (Some((scheme, rest)), _) if scheme.eq_ignore_ascii_case("http") => (Some(Scheme::Http), rest),
        (Some((scheme, rest)), _) if scheme.eq_ignore_ascii_case("https") => (Some(Scheme::Https), rest),
        (Some((_, rest)), Protocol::Grpc) => {
            problems.push(Problem::new(UNSUPPORTED, "no scheme, http:// or https://"));
            (None, rest)
        }
        (other, Protocol::Http) => {
            problems.push(Problem::new(UNSUPPORTED, EXAMPLE_HTTP));
            (None, other.map_or(text, |(_, rest)| rest))
        }
        (None, Protocol::Grpc) => (None, text),
    }
}

fn check_tail(tail: &str, protocol: Protocol, problems: &mut Vec<Problem>) {
    let path = &tail[..tail.find(['?', '#']).unwrap_or(tail.len())];
    if !path.is_empty() && protocol == Protocol::Grpc {
        problems.push(Problem::new("gRPC endpoints cannot contain paths", EXAMPLE_GRPC));
    } else if !is_path(path) {
        problems.push(Problem::new("invalid character in the path", "a URL path, special characters as %XX"));
    }
    if path.len() < tail.len() {
        problems.push(Problem::new("endpoints cannot contain a query or a fragment", "'headers' for credentials"));
    }
}

/// Whether a text can stand in a request line as its path (and query).
pub(crate) fn is_path(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_graphic()) && (path.is_empty() || PathAndQuery::try_from(path).is_ok())
}

fn host_and_port(authority: &str, protocol: Protocol) -> Result<(String, Option<u16>), Problem> {
    let example = if protocol == Protocol::Grpc { EXAMPLE_GRPC } else { EXAMPLE_HTTP };
    let (host, port) = split_port(authority)?;
    if host.is_empty() {
        return Err(Problem::new("missing host", example));
    }
    match port {
        None | Some("") if protocol == Protocol::Grpc => Err(Problem::new("missing port", example)),
        None | Some("") => Ok((host.to_owned(), None)),
        Some(text) => {
            let port = text.parse().ok().filter(|port| *port > 0 && text.bytes().all(|b| b.is_ascii_digit()));
            match port {
                Some(port) => Ok((host.to_owned(), Some(port))),
                None => Err(Problem::new("invalid port", PORT_RANGE)),
            }
        }
    }
}

/// Splits `host:port`, `[v6]:port` or a host alone; the host comes without brackets and checked.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), Problem> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let Some((host, rest)) = bracketed.split_once(']') else {
            return Err(Problem::new("missing ']' in address", "[IPV6]:PORT, for example [::1]:4317"));
        };
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(Problem::new("invalid IPv6 address", "an IPv6 address in brackets, for example [::1]:4317"));
        }
        return match rest.strip_prefix(':') {
            None if rest.is_empty() => Ok((host, None)),
            None => Err(Problem::new("unexpected text after ']'", "[IPV6]:PORT, for example [::1]:4317")),
            port => Ok((host, port)),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if port.is_some_and(|port| port.contains(':')) {
        return Err(Problem::new("too many colons in address", "IPv6 addresses in brackets, for example [::1]:4317"));
    }
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if !host.bytes().all(known) {
        return Err(Problem::new("invalid character in host name", "letters, digits, '.', '-' and '_'"));
    }
    Ok((host, port))
}
