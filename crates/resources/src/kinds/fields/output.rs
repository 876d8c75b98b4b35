//! Fields of outputs, and of values wherever they stand.

use super::{FILLED, STRING};
use crate::document::table::Type::{Boolean, Formed, List, Map, OneOf, Text};
use crate::document::table::{Clash, Field, Form, Group, Object, Older, Rule, Term, Type, Version, Written, names};
use crate::kinds::output::{COMPRESSIONS, PROTOCOLS};
use crate::kinds::pipeline::{COMPRESSIONS as HTTP_COMPRESSIONS, FORMATS};

pub(super) const OTLP: Object = Object::named("[output](#specoutputotlp)", &[OTLP_FIELDS]).clashes(OTLP_CLASHES);

/// What does not go together in an OTLP output.
pub(super) const OTLP_CLASHES: &[Clash] = &[PATH_WITH_GRPC, OAUTH2_IN_PLAIN_TEXT];
pub(crate) const PATH_WITH_GRPC: Clash =
    Clash::new(&[Term::Given("path"), Term::Is("protocol", "grpc")], "Path is only available with HTTP protocol");
pub(crate) const OAUTH2_IN_PLAIN_TEXT: Clash = Clash::new(
    &[Term::Given("authentication.oauth2"), Term::Is("protocol", "grpc"), Term::True("tls.insecure")],
    "OAuth2 authentication requires TLS when using gRPC protocol",
);

pub(super) const OTLP_FIELDS: &[Field] = &[
    Field::new("endpoint", Type::Object(&NEEDED_ADDRESS), "[Address](#endpoint) of the backend.").required(),
    Field::new("protocol", OneOf("protocol", &names(&PROTOCOLS)), "OTLP/gRPC, or OTLP/HTTP with protobuf bodies.")
        .default("grpc")
        .written(Written::Default),
    Field::new(
        "path",
        STRING,
        "Request path, only with `protocol: http`. It takes the place of the default and, like it, is appended to a path \
         in `endpoint`. It may have a query.",
    )
    .default_in_words("`/v1/traces`, `/v1/metrics`, `/v1/logs`"),
    Field::new("compression", OneOf("compression", &names(&COMPRESSIONS)), "How request bodies are compressed.")
        .default("gzip")
        .older(Older::Missing),
    Field::new("headers", List(&Type::Object(&HEADER)), "Extra request headers.").secret(),
    Field::new("authentication", Type::Object(&AUTHENTICATION), "Who sends.").secret(),
    Field::new("tls", Type::Object(&TLS), "Transport security.").default_in_words("verified TLS"),
];

/// A value that may be left out.
pub(super) const VALUE: Object =
    Object::named("[value](#values)", &[VALUE_FIELDS]).groups(&[ONE_VALUE, ONE_VALUE_OLDER]);
/// A value without which nothing works.
const NEEDED_VALUE: Object = VALUE.groups(&[ONE_VALUE, ONE_VALUE_OLDER, GIVEN]);
/// The same, where the older version says it in other words.
const NEEDED_ADDRESS: Object = VALUE.groups(&[ONE_VALUE, ONE_VALUE_OLDER, GIVEN.only(Version::V1Beta1), GIVEN_OLDER]);
/// A value that the older version can do without.
const CREDENTIAL: Object = VALUE.groups(&[ONE_VALUE, ONE_VALUE_OLDER, GIVEN.only(Version::V1Beta1)]);

const EITHER: &[&str] = &["value", "valueFrom"];
const ONE_VALUE: Group =
    Group::new(Rule::AtMostOne, EITHER, "Only one of 'value' or 'valueFrom' can be set").only(Version::V1Beta1);
const ONE_VALUE_OLDER: Group = ONE_VALUE.only(Version::V1Alpha1).empty_is_missing();
const GIVEN: Group = Group::new(Rule::AtLeastOne, EITHER, "'{field}' must have 'value' or 'valueFrom' set");
const GIVEN_TO_HEADER: Group =
    Group::new(Rule::AtLeastOne, EITHER, "Header must have 'value' or 'valueFrom' set").only(Version::V1Beta1);
const GIVEN_OLDER: Group = Group::new(Rule::AtLeastOne, EITHER, "failed to resolve value").only(Version::V1Alpha1);

const VALUE_FIELDS: &[Field] = &[TEXT_ITSELF, KEPT_ELSEWHERE];
const TEXT_ITSELF: Field = Field::new("value", STRING, "The text itself.");
const KEPT_ELSEWHERE: Field = Field::new("valueFrom", Type::Object(&VALUE_FROM), "Where the text is kept.").public();

/// Of the server for tokens.
const TOKEN_URL: Object =
    Object { fields: &[&[Field { of: Formed(&URL), ..TEXT_ITSELF }, KEPT_ELSEWHERE]], ..NEEDED_VALUE };
