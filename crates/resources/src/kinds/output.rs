//! `OTLPOutput`: the backend of a pipeline, as written. The same for every signal.
//!
//! Here a document becomes checked fields: types, names, and the rules that need no Secret. [`compile()`] follows
//! references and makes the plan's output.

mod certificate;

pub use certificate::expires as certificate_expires;
mod compile;
mod endpoint;
mod headers;
pub(crate) mod tls;

use weir_plan::{Compression, Protocol};

use crate::diagnostic::{Diagnostic, Place};
use crate::document::{Fields, Located, Node, Version};
use crate::kinds::fields::{OAUTH2_IN_PLAIN_TEXT, PATH_WITH_GRPC};
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
    /// Nothing when what is written is no compression.
    compression: Option<Compression>,
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
        let endpoint = fields.required("endpoint").map_or(Value::Invalid, |node| Value::decode(&node));
        let protocol = fields.choice("protocol", &PROTOCOLS);
        let path = fields.optional("path").and_then(|node| node.string()).filter(|path| !path.value.is_empty());
        let compression = fields.choice("compression", &COMPRESSIONS);
        let headers = fields.optional("headers").map(|node| headers::decode(&node));
        let authentication = fields.optional("authentication").map(|node| decode_authentication(&node));
        let (basic, oauth2) = authentication.unwrap_or_default();
        let tls = Tls::take(fields);
        let headers = headers.unwrap_or_default();
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
            let message = PATH_WITH_GRPC.message;
            node.findings().push(Diagnostic::error(&path.place, message).value(&path.value).expected("protocol: http"));
        }
        if self.oauth2.is_some()
            && let Some(insecure) = &self.tls.insecure
        {
            let message = OAUTH2_IN_PLAIN_TEXT.message;
            node.findings().push(Diagnostic::error(insecure, message).value("true").expected("false"));
        }
    }
}

fn decode_authentication(node: &Node<'_>) -> (Option<Basic>, Option<OAuth2>) {
    let Some(mut fields) = node.fields() else { return (None, None) };
    let basic = fields.optional("basic");
    let oauth2 = fields.optional("oauth2");
    fields.finish();
    (basic.and_then(|node| decode_basic(&node)), oauth2.and_then(|node| decode_oauth2(&node)))
}

fn decode_basic(node: &Node<'_>) -> Option<Basic> {
    let mut fields = node.fields()?;
    let mut part = |key| fields.required(key).map_or(Value::Invalid, |node| Value::decode(&node));
    let (user, password) = (part("user"), part("password"));
    fields.finish();
    // The older version accepts a half-written login and then sends none.
    if node.version() == Version::V1Alpha1 && (user.is_unset() || password.is_unset()) {
        let message = "basic authentication is not used: 'user' and 'password' must have 'value' or 'valueFrom' set";
        node.findings().push(Diagnostic::warning(&node.place(), message, "both of them, or no authentication.basic"));
        return None;
    }
    Some(Basic { user, password, place: node.place() })
}

fn decode_oauth2(node: &Node<'_>) -> Option<OAuth2> {
    let mut fields = node.fields()?;
    let mut part = |key| fields.required(key).map_or(Value::Invalid, |node| Value::decode(&node));
    let (token_url, client_id, client_secret) = (part("tokenURL"), part("clientID"), part("clientSecret"));
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
