//! Transport security of an output.

use weir_plan::{Identity, Secret};

use crate::Version;
use crate::diagnostic::{Diagnostic, Place};
use crate::endpoint::Scheme;
use crate::node::Node;
use crate::pem;
use crate::value::{Resolver, Value};

/// A check of PEM text, which says what is wrong.
type Check = fn(&str) -> Result<(), String>;

/// `tls` as written.
#[derive(Default)]
pub(super) struct Tls {
    /// Where `insecure: true` stands.
    pub(super) insecure: Option<Place>,
    insecure_skip_verify: bool,
    ca: Option<Value>,
    cert: Option<Value>,
    key: Option<Value>,
}

impl Tls {
    pub(super) fn decode(node: &Node<'_>, version: Version) -> Self {
        let Some(mut fields) = node.fields() else { return Self::default() };
        let insecure = fields.optional("insecure").filter(|node| node.boolean() == Some(true)).map(|node| node.place());
        let insecure_skip_verify = fields.optional("insecureSkipVerify").and_then(|node| node.boolean());
        let mut value = |key| fields.optional(key).map(|node| Value::decode(&node.secret(), version));
        let (ca, cert, key) = (value("ca"), value("cert"), value("key"));
        fields.finish();

        let given = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_unset());
        if given(&cert) != given(&key) {
            node.findings().push(node.error("Can define either both 'cert' and 'key', or neither"));
        }
        let set = |value: Option<Value>| value.filter(|value| !value.is_unset());
        let (ca, cert, key) = (set(ca), set(cert), set(key));
        Self { insecure, insecure_skip_verify: insecure_skip_verify.unwrap_or(false), ca, cert, key }
    }

    /// Whether certificates are configured and meant to be used.
    pub(super) fn has_certificates(&self) -> bool {
        self.insecure.is_none() && self.first_certificate().is_some()
    }

    fn first_certificate(&self) -> Option<&Value> {
        self.ca.as_ref().or(self.cert.as_ref()).or(self.key.as_ref())
    }

    /// How the connection is secured; `None` is plain text. The scheme `https://` is never weakened.
    pub(super) fn compile(&self, scheme: Option<Scheme>, resolver: Resolver<'_>) -> Option<weir_plan::Tls> {
        let read =
            |value: &Option<Value>, check: Check| value.as_ref().and_then(|value| read_pem(value, check, resolver));
        // Checked even where they are not used: a wrong certificate is a mistake in any case.
        let ca_pem = read(&self.ca, pem::check_certificates);
        let cert_pem = read(&self.cert, pem::check_certificates);
        let key_pem = read(&self.key, pem::check_key);

        let plain_because = match (scheme, &self.insecure) {
            (Some(Scheme::Http), _) => Some("the endpoint's scheme is http://"),
            (Some(Scheme::Https), Some(insecure)) => {
                let message = "has no effect: the endpoint's scheme is https://";
                resolver
                    .findings
                    .push(Diagnostic::warning(insecure, message).value("true").expected("false, or http://"));
                None
            }
            (None, Some(_)) => Some("'insecure' is true"),
            (_, None) => None,
        };
        if let Some(reason) = plain_because {
            if let Some(place) = self.first_certificate().and_then(Value::place) {
                let message = format!("certificates have no effect: {reason}");
                resolver.findings.push(Diagnostic::warning(&place.hidden(), message));
            }
            return None;
        }
        let identity =
            cert_pem.zip(key_pem).map(|(cert_pem, key_pem)| Identity { cert_pem, key_pem: Secret::new(key_pem) });
        Some(weir_plan::Tls { insecure_skip_verify: self.insecure_skip_verify, ca_pem, identity })
    }
}

fn read_pem(value: &Value, check: Check, resolver: Resolver<'_>) -> Option<String> {
    let resolved = resolver.resolve(value)?;
    let text = pem::normalized(&resolved.text);
    if let Err(problem) = check(&text) {
        let message = format!("TLS configuration invalid: {problem}");
        let expected = "PEM text (-----BEGIN ...-----) of the right kind";
        resolver.findings.push(Diagnostic::error(&resolved.place.hidden(), message).expected(expected));
        return None;
    }
    Some(text)
}
