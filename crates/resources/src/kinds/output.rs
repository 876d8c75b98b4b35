//! `OTLPOutput`: the backend of a pipeline, as written. The same for every signal.
//!
//! Here a document becomes checked fields: types, names, and the rules that need no Secret. [`compile()`] follows
//! references and makes the plan's output.

mod certificate;
mod compile;
mod endpoint;
mod headers;
pub(crate) mod tls;

use weir_plan::{Compression, Protocol};

use crate::diagnostic::{Diagnostic, Place};
use crate::document::{Fields, Located, Node, Version};
use crate::kinds::value::Value;

pub(crate) use compile::{authorization, compile, credential};
pub(crate) use endpoint::is_path;
pub(crate) use headers::header;
use tls::Tls;

pub(crate) const PROTOCOLS: [(&str, Protocol); 2] = [("grpc", Protocol::Grpc), ("http", Protocol::Http)];

pub(crate) const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("zstd", Compression::Zstd),
];

/// A checked output. Values are not resolved yet.
pub(crate) struct OtlpOutput {
    endpoint: Value,
    /// Nothing when what is written is not a protocol.
    protocol: Option<Protocol>,
    path: Option<Located<String>>,
    compression: Compression,
    headers: Vec<headers::Header>,
    basic: Option<Basic>,
    oauth2: Option<OAuth2>,
    tls: Tls,
}

struct Basic {
    user: Value,
    password: Value,
    place: Place,
}

struct OAuth2 {
    token_url: Value,
    client_id: Value,
    client_secret: Value,
    scopes: Vec<String>,
    params: Vec<(String, String)>,
    place: Place,
}

impl OtlpOutput {
    /// Reads `output.otlp`.
    pub(crate) fn decode(node: &Node<'_>) -> Option<Self> {
        let mut fields = node.fields()?;
        let output = Self::take(&mut fields);
        fields.finish();
        Some(output)
    }

    /// Takes the fields of an output from a mapping that may have more of them.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Self {
        let endpoint = match fields.required("endpoint") {
            Some(node) => decode_endpoint(&node),
            None => Value::Invalid,
        };
        let protocol = match fields.optional("protocol") {
            Some(node) => node.choice(&PROTOCOLS),
            None => Some(Protocol::Grpc),
        };
        let path = fields.optional("path").and_then(|node| node.string()).filter(|path| !path.value.is_empty());
        let compression = fields.optional("compression").and_then(|node| node.choice(&COMPRESSIONS));
        let headers = fields.optional("headers").map(|node| headers::decode(&node));
        let authentication = fields.optional("authentication").map(|node| decode_authentication(&node));
        let (basic, oauth2) = authentication.unwrap_or_default();
        let tls = fields.optional("tls").map(|node| Tls::decode(&node)).unwrap_or_default();
        let headers = headers.unwrap_or_default();
        let compression = compression.unwrap_or(Compression::Gzip);
        let output = Self { endpoint, protocol, path, compression, headers, basic, oauth2, tls };
        output.check_together(fields.node());
        output
    }

    /// The rules between fields.
    fn check_together(&self, node: &Node<'_>) {
        if self.protocol != Some(Protocol::Grpc) {
            return;
        }
        if let Some(path) = &self.path {
            let message = "Path is only available with HTTP protocol";
            node.findings().push(Diagnostic::error(&path.place, message).value(&path.value).expected("protocol: http"));
        }
        if self.oauth2.is_some()
            && let Some(insecure) = &self.tls.insecure
        {
            let message = "OAuth2 authentication requires TLS when using gRPC protocol";
            node.findings().push(Diagnostic::error(insecure, message).value("true").expected("false"));
        }
    }
}

fn decode_endpoint(node: &Node<'_>) -> Value {
    let endpoint = Value::decode(node);
    let rule = match node.version() {
        Version::V1Beta1 => "'endpoint' must have 'value' or 'valueFrom' set",
        Version::V1Alpha1 => "failed to resolve value",
    };
    endpoint.check_set(node, rule);
    endpoint
}

fn decode_authentication(node: &Node<'_>) -> (Option<Basic>, Option<OAuth2>) {
    let Some(mut fields) = node.fields() else { return (None, None) };
    let basic = fields.optional("basic");
    let oauth2 = fields.optional("oauth2");
    if basic.is_some() && oauth2.is_some() {
        node.findings().push(node.error("Only one authentication method can be specified"));
    }
    fields.finish();
    (basic.and_then(|node| decode_basic(&node)), oauth2.and_then(|node| decode_oauth2(&node)))
}

fn decode_basic(node: &Node<'_>) -> Option<Basic> {
    let mut fields = node.fields()?;
    let mut part = |key, rule| {
        let Some(node) = fields.required(key) else { return Value::Invalid };
        let value = Value::decode(&node);
        if node.version() == Version::V1Beta1 {
            value.check_set(&node, rule);
        }
        value
    };
    let user = part("user", "'user' must have 'value' or 'valueFrom' set");
    let password = part("password", "'password' must have 'value' or 'valueFrom' set");
    fields.finish();
    // The older version accepts a half-written login and then sends none.
    if node.version() == Version::V1Alpha1 && (user.is_unset() || password.is_unset()) {
        let message = "basic authentication is not used: 'user' and 'password' must have 'value' or 'valueFrom' set";
        node.findings().push(Diagnostic::warning(&node.place(), message));
        return None;
    }
    Some(Basic { user, password, place: node.place() })
}

fn decode_oauth2(node: &Node<'_>) -> Option<OAuth2> {
    let mut fields = node.fields()?;
    let mut part = |key, rule| {
        let Some(node) = fields.required(key) else { return Value::Invalid };
        let value = Value::decode(&node);
        value.check_set(&node, rule);
        value
    };
    let token_url = part("tokenURL", "'tokenURL' must have 'value' or 'valueFrom' set");
    let client_id = part("clientID", "'clientID' must have 'value' or 'valueFrom' set");
    let client_secret = part("clientSecret", "'clientSecret' must have 'value' or 'valueFrom' set");
    let scopes = fields.optional("scopes").map(|node| node.strings()).unwrap_or_default();
    let params = fields.optional("params").map(|node| node.map()).unwrap_or_default();
    fields.finish();
    Some(OAuth2 {
        token_url,
        client_id,
        client_secret,
        scopes: scopes.into_iter().map(|scope| scope.value).collect(),
        params: params.into_iter().filter_map(|(key, node)| Some((key.to_owned(), node.string()?.value))).collect(),
        place: node.place(),
    })
}