const URL: Form = Form::new("string").rule("self == '' || isURL(self)", NO_TOKEN_URL);
/// What is reported of an address of that server that is none.
pub(crate) const NO_TOKEN_URL: &str = "'tokenURL' must be a valid URL";

pub(super) const VALUE_FROM: Object = Object::named(
    "[reference](#values)",
    &[&[Field::new("secretKeyRef", Type::Object(&SECRET_KEY_REF), "A key of a [Secret](#secret).").required()]],
);

const SECRET_KEY_REF: Object = Object::plain(&[&[
    Field::new("name", FILLED, "The Secret.").required(),
    Field::new("namespace", FILLED, "Its namespace.").required(),
    Field::new("key", FILLED, "The key in it.").required(),
]]);

pub(super) const HEADER: Object = Object::named(
    "[header](#headers)",
    &[
        &[
            Field::new(
                "name",
                FILLED,
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
)
.groups(&[ONE_VALUE, ONE_VALUE_OLDER, GIVEN_TO_HEADER, GIVEN_OLDER]);

pub(super) const AUTHENTICATION: Object = Object::named(
    "[authentication](#authentication)",
    &[&[
        Field::new("basic", Type::Object(&BASIC), "User and password."),
        Field::new("oauth2", Type::Object(&OAUTH2), "Client credentials (RFC 6749 4.4)."),
    ]],
)
.groups(&[Group::new(Rule::AtMostOne, &["basic", "oauth2"], "Only one authentication method can be specified")]);

const BASIC: Object = Object::plain(&[&[
    Field::new("user", Type::Object(&CREDENTIAL), "Sent as `authorization: Basic ...`. It must not contain `:`.")
        .required(),
    Field::new("password", Type::Object(&CREDENTIAL), "Sent with it.").required(),
]]);

const OAUTH2: Object = Object::plain(&[&[
    Field::new(
        "tokenURL",
        Type::Object(&TOKEN_URL),
        "Where tokens are fetched, an absolute `http://` or `https://` URL.",
    )
    .required()
    .public(),
    Field::new("clientID", Type::Object(&NEEDED_VALUE), "Who asks for tokens.").required(),
    Field::new("clientSecret", Type::Object(&NEEDED_VALUE), "What proves it.").required(),
    Field::new("scopes", List(&STRING), "Scopes to ask for.").public(),
    Field::new("params", Map(&STRING), "Further parameters of the token request."),
]]);

pub(super) const TLS: Object =
    Object::named("[TLS](#tls)", &[&[INSECURE, SKIP_VERIFY], CERTIFICATES]).groups(&[IDENTITY]);

const IDENTITY: Group =
    Group::new(Rule::AllOrNone, &["cert", "key"], "Can define either both 'cert' and 'key', or neither")
        .empty_is_missing();

const INSECURE: Field = Field::new(
    "insecure",
    Boolean,
    "Send plain text. Without effect, with a warning, when the endpoint starts with `https://`, which is never weakened.",
)
.default_is(false);

const SKIP_VERIFY: Field =
    Field::new("insecureSkipVerify", Boolean, "Accept any server certificate.").default_is(false);

const CERTIFICATES: &[Field] = &[
    Field::new("ca", Type::Object(&VALUE), "PEM certificates that replace the system's roots.")
        .default_in_words("the system's roots")
        .secret(),
    Field::new(
        "cert",
        Type::Object(&VALUE),
        "PEM certificate chain (X.509 of any version) for mutual TLS. One text with the chain and the key may be given for \
         both.",
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
pub(super) const HTTP: Object = Object::named(
    "[server](#fluent-bit)",
    &[&[
        Field::new("host", Type::Object(&NEEDED_ADDRESS), "A host name or an IPv4 address, without a port.").required(),
        Field::new("user", Type::Object(&VALUE), "For basic authentication. It must not contain `:`.").secret(),
        Field::new("password", Type::Object(&VALUE), "For basic authentication.").default_in_words("empty").secret(),
        Field::new("uri", Formed(&Form::new("path").pattern("^/.*$")), "It starts with `/`, and may have a query.")
            .default("/"),
        Field::new("port", Text("`1` to `65535`"), "Its port.").default("443"),
        Field::new("compress", OneOf("compression", &names(&HTTP_COMPRESSIONS)), "How request bodies are compressed.")
            .default("none"),
        Field::new("format", OneOf("format", &names(&FORMATS)), "How [records](outputs.md#fluent-bit) are written.")
            .default("json"),
        Field::new("dedot", Boolean, "Dots and slashes in the keys of labels and annotations become `_`.")
            .default_is(false),
        Field::new("tls", Type::Object(&HTTP_TLS), "Transport security.").default_in_words("verified TLS"),
    ]],
);

const HTTP_TLS: Object = Object::named(
    "[TLS](#tls)",
    &[
        &[INSECURE.older(Older::Named("disabled")), SKIP_VERIFY.older(Older::Named("skipCertificateValidation"))],
        CERTIFICATES,
    ],
)
.groups(&[IDENTITY]);
