//! Where a target that sends us elsewhere sends us.

use http::header::LOCATION;
use http::uri::InvalidUri;
use http::{HeaderMap, StatusCode, Uri};

use super::target::shown;

/// Why a target that sends us elsewhere is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRedirect {
    /// It does not say where.
    #[error("redirects without a Location header")]
    Nowhere,
    /// What it says is no address of HTTP.
    #[error("redirects to {0:?}, which is not an http or https URL")]
    NoAddress(String),
}

/// Whether an answer says that the page is elsewhere.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The address that an answer from this address names.
pub(super) fn next(from: &Uri, headers: &HeaderMap) -> Result<Uri, BadRedirect> {
    let location = headers.get(LOCATION).ok_or(BadRedirect::Nowhere)?;
    let text = String::from_utf8_lossy(location.as_bytes());
    let failed = || BadRedirect::NoAddress(shown(&text));
    let reference = text.split('#').next().unwrap_or_default();
    let found = resolve(from, reference).map_err(|_| failed())?;
    match (found.scheme_str(), found.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(found),
        _ => Err(failed()),
    }
}

/// A reference as of RFC 3986, seen from this address.
fn resolve(from: &Uri, reference: &str) -> Result<Uri, InvalidUri> {
    let (scheme, authority) = (from.scheme_str().unwrap_or("http"), from.authority().map_or("", |all| all.as_str()));
    if has_scheme(reference) {
        return reference.parse();
    }
    if reference.starts_with("//") {
        return format!("{scheme}:{reference}").parse();
    }
    let path = match reference.as_bytes().first() {
        Some(b'/') => reference.to_owned(),
        Some(b'?') => format!("{}{reference}", from.path()),
        Some(_) => format!("{}/{reference}", from.path().rsplit_once('/').map_or("", |(before, _)| before)),
        None => from.path_and_query().map_or("/", |all| all.as_str()).to_owned(),
    };
    format!("{scheme}://{authority}{}", without_dots(&path)).parse()
}

fn has_scheme(reference: &str) -> bool {
    let before = reference.split(['/', '?']).next().unwrap_or_default();
    before.contains(':')
}

/// A path without `.` and `..`.
fn without_dots(path: &str) -> String {
    let (path, query) = path.find('?').map_or((path, ""), |at| path.split_at(at));
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let is_directory = path.ends_with("/.") || path.ends_with("/..");
    format!("/{}{}{query}", parts.join("/"), if is_directory && !parts.is_empty() { "/" } else { "" })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn to(location: &[u8]) -> Result<String, BadRedirect> {
        let from: Uri = "http://node:9100/a/b?x=1".parse().unwrap();
        let headers = [(LOCATION, HeaderValue::from_bytes(location).unwrap())].into_iter().collect();
        next(&from, &headers).map(|uri| uri.to_string())
    }

    #[test]
    fn references_are_seen_from_where_they_stand() {
        for (location, expected) in [
            ("https://other/metrics", "https://other/metrics"),
            ("//other:1/metrics", "http://other:1/metrics"),
            ("/metrics?y=2#part", "http://node:9100/metrics?y=2"),
            ("c", "http://node:9100/a/c"),
            ("../c/./d?e=../f", "http://node:9100/c/d?e=../f"),
            ("..", "http://node:9100/"),
            ("../../../c", "http://node:9100/c"),
            ("?z", "http://node:9100/a/b?z"),
            ("", "http://node:9100/a/b?x=1"),
        ] {
            assert_eq!(to(location.as_bytes()).as_deref(), Ok(expected), "{location}");
        }
    }

    #[test]
    fn nothing_but_http_is_followed() {
        for location in ["ftp://other/x", "file:///etc/passwd", "javascript:alert(1)", "http://", "https:/x", "/a b"] {
            assert_eq!(to(location.as_bytes()), Err(BadRedirect::NoAddress(location.to_owned())), "{location}");
        }
        assert_eq!(next(&"http://node/".parse().unwrap(), &HeaderMap::new()), Err(BadRedirect::Nowhere));
    }
}
