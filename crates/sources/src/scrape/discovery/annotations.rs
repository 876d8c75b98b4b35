//! Annotations of pods and services that say how they are scraped.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use super::super::target::{Job, NoTarget, Target};

/// Ports of one object at most: each of them is a target.
const MOST_PORTS: usize = 100;

/// The longest value that a message shows whole, in characters.
const MOST_SHOWN: usize = 100;

/// What annotations say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    /// The ports to scrape; none means those that the object has.
    pub(super) ports: Vec<u16>,
    /// Of a service.
    pub(super) scheme: Option<Scheme>,
    /// With a slash in front.
    path: String,
    /// With its question mark, or nothing.
    query: String,
}

/// How a page is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// What is wrong with an annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("prometheus.io/{key} is {value}: {expected}")]
pub(super) struct BadAnnotation {
    key: &'static str,
    value: String,
    expected: &'static str,
}

impl Rules {
    /// Reads the annotations of something that wants to be scraped; `None` when it does not.
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Option<Result<Self, BadAnnotation>> {
        match annotations.get("scrape").map(String::as_str) {
            Some("true") => Some(Self::rest(annotations)),
            None | Some("false" | "") => None,
            Some(other) => Some(Err(BadAnnotation::new("scrape", other, "write \"true\" or \"false\""))),
        }
    }

    fn rest(annotations: &BTreeMap<String, String>) -> Result<Self, BadAnnotation> {
        let text = |key| annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
        let ports = text("port").map(ports).transpose()?.unwrap_or_default();
        let scheme = text("scheme").map(scheme).transpose()?;
        let (path, query) = path(text("path").unwrap_or("/metrics"))?;
        let mut query = query.to_owned();
        for (key, value) in annotations {
            let Some(key) = key.strip_prefix("param_").filter(|key| !key.is_empty()) else { continue };
            query.push(if query.is_empty() { '?' } else { '&' });
            push_escaped(&mut query, key);
            query.push('=');
            push_escaped(&mut query, value);
        }
        Ok(Self { ports, scheme, path, query })
    }

    /// The target at this address.
    pub(super) fn target(&self, job: Job, ip: IpAddr, port: u16) -> Result<Target, NoTarget> {
        let scheme = if job == Job::SecureServices { "https" } else { "http" };
        let (host, Self { path, query, .. }) = (host(ip), self);
        Target::new(&format!("{scheme}://{host}:{port}{path}{query}"), job)
    }
}

impl BadAnnotation {
    fn new(key: &'static str, value: &str, expected: &'static str) -> Self {
        let mut shown: String = value.chars().take(MOST_SHOWN).collect();
        if shown.len() < value.len() {
            shown.push_str("...");
        }
        Self { key, value: format!("{shown:?}"), expected }
    }
}

/// An address as a part of a URL.
pub(super) fn host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Numbers with commas between them, each once.
fn ports(text: &str) -> Result<Vec<u16>, BadAnnotation> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        match part.trim().parse() {
            Ok(port) if port > 0 && part.trim().starts_with(|first: char| first.is_ascii_digit()) => {
                if !ports.contains(&port) {
                    ports.push(port);
                }
                if ports.len() > MOST_PORTS {
                    return Err(BadAnnotation::new("port", text, "write at most 100 of them"));
                }
            }
            _ => {
                return Err(BadAnnotation::new(
                    "port",
                    text,
                    "write numbers from 1 to 65535, with commas between them",
                ));
            }
        }
    }
    Ok(ports)
}

fn scheme(text: &str) -> Result<Scheme, BadAnnotation> {
    match text {
        "http" => Ok(Scheme::Http),
        "https" => Ok(Scheme::Https),
        _ => Err(BadAnnotation::new("scheme", text, "write http or https")),
    }
}

/// A path with a slash in front, and its query with the question mark.
fn path(text: &str) -> Result<(String, &str), BadAnnotation> {
    let slash = if text.starts_with('/') { "" } else { "/" };
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let path = format!("{slash}{path}");
    let is_path = !text.contains("://") && !text.contains('#');
    match format!("{path}{query}").parse::<http::uri::PathAndQuery>() {
        Ok(_) if is_path => Ok((path, query)),
        _ => Err(BadAnnotation::new("path", text, "write the path of a page, for example /metrics")),
    }
}

/// Writes text as a part of a query.
fn push_escaped(query: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            query.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(query, "%{byte:02X}");
        }
    }
}
