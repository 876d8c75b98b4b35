//! Every field of every kind. Documents are read and converted by this one table, and a test holds the reference
//! documentation against it. Fields of a cluster's objects, which are somebody else's, are not in it.

mod output;
mod pipeline;

use crate::document::table::Type::{Any, Count, Formed, List, Map, OneOf, Text};
use crate::document::table::{Field, Form, Group, Object, Rule, Type, names};
use crate::kinds::telemetry::SERVICE_ENRICHMENTS;

pub(crate) use output::{NO_TOKEN_URL, OAUTH2_IN_PLAIN_TEXT, PATH_WITH_GRPC};
pub(crate) use pipeline::{LOG_PIPELINE, METRIC_PIPELINE, OUTPUT_SWITCHED, TRACE_PIPELINE, log_clash};

const STRING: Type = Text("string");
/// A string that is not empty.
const FILLED: Type = Formed(&Form::new("string").length(1, None));
const INTERVAL: Type = Formed(
    &Form::new("[duration](#sizes-and-durations)").format("duration").rule("self > duration('0s')", NO_INTERVAL),
);
/// What is reported of an interval that is none.
pub(crate) const NO_INTERVAL: &str = "'collectionInterval' must be greater than 0";

const API_VERSION: Field = Field::new("apiVersion", STRING, "").required();
const KIND: Field = Field::new("kind", STRING, "").required();
const STATUS: Field = Field::new(
    "status",
    Any,
    "What an operator writes there. It becomes [metrics](runtime-metrics.md#status-of-resources), and configures nothing.",
);

/// An annotation may hold a copy of the whole object, secrets included.
const fn metadata(object: &'static Object) -> Field {
    Field::new("metadata", Type::Object(object), "").required().secret()
}

const NAME: Field = Field::new(
    "name",
    STRING,
    "At most 253 lower case letters, digits, `-` and `.`. Unique among documents of the kind; different kinds may share it.",
)
.required()
.public();

const fn namespace(about: &'static str) -> Field {
    Field::new("namespace", STRING, about).public()
}

const LABELS: Field = Field::new("labels", Map(&STRING), "Accepted and ignored.");

const fn annotations(object: &'static Object) -> Field {
    Field::new("annotations", Type::Object(object), "Those without a meaning here are accepted and ignored.")
}

/// What `kubectl get -o yaml` prints and configures nothing here.
const SERVER: &[Field] = &[
    Field::new("generateName", Any, ""),
    Field::new("uid", Any, ""),
    Field::new("resourceVersion", Any, ""),
    Field::new("generation", Any, ""),
    Field::new("creationTimestamp", Any, ""),
    Field::new("deletionTimestamp", Any, ""),
    Field::new("deletionGracePeriodSeconds", Any, ""),
    Field::new("finalizers", Any, ""),
    Field::new("managedFields", Any, ""),
    Field::new("ownerReferences", Any, ""),
    Field::new("selfLink", Any, ""),
];

pub(crate) const SECRET: Object = Object::plain(&[&[
    API_VERSION,
    KIND,
    metadata(&SECRET_METADATA),
    Field::new("data", Map(&Text("base64 text")), "Values in base64.").secret(),
    Field::new("stringData", Map(&STRING), "Values as plain text. A key here replaces the same key in `data`.")
        .secret(),
    Field::new("type", Any, "Accepted and ignored."),
    Field::new("immutable", Any, "Accepted and ignored."),
]]);
const SECRET_METADATA: Object = Object::plain(&[
    &[NAME, namespace("Part of the name.").default("default"), LABELS, annotations(&NO_ANNOTATIONS)],
    SERVER,
]);
const NO_ANNOTATIONS: Object = Object::plain(&[]).open();

/// As `kubectl get -o yaml` prints several documents.
pub(crate) const LIST: Object = Object::plain(&[&[
    API_VERSION,
    KIND,
    Field::new("items", List(&Any), "").required(),
    Field::new("metadata", Any, ""),
]]);

pub(crate) const TELEMETRY: Object = Object::plain(&[&[
    API_VERSION,
    KIND,
    metadata(&TELEMETRY_METADATA),
    Field::new("spec", Type::Object(&TELEMETRY_SPEC), ""),
    STATUS,
]]);
const TELEMETRY_METADATA: Object =
    Object::plain(&[&[NAME, namespace("Accepted and ignored."), LABELS, annotations(&TELEMETRY_ANNOTATIONS)], SERVER]);
const TELEMETRY_ANNOTATIONS: Object = Object::plain(&[&[Field::new(
    "telemetry.kyma-project.io/service-enrichment",
    OneOf("way to enrich services", &names(&SERVICE_ENRICHMENTS)),
    "How `service.*` attributes are found: as the OpenTelemetry conventions say, or `service.name` alone. **Without any \
     Telemetry document it is `otel`**, as in the one that the Kyma module ships.",
)
.default("kyma-legacy")
.public()]])
.open();

const TELEMETRY_SPEC: Object = Object::plain(&[&[
    Field::new("trace", Type::Object(&TELEMETRY_TRACE), ""),
    Field::new("log", Type::Object(&TELEMETRY_TRACE), ""),
    Field::new("metric", Type::Object(&TELEMETRY_METRIC), ""),
    Field::new("enrichments", Type::Object(&ENRICHMENTS), ""),
]]);
const TELEMETRY_TRACE: Object = Object::plain(&[GATEWAY]);
const TELEMETRY_METRIC: Object = Object::plain(&[
    GATEWAY,
    &[
        COLLECTION_INTERVAL,
        Field::new("runtime", Type::Object(&COLLECTION), ""),
        Field::new("prometheus", Type::Object(&COLLECTION), ""),
        Field::new("istio", Type::Object(&COLLECTION), ""),
    ],
]);
const COLLECTION: Object = Object::plain(&[&[COLLECTION_INTERVAL.default_in_words("that of all")]]);
const COLLECTION_INTERVAL: Field =
    Field::new("collectionInterval", INTERVAL, "How often metrics are fetched; more than 0.").default("30s");

const GATEWAY: &[Field] = &[Field::new("gateway", Type::Object(&SCALED), "")];
const SCALED: Object =
    Object::plain(&[&[Field::new("scaling", Type::Object(&SCALING), "Deprecated, without effect, with a warning.")]]);
const SCALING: Object = Object::plain(&[&[
    Field::new("type", OneOf("type of scaling", &["Static"]), ""),
    Field::new("static", Type::Object(&STATIC), ""),
]]);
const STATIC: Object = Object::plain(&[&[Field::new("replicas", Count, "")]]);

const ENRICHMENTS: Object = Object::plain(&[&[
    Field::new(
        "extractPodLabels",
        List(&Type::Object(&POD_LABELS)),
        "Labels of the sending pod that become `k8s.pod.label.<key>`.",
    ),
    Field::new("cluster", Type::Object(&CLUSTER), ""),
]]);
const POD_LABELS: Object = Object::plain(&[&[
    Field::new("key", STRING, "One label by its key."),
    Field::new("keyPrefix", STRING, "All labels whose keys start with this."),
]])
.groups(&[Group::new(Rule::ExactlyOne, &["key", "keyPrefix"], "Either 'key' or 'keyPrefix' must be specified")
    .empty_is_missing()]);
const CLUSTER: Object = Object::plain(&[&[Field::new("name", STRING, "`k8s.cluster.name`.")
    .default_in_words("address of the API server, [in a cluster](enrichment.md#what-is-added)")]]);
