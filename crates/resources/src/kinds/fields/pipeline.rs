//! Fields of pipelines.

use super::output::{HTTP, OTLP, OTLP_CLASHES, OTLP_FIELDS, VALUE_FROM};
use super::{API_VERSION, FILLED, KIND, LABELS, NAME, SERVER, STATUS, STRING};
use super::{annotations, metadata, namespace};
use crate::document::table::Type::{Boolean, Formed, List, OneOf, Text};
use crate::document::table::{Clash, Field, Form, Group, Object, Older, Rule, Term, Type, Version, Written, names};
use crate::kinds::pipeline::{NATIVE_HISTOGRAMS, NOISE_FILTER, OVERFLOWS, TEMPORALITIES};

pub(crate) const TRACE_PIPELINE: Object =
    Object::plain(&[&[API_VERSION, KIND, metadata(&METADATA), spec(&TRACE_SPEC), STATUS]]);
pub(crate) const METRIC_PIPELINE: Object =
    Object::plain(&[&[API_VERSION, KIND, metadata(&METADATA), spec(&METRIC_SPEC), STATUS]]);
pub(crate) const LOG_PIPELINE: Object =
    Object::plain(&[&[API_VERSION, KIND, metadata(&METADATA), spec(&LOG_SPEC), STATUS]]);

const METADATA: Object = Object::plain(&[
    &[NAME, namespace("Without effect, with a warning: pipelines have none."), LABELS, annotations(&ANNOTATIONS)],
    SERVER,
]);

const fn spec(object: &'static Object) -> Field {
    Field::new("spec", Type::Object(object), "").required()
}

const fn switch(name: &'static str, default: bool, about: &'static str) -> Field {
    Field::new(name, Boolean, about).default_is(default).written(Written::Default)
}

/// Beside an OTLP output it must not be written, not even as it is by default.
const fn legacy_switch(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Boolean, about).default_in_words("`false`")
}

pub(super) const ANNOTATIONS: Object = Object::named("[annotations](#annotations)", &[&[
        Field::new(
            "weir.dev/istio-noise-filter",
            OneOf("state of the noise filter", &names(&NOISE_FILTER)),
            "Whether telemetry about the traffic of telemetry is [left out](#noise-of-a-service-mesh).",
        )
        .default("enabled")
        .public(),
        Field::new(
            "weir.dev/oauth2-ca",
            Text("`NAMESPACE/NAME/KEY`"),
            "A key of a Secret with the PEM certificates that the server of `tokenURL` is verified against. They are \
             checked like [`tls.ca`](#tls).",
        )
        .default_in_words("the system's roots")
        .public(),
        Field::new(
            "weir.dev/multiline",
            Text("`java`, `python`, `go`, `ruby`, `dotnet`; several with commas"),
            "Only of a LogPipeline, and of pods: stack traces of these languages become \
             [one record](logs.md#stack-traces) each.",
        )
        .public(),
        Field::new(
            "weir.dev/static-targets",
            Text("addresses with commas between them"),
            "Only of a MetricPipeline with `input.prometheus.enabled`: pages of metrics that are \
             [scraped](metrics-agent.md), for example `http://localhost:9100/metrics`.",
        )
        .public(),
        Field::new(
            "weir.dev/native-histograms",
            OneOf("state of native histograms", &names(&NATIVE_HISTOGRAMS)),
            "Only of a MetricPipeline with `input.prometheus.enabled`: whether targets are asked for pages with \
             [native histograms](metrics-agent.md#native-histograms).",
        )
        .default("false")
        .public(),
        Field::new(
            "weir.dev/backlog-max-bytes",
            Text("[size](#sizes-and-durations), `1Mi` to `1Ei`"),
            "The most payload bytes that may wait for this backend. Data that waits for several backends is on disk once \
             and counts for each of them.",
        )
        .default("10Gi")
        .public(),
        Field::new(
            "weir.dev/backlog-max-age",
            Text("[duration](#sizes-and-durations), `1s` to `3650d`"),
            "Data that has waited longer is dropped and counted.",
        )
        .default("24h")
        .public(),
        Field::new(
            "weir.dev/backlog-overflow",
            OneOf("policy for overflow", &names(&OVERFLOWS)),
            "What happens at the limit in bytes. `drop_oldest`: the oldest data of this pipeline makes room and is counted \
             as dropped, unless this pipeline makes progress and all others are behind, too \
             ([when](gateway.md#when-a-client-gets-ok)). `refuse`: nothing is dropped, and clients are asked to send again \
             later, which all pipelines notice; an empty backlog takes any request.",
        )
        .default("drop_oldest")
        .public(),
    ]]).open();

