//! Fields of outputs, and of values wherever they stand.

use super::{STRING, plain};
use crate::document::table::Type::{Boolean, List, Map, OneOf, Text};
use crate::document::table::{Field, Object, Older, Type, names};
use crate::kinds::output::{COMPRESSIONS, PROTOCOLS};
use crate::kinds::pipeline::{COMPRESSIONS as HTTP_COMPRESSIONS, FORMATS};

pub(super) const OTLP: Object = Object { name: "[output](#specoutputotlp)", fields: &[OTLP_FIELDS] };

pub(super) const OTLP_FIELDS: &[Field] = &[
    Field::new("endpoint", Type::Object(&VALUE), "[Address](#endpoint) of the backend.").required(),
    Field::new("protocol", OneOf("protocol", &names(&PROTOCOLS)), "OTLP/gRPC, or OTLP/HTTP with protobuf bodies.")
        .default("`grpc`"),
    Field::new(
        "path",
        STRING,
        "Request path, only with `protocol: http`. It takes the place of the default and, like it, is appended to a path \
         in `endpoint`. It may have a query.",
    )
    .default("`/v1/traces`, `/v1/metrics`, `/v1/logs`"),
    Field::new("compression", OneOf("compression", &names(&COMPRESSIONS)), "How request bodies are compressed.")
        .default("`gzip`")
        .older(Older::Missing),
    Field::new("headers", List(&Type::Object(&HEADER)), "Extra request headers.").secret(),
    Field::new("authentication", Type::Object(&AUTHENTICATION), "Who sends.").secret(),
    Field::new("tls", Type::Object(&TLS), "Transport security.").default("verified TLS"),
];

pub(super) const VALUE: Object = Object { name: "[value](#values)", fields: &[VALUE_FIELDS] };

const VALUE_FIELDS: &[Field] = &[
    Field::new("value", STRING, "The text itself."),
    Field::new("valueFrom", Type::Object(&VALUE_FROM), "Where the text is kept. Not beside `value`.").public(),
];

pub(super) const VALUE_FROM: Object = Object {
    name: "[reference](#values)",
    fields: &[&[Field::new("secretKeyRef", Type::Object(&SECRET_KEY_REF), "A key of a [Secret](#secret).").required()]],
};

const SECRET_KEY_REF: Object = plain(&[&[
    Field::new("name", STRING, "The Secret.").default("required"),
    Field::new("namespace", STRING, "Its namespace.").default("required"),
    Field::new("key", STRING, "The key in it.").default("required"),
]]);

pub(super) const HEADER: Object = Object {
    name: "[header](#headers)",
    fields: &[
        &[
            Field::new(
                "name",
                STRING,
                "An HTTP header name, in any case. Not one that the transport sets itself: `connection`, \
                 `content-encoding`, `content-length`, `content-type`, `host`, `keep-alive`, `proxy-connection`, `te`, \
                 `transfer-encoding`, `upgrade`, `grpc-*`. Unique.",
            )
            .required()
            .public(),
            Field::new("prefix", STRING, "Sent before the value, with a space between."),
        ],
        VALUE_FIELDS,
    ],
};

pub(super) const AUTHENTICATION: Object = Object {
    name: "[authentication](#authentication)",
    fields: &[&[
        Field::new("basic", Type::Object(&BASIC), "User and password."),
        Field::new("oauth2", Type::Object(&OAUTH2), "Client credentials (RFC 6749 4.4). Not beside `basic`."),
    ]],
};

const BASIC: Object = plain(&[&[
    Field::new("user", Type::Object(&VALUE), "Sent as `authorization: Basic ...`. It must not contain `:`.").required(),
    Field::new("password", Type::Object(&VALUE), "Sent with it.").required(),
]]);

const OAUTH2: Object = plain(&[&[
    Field::new("tokenURL", Type::Object(&VALUE), "Where tokens are fetched, an absolute `http://` or `https://` URL.")
        .required()
        .public(),
    Field::new("clientID", Type::Object(&VALUE), "Who asks for tokens.").required(),
    Field::new("clientSecret", Type::Object(&VALUE), "What proves it.").required(),
    Field::new("scopes", List(&STRING), "Scopes to ask for.").public(),
    Field::new("params", Map(&STRING), "Further parameters of the token request."),
]]);

pub(super) const TLS: Object = Object { name: "[TLS](#tls)", fields: &[&[INSECURE, SKIP_VERIFY], CERTIFICATES] };

const INSECURE: Field = Field::new(
    "insecure",
    Boolean,
    "Send plain text. Without effect, with a warning, when the endpoint starts with `https://`, which is never weakened.",
)
.default("`false`");

const SKIP_VERIFY: Field =
    Field::new("insecureSkipVerify", Boolean, "Accept any server certificate.").default("`false`");

const CERTIFICATES: &[Field] = &[
    Field::new("ca", Type::Object(&VALUE), "PEM certificates that replace the system's roots.")
        .default("the system's roots")
        .secret(),
    Field::new(
        "cert",
        Type::Object(&VALUE),
        "PEM certificate chain (X.509 of any version) for mutual TLS. Both this and `key`, or neither; one text with both \
         may be given for each.",
    )
    .secret(),
    Field::new(
        "key",
        Type::Object(&VALUE),
        "PEM private key (PKCS #8, PKCS #1 or SEC 1, not encrypted) for it: RSA with 2048 to 4096 bits, ECDSA with P-256 or \
         P-384, or Ed25519.",
    )
    .secret(),
];

/// `output.http`.
pub(super) const HTTP: Object = Object {
    name: "[server](#fluent-bit)",
    fields: &[&[
        Field::new("host", Type::Object(&VALUE), "A host name or an IPv4 address, without a port.").required(),
        Field::new("user", Type::Object(&VALUE), "For basic authentication. It must not contain `:`.").secret(),
        Field::new("password", Type::Object(&VALUE), "For basic authentication.").default("empty").secret(),
        Field::new("uri", Text("path"), "It starts with `/`, and may have a query.").default("`/`"),
        Field::new("port", Text("`1` to `65535`"), "Its port.").default("`443`"),
        Field::new("compress", OneOf("compression", &names(&HTTP_COMPRESSIONS)), "How request bodies are compressed.")
            .default("`none`"),
        Field::new("format", OneOf("format", &names(&FORMATS)), "How [records](outputs.md#fluent-bit) are written.")
            .default("`json`"),
        Field::new("dedot", Boolean, "Dots and slashes in the keys of labels and annotations become `_`.")
            .default("`false`"),
        Field::new("tls", Type::Object(&HTTP_TLS), "Transport security.").default("verified TLS"),
    ]],
};

const HTTP_TLS: Object = Object {
    name: "[TLS](#tls)",
    fields: &[
        &[INSECURE.older(Older::Named("disabled")), SKIP_VERIFY.older(Older::Named("skipCertificateValidation"))],
        CERTIFICATES,
    ],
};
