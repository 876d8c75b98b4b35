//! From a checked output to the plan's output: references followed, endpoint parsed, authentication put together.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use weir_plan::{Body, Endpoint, Output, Protocol, Secret};

use super::endpoint::{self, Address, Scheme};
use super::{Basic, OAuth2, OtlpOutput, headers};
use crate::diagnostic::{Diagnostic, Place, Reason};
use crate::kinds::fields::NO_TOKEN_URL;
use crate::kinds::value::{Resolved, Resolver, Value};

/// Compiles an output. `signal_path` is what OTLP/HTTP appends to the endpoint (`/v1/traces`). `None` has been
/// reported.
pub(crate) fn compile(output: &OtlpOutput, signal_path: &str, resolver: Resolver<'_>) -> Option<Output> {
    let compiler = Compiler { output, resolver };
    let address = compiler.address();
    let basic = output.basic.as_ref().and_then(|basic| compiler.basic(basic));
    let oauth2 = output.oauth2.as_ref().and_then(|oauth2| compiler.oauth2(oauth2));
    let authorized_by = match (&output.basic, &output.oauth2) {
        (Some(_), _) => Some("authentication.basic"),
        (None, Some(_)) => Some("authentication.oauth2"),
        (None, None) => None,
    };
    let mut headers = headers::compile(&output.headers, authorized_by, resolver);
    headers.extend(basic);
    let tls = output.tls.compile(address.as_ref().and_then(|address| address.scheme), resolver);

    let (address, protocol) = (address?, output.protocol?);
    compiler.check_oauth2_security(&address, protocol);
    let path = compiler.path(&address, protocol, signal_path)?;
    let endpoint = Endpoint { host: address.host, port: address.port, path };
    let compression = output.compression?;
    Some(Output { protocol, body: Body::Otlp, endpoint, compression, headers, oauth2, tls })
}

struct Compiler<'a> {
    output: &'a OtlpOutput,
    resolver: Resolver<'a>,
}

impl Compiler<'_> {
    fn report(&self, diagnostic: Diagnostic) {
        self.resolver.findings.push(diagnostic);
    }

    fn address(&self) -> Option<Address> {
        let Resolved { text, place, from_secret } = self.resolver.resolve(&self.output.endpoint)?;
        let text = text.trim();
        let problems = match endpoint::parse(text, self.output.protocol?) {
            Ok(address) => return Some(address),
            Err(problems) => problems,
        };
        let place = if from_secret || endpoint::may_be_secret(text) { place.hidden() } else { place };
        for problem in problems {
            let message = format!("OTLP output endpoint invalid: {}: {}", problem.message, place.shown(text));
            let diagnostic = Diagnostic::error(&place, message).reason(Reason::EndpointInvalid);
            self.report(diagnostic.value(text).expected(problem.expected));
        }
        None
    }

    /// The request path: what the user gives below the endpoint's own path, or the signal's.
    fn path(&self, address: &Address, protocol: Protocol, signal_path: &str) -> Option<String> {
        if protocol == Protocol::Grpc {
            return Some(String::new());
        }
        let base = address.path.trim_end_matches('/');
        let Some(path) = &self.output.path else { return Some(format!("{base}{signal_path}")) };
        let full = format!("{base}/{}", path.value.trim_start_matches('/'));
        if path.value.contains('#') || !endpoint::is_path(&full) {
            let message = format!("{} is not a URL path", path.place.shown(&path.value));
            let expected = "a path, for example /v1/traces, special characters as %XX";
            self.report(Diagnostic::error(&path.place, message).value(&path.value).expected(expected));
            return None;
        }
        Some(full)
    }

    fn check_oauth2_security(&self, address: &Address, protocol: Protocol) {
        let Some(OAuth2 { place, .. }) = &self.output.oauth2 else { return };
        if address.scheme != Some(Scheme::Http) {
            return;
        }
        let message = match protocol {
            Protocol::Grpc => "OAuth2 requires TLS when using gRPC protocol: HTTP scheme not allowed",
            Protocol::Http if self.output.tls.has_certificates() => "HTTP scheme with TLS not allowed",
            Protocol::Http => return,
        };
        let place = self.output.endpoint.place().unwrap_or(place).hidden();
        let message = format!("OTLP output endpoint invalid: {message}");
        self.report(Diagnostic::error(&place, message).reason(Reason::EndpointInvalid).expected("https://"));
    }

    fn basic(&self, basic: &Basic) -> Option<weir_plan::Header> {
        let Basic { user, password, place } = basic;
        let (user, password) = (credential(user, self.resolver), credential(password, self.resolver));
        authorization(&user?, &password?, place, self.resolver)
    }

    fn oauth2(&self, oauth2: &OAuth2) -> Option<weir_plan::OAuth2> {
        let token_url = self.token_url(&oauth2.token_url);
        let (client_id, client_secret) =
            (credential(&oauth2.client_id, self.resolver), credential(&oauth2.client_secret, self.resolver));
        Some(weir_plan::OAuth2 {
            token_url: token_url?,
            client_id: Secret::new(client_id?),
            client_secret: Secret::new(client_secret?),
            scopes: oauth2.scopes.clone(),
            params: oauth2.params.iter().map(|(name, value)| (name.clone(), Secret::new(value))).collect(),
            ca_pem: None,
        })
    }

    fn token_url(&self, value: &Value) -> Option<String> {
        let Resolved { text, place, from_secret } = self.resolver.resolve(value)?;
        let text = text.trim();
        let uri: Option<Uri> = text.parse().ok();
        let valid = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
        });
        if valid {
            return Some(text.to_owned());
        }
        let place = if from_secret || endpoint::may_be_secret(text) { place.hidden() } else { place };
        let message = format!("{NO_TOKEN_URL}: {}", place.shown(text));
        let expected = "an absolute URL, for example https://auth.example.com/oauth2/token";
        self.report(Diagnostic::error(&place, message).value(text).expected(expected));
        None
    }
}

/// The header of basic authentication.
pub(crate) fn authorization(
    user: &str,
    password: &str,
    place: &Place,
    resolver: Resolver<'_>,
) -> Option<weir_plan::Header> {
    if user.contains(':') {
        let message = "the user of basic authentication contains ':' (not shown)";
        let diagnostic = Diagnostic::error(place, message).expected("a user name without ':' (RFC 7617)");
        resolver.findings.push(diagnostic);
        return None;
    }
    let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    Some(weir_plan::Header { name: "authorization".to_owned(), value: Secret::new(value) })
}

/// A user, password or client secret: taken as it is, because white space may be part of it.
pub(crate) fn credential(value: &Value, resolver: Resolver<'_>) -> Option<String> {
    let Resolved { text, place, .. } = resolver.resolve(value)?;
    if text.ends_with('\n') {
        let message = "the value ends with a line break, which is sent as part of it (not shown)";
        let expected = "a value without it (`printf %s` or `echo -n` when encoding)";
        resolver.findings.push(Diagnostic::warning(&place.hidden(), message, expected));
    }
    Some(text)
}