const TRACE_SPEC: Object = Object::plain(&[&[Field::new("output", Type::Object(&TRACE_OUTPUT), "").required()], RULES]);
const TRACE_OUTPUT: Object = Object::plain(&[&[Field::new("otlp", Type::Object(&OTLP), "The backend.").required()]]);

const METRIC_SPEC: Object = Object::plain(&[
    &[
        Field::new("input", Type::Object(&METRIC_INPUT), "").written(Written::Mapping),
        Field::new("output", Type::Object(&METRIC_OUTPUT), "").required(),
    ],
    RULES,
]);
const METRIC_OUTPUT: Object =
    Object::plain(&[&[Field::new("otlp", Type::Object(&OTLP_OF_METRICS), "The backend.").required()]]);
/// Of a MetricPipeline.
pub(super) const OTLP_OF_METRICS: Object = Object::named(
    OTLP.name,
    &[
        OTLP_FIELDS,
        &[Field::new(
            "temporality",
            OneOf("temporality", &names(&TEMPORALITIES)),
            "Only in a MetricPipeline: `delta` turns cumulative sums and histograms into deltas.",
        )
        .default("preserve")
        .written(Written::DefaultInSchema)],
    ],
)
.clashes(OTLP_CLASHES);

const RULES: &[Field] = &[
    Field::new(
        "transform",
        List(&Type::Object(&TRANSFORM)),
        "Changes what passes. In a LogPipeline only with `output.otlp`.",
    ),
    Field::new(
        "filter",
        List(&Type::Object(&FILTER)),
        "Drops some of what passes. In a LogPipeline only with `output.otlp`.",
    ),
];
pub(super) const TRANSFORM: Object = Object::named(
    "[transform](#transform-and-filter)",
    &[&[
        Field::new("conditions", List(&Text("OTTL condition")), "The statements run for an item if one of them holds.")
            .default_in_words("always"),
        Field::new("statements", List(&Text("OTTL statement")), "Run in this order."),
    ]],
);
pub(super) const FILTER: Object = Object::named(
    "[filter](#transform-and-filter)",
    &[&[Field::new("conditions", List(&Text("OTTL condition")), "An item is dropped if one of them holds.")]],
);

const OTLP_INPUT_FIELD: Field = Field::new(
    "otlp",
    Type::Object(&OTLP_INPUT),
    "Which of the telemetry that clients push is taken. A TracePipeline takes all of it. In a LogPipeline only with `output.otlp`.",
)
.default_in_words("everything")
.written(Written::Mapping);
pub(super) const OTLP_INPUT: Object = Object::named("[OTLP input](#specinputotlp)", &[&[
        switch(
            "enabled",
            true,
            "`false` takes nothing that is pushed. If that is so in all pipelines of a signal, clients that send it [are \
             refused](gateway.md#limits-and-what-exceeding-them-is-answered); the Kyma Telemetry module accepts what they \
             send and drops it.",
        )
        .older(Older::Opposite("disabled")),
        Field::new("namespaces", Type::Object(&NAMESPACES), "Telemetry of these, by `k8s.namespace.name`.")
            .default_in_words("all")
            .written(Written::Mapping),
    ]]);

/// Who selects namespaces.
pub(super) const NAMESPACES: Object =
    Object::named("[namespaces](#namespaces)", &[NAMESPACE_FIELDS]).groups(&[INCLUDE_OR_EXCLUDE]);
const NAMESPACE_FIELDS: &[Field] = &[
    Field::new("include", List(&Formed(&NAMESPACE)), "Only these."),
    Field::new("exclude", List(&Formed(&NAMESPACE)), "All but these."),
];
const NAMESPACE: Form = Form::new("namespace").length(0, Some(63)).pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");

const INCLUDE_OR_EXCLUDE: Group =
    Group::new(Rule::AtMostOne, &["include", "exclude"], "Only one of 'include' or 'exclude' can be defined");
const INCLUDE_EXCLUDE_OR_SYSTEM: Group = Group::new(
    Rule::AtMostOne,
    &["include", "exclude", "system"],
    "Only one of 'include', 'exclude' or 'system' can be defined",
)
.only(Version::V1Alpha1);

