//! Transport security of an output.

use std::sync::Arc;

use weir_plan::{Identity, Secret};

use super::certificate::{self, Problem};
use super::endpoint::Scheme;
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::document::Fields;
use crate::kinds::value::{Resolver, Value};

/// `tls` as written.
pub(crate) struct Tls {
    /// Where `insecure: true` stands.
    pub(crate) insecure: Option<Place>,
    insecure_skip_verify: bool,
    ca: Option<Value>,
    cert: Option<Value>,
    key: Option<Value>,
}

/// PEM text that could be taken apart, and where it is given.
struct Pem<T> {
    text: String,
    content: T,
    place: Place,
}

impl Tls {
    /// Takes `tls`. Without it, backends are verified.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Self {
        let mut fields = fields.mapping("tls");
        let insecure = fields.optional("insecure").filter(|node| node.boolean() == Some(true)).map(|node| node.place());
        let insecure_skip_verify = fields.boolean("insecureSkipVerify");
        let mut value = |key| fields.optional(key).map(|node| Value::decode(&node));
        let (ca, cert, key) = (value("ca"), value("cert"), value("key"));
        fields.finish();

        let set = |value: Option<Value>| value.filter(|value| !value.is_unset());
        let (ca, cert, key) = (set(ca), set(cert), set(key));
        Self { insecure, insecure_skip_verify, ca, cert, key }
    }

    /// With certificates and a key from elsewhere.
    pub(crate) fn of_values(insecure_skip_verify: bool, [ca, cert, key]: [Option<Value>; 3]) -> Self {
        Self { insecure: None, insecure_skip_verify, ca, cert, key }
    }

    /// Whether certificates are configured and meant to be used.
    pub(crate) fn has_certificates(&self) -> bool {
        self.insecure.is_none() && self.first_certificate().is_some()
    }

    fn first_certificate(&self) -> Option<&Value> {
        self.ca.as_ref().or(self.cert.as_ref()).or(self.key.as_ref())
    }

    /// How the connection is secured; `None` is plain text. The scheme `https://` is never weakened.
    pub(crate) fn compile(&self, scheme: Option<Scheme>, resolver: Resolver<'_>) -> Option<weir_plan::Tls> {
        // Checked even where they are not used: a wrong certificate is a mistake in any case.
        let ca_pem = self.ca.as_ref().and_then(|value| ca(value, resolver));
        let identity = self.identity(resolver);
        let plain_because = match (scheme, &self.insecure) {
            (Some(Scheme::Http), _) => Some(("the endpoint's scheme is http://", "https://, or no certificates")),
            (Some(Scheme::Https), Some(insecure)) => {
                let message = "has no effect: the endpoint's scheme is https://";
                let warning = Diagnostic::warning(insecure, message, "false, or http://");
                resolver.findings.push(warning.value("true"));
                None
            }
            (None, Some(_)) => Some(("'insecure' is true", "insecure: false, or no certificates")),
            (_, None) => None,
        };
        if let Some((reason, expected)) = plain_because {
            if let Some(place) = self.first_certificate().and_then(Value::place) {
                let message = format!("certificates have no effect: {reason}");
                resolver.findings.push(Diagnostic::warning(&place.hidden(), message, expected));
            }
            return None;
        }
        Some(weir_plan::Tls { insecure_skip_verify: self.insecure_skip_verify, ca_pem, identity })
    }

    fn identity(&self, resolver: Resolver<'_>) -> Option<Identity> {
        let cert = self.cert.as_ref().and_then(|cert| read(cert, weir_tls::chain, resolver));
        let key = self.key.as_ref().and_then(|key| read(key, weir_tls::private_key, resolver));
        let (cert, key) = (cert?, key?);
        report(certificate::check_chain(&cert.content, resolver.now), &cert.place, resolver);
        report(certificate::check_key(&key.content, &cert.content), &key.place, resolver);
        // The text may hold the key as well.
        Some(Identity { cert_pem: weir_tls::to_pem(&cert.content), key_pem: Secret::new(key.text) })
    }
}

/// Certificates of authorities. `None` has been reported.
pub(crate) fn ca(value: &Value, resolver: Resolver<'_>) -> Option<Arc<str>> {
    let Pem { text, content: bundle, place } = read(value, weir_tls::certificates, resolver)?;
    report(certificate::check_roots(&bundle, resolver.now), &place, resolver);
    let mut bundles = resolver.bundles.borrow_mut();
    let shared = bundles.get(text.as_str()).map_or_else(|| text.into(), Arc::clone);
    bundles.insert(Arc::clone(&shared));
    Some(shared)
}

fn read<T>(value: &Value, parse: fn(&str) -> Result<T, String>, resolver: Resolver<'_>) -> Option<Pem<T>> {
    let resolved = resolver.resolve(value)?;
    let (text, place) = (weir_tls::normalized(&resolved.text), resolved.place.hidden());
    match parse(&text) {
        Ok(content) => Some(Pem { text, content, place }),
        Err(problem) => {
            let Problem { reason, message, .. } = Problem::invalid(problem);
            let expected = "PEM text (-----BEGIN ...-----) of the right kind";
            resolver.findings.push(Diagnostic::error(&place, message).reason(reason).expected(expected));
            None
        }
    }
}

fn report(problems: impl IntoIterator<Item = Problem>, place: &Place, resolver: Resolver<'_>) {
    for Problem { reason, severity, message } in problems {
        let diagnostic = match severity {
            Severity::Warning => Diagnostic::warning(place, message, certificate::IN_TIME),
            Severity::Error => Diagnostic::error(place, message),
        };
        resolver.findings.push(diagnostic.reason(reason));
    }
}