const METRIC_INPUT: Object = Object::plain(&[&[
    Field::new("prometheus", Type::Object(&PROMETHEUS), "Scrapes annotated pods and services.").default_in_words("off"),
    Field::new("istio", Type::Object(&ISTIO), "Scrapes Istio's proxies.").default_in_words("off"),
    Field::new(
        "runtime",
        Type::Object(&RUNTIME_METRICS),
        "Collects [metrics of nodes and workloads](runtime-metrics.md).",
    )
    .default_in_words("off"),
    OTLP_INPUT_FIELD,
]]);
const METRICS_ARE_PULLED: &str = "[input](#inputs-of-a-metricpipeline)";
const PULLED: &[Field] = &[
    switch("enabled", false, "Whether it is on."),
    Field::new("namespaces", Type::Object(&NAMESPACES), "From where.")
        .default_in_words("all but the system's")
        .written(Written::AllButSystem),
];
const DIAGNOSTIC_METRICS: Field =
    Field::new("diagnosticMetrics", Type::Object(&DIAGNOSTIC), "").written(Written::Mapping);
const DIAGNOSTIC: Object = Object::plain(&[&[switch("enabled", false, "Metrics about the scrape itself.")]]);
pub(super) const PROMETHEUS: Object =
    Object::named(METRICS_ARE_PULLED, &[PULLED, &[DIAGNOSTIC_METRICS]]).switched_by("enabled");
pub(super) const ISTIO: Object = Object::named(
    METRICS_ARE_PULLED,
    &[PULLED, &[DIAGNOSTIC_METRICS, Field::new("envoyMetrics", Type::Object(&ENVOY), "").written(Written::Mapping)]],
)
.switched_by("enabled");
const ENVOY: Object = Object::plain(&[&[switch("enabled", false, "Metrics whose names start with `envoy_`.")]]);
pub(super) const RUNTIME_METRICS: Object = Object::named(
    METRICS_ARE_PULLED,
    &[
        PULLED,
        &[
            Field::new("resources", Type::Object(&RESOURCES), "").written(Written::Mapping),
            Field::new(
                "additionalMetrics",
                List(&Text("[metric name](#metrics-of-the-runtime-input)")),
                "More metrics, by name. Checked when `runtime` is enabled.",
            ),
        ],
    ],
)
.switched_by("enabled");
const RESOURCES: Object = Object::plain(&[&[
    resource("pod"),
    resource("container"),
    resource("node"),
    resource("volume"),
    resource("daemonset"),
    resource("deployment"),
    resource("statefulset"),
    resource("job"),
]]);
const fn resource(name: &'static str) -> Field {
    Field::new(name, Type::Object(&RESOURCE), "").written(Written::Mapping)
}
const RESOURCE: Object = Object::plain(&[&[switch("enabled", true, "Whether it is reported on.")]]);

const LOG_SPEC: Object = Object::plain(&[
    &[
        Field::new("input", Type::Object(&LOG_INPUT), "").written(Written::Mapping),
        Field::new(
            "filters",
            List(&Type::Object(&FLUENT_BIT_FILTER)),
            "Filters of Fluent Bit, [as far as they are supported](fluent-bit.md). Only without `output.otlp`. Deprecated.",
        ),
        Field::new(
            "files",
            List(&Type::Object(&FILE)),
            "Files that `output.custom` may name as `/files/NAME`. Only without `output.otlp`. Deprecated.",
        ),
        Field::new(
            "variables",
            List(&Type::Object(&VARIABLE)),
            "Values of Secrets that filters and `output.custom` may name as `${NAME}`. Only without `output.otlp`. Deprecated.",
        ),
        Field::new("output", Type::Object(&LOG_OUTPUT), "").required(),
    ],
    RULES,
])
.clashes(LOG_CLASHES);

const OTLP_OUTPUT: Term = Term::Given("output.otlp");
const NO_OTLP_OUTPUT: Term = Term::Missing("output.otlp");
/// What only Fluent Bit has beside an OTLP output, and the other way round.
const LOG_CLASHES: &[Clash] = &[
    Clash::new(
        &[Term::Given("input.runtime.dropLabels"), OTLP_OUTPUT],
        "input.runtime.dropLabels is not supported with otlp output",
    )
    .only(Version::V1Beta1),
    Clash::new(
        &[Term::Given("input.runtime.keepAnnotations"), OTLP_OUTPUT],
        "input.runtime.keepAnnotations is not supported with otlp output",
    )
    .only(Version::V1Beta1),
    Clash::new(
        &[Term::Given("input.runtime.dropLabels"), OTLP_OUTPUT],
        "input.application.dropLabels is not supported with otlp output",
    )
    .only(Version::V1Alpha1),
    Clash::new(
        &[Term::Given("input.runtime.keepAnnotations"), OTLP_OUTPUT],
        "input.application.keepAnnotations is not supported with otlp output",
    )
    .only(Version::V1Alpha1),
    Clash::new(&[Term::Given("filters"), OTLP_OUTPUT], "filters are not supported with otlp output"),
    Clash::new(&[Term::Given("files"), OTLP_OUTPUT], "files not supported with otlp output"),
    Clash::new(&[Term::Given("variables"), OTLP_OUTPUT], "variables not supported with otlp output"),
    Clash::new(&[Term::Given("input.otlp"), NO_OTLP_OUTPUT], "otlp input is only supported with otlp output"),
    Clash::new(&[Term::Given("transform"), NO_OTLP_OUTPUT], "transform is only supported with otlp output"),
    Clash::new(&[Term::Given("filter"), NO_OTLP_OUTPUT], "filter is only supported with otlp output"),
];

/// What is reported of a field of a LogPipeline's `spec`, by its path, if it does not go with the output.
pub(crate) fn log_clash(path: &str, version: Version) -> &'static str {
    let is_about = |clash: &&Clash| matches!(clash.terms.first(), Some(Term::Given(given)) if *given == path);
    LOG_SPEC.clashes_in(version).find(is_about).map_or("", |clash| clash.message)
}

/// What is reported of a change of a LogPipeline from an OTLP output to another, or back.
pub(crate) const OUTPUT_SWITCHED: &str =
    "Switching to or away from OTLP output is not supported. Please re-create the LogPipeline instead";

const LOG_OUTPUT: Object = Object::plain(&[&[
    Field::new(
        "custom",
        STRING,
        "An output of Fluent Bit, [as far as it is supported](fluent-bit.md): a section with a `name`, without `match` and \
         `storage.total_limit_size`. Deprecated.",
    )
    .secret(),
    Field::new("http", Type::Object(&HTTP), "A server that gets records as Fluent Bit sends them. Deprecated."),
    Field::new("otlp", Type::Object(&OTLP), "The backend."),
]]).groups(&[Group::new(
    Rule::ExactlyOne,
    &["custom", "http", "otlp"],
    "Exactly one output out of 'custom', 'http' or 'otlp' must be defined",
)])
.keeping("otlp", OUTPUT_SWITCHED);
const FLUENT_BIT_FILTER: Object = Object::named(
    "[filter section](#fluent-bit)",
    &[&[Field::new(
        "custom",
        STRING,
        "A section with a `name` that is neither `kubernetes` nor `rewrite_tag`, without `match`.",
    )
    .secret()]],
);
const FILE: Object = Object::named(
    "[file](#fluent-bit)",
    &[&[
        Field::new("name", FILLED, "Unique.").required(),
        Field::new("content", FILLED, "What is in it.").required().secret(),
    ]],
);
const VARIABLE: Object = Object::named(
    "[variable](#fluent-bit)",
    &[&[
        Field::new("name", FILLED, "Its name.").required(),
        Field::new("valueFrom", Type::Object(&VALUE_FROM), "Where its value is kept.").required(),
    ]],
);

const LOG_INPUT: Object = Object::plain(&[&[
    Field::new(
        "runtime",
        Type::Object(&CONTAINER_LOGS),
        "Reads [what containers print](logs.md), on a machine that has their files.",
    )
    .default_in_words("on")
    .older(Older::Named("application"))
    .written(Written::Mapping),
    OTLP_INPUT_FIELD,
]]);
pub(super) const CONTAINER_LOGS: Object = Object::named(
    "[input](#inputs-of-a-logpipeline)",
    &[&[
        switch("enabled", true, "Whether it is on."),
        Field::new("namespaces", Type::Object(&NAMESPACES_OF_LOGS), "From where.")
            .default_in_words("all but the system's")
            .written(Written::AllButSystem),
        Field::new("containers", Type::Object(&CONTAINERS), ""),
        switch("keepOriginalBody", true, "Whether a line that is JSON is kept beside what is read from it."),
        legacy_switch("dropLabels", "Leaves out the labels of pods. Only without `output.otlp`. Deprecated."),
        legacy_switch("keepAnnotations", "Adds the annotations of pods. Only without `output.otlp`. Deprecated."),
    ]],
);
const NAMESPACES_OF_LOGS: Object = Object::named(
    NAMESPACES.name,
    &[
        NAMESPACE_FIELDS,
        &[Field::new("system", Boolean, "All namespaces, those of the system included.").older(Older::Only)],
    ],
)
.groups(&[INCLUDE_OR_EXCLUDE.only(Version::V1Beta1), INCLUDE_EXCLUDE_OR_SYSTEM]);
const CONTAINERS: Object = Object::plain(&[&[
    Field::new("include", List(&Text("name")), "Only these containers."),
    Field::new("exclude", List(&Text("name")), "All but these."),
]])
.groups(&[INCLUDE_OR_EXCLUDE]);
