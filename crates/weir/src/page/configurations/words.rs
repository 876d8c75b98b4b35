//! What pipelines and the process are told, in words. Nothing of what may be secret is in them.

use http::Uri;
use weir_plan::{
    Body, CollectionIntervals, Compression, ContainerLogs, Date, DateFormat, Enrichment, FluentBit, FluentBitFormat,
    Input, IstioInput, Overflow, Pipeline, Plan, PodLabels, PrometheusInput, RecordShape, RuntimeMetrics,
    RuntimeResource, Selector, ServiceEnrichment, Temporality,
};

use crate::tables::{bytes, time};

/// What a pipeline takes.
pub(super) fn inputs(input: &Input) -> Vec<String> {
    let Input { otlp, runtime, prometheus, istio, container_logs, drop_istio_noise: _ } = input;
    let mut all = Vec::new();
    if let Some(input) = otlp {
        all.push(from("OTLP", &input.namespaces));
    }
    if let Some(input) = container_logs {
        all.push(from("container logs", &input.namespaces) + &of_containers(&input.containers));
    }
    if let Some(input) = prometheus {
        let PrometheusInput { namespaces, diagnostic_metrics, static_targets, native_histograms } = input;
        all.push(from("Prometheus targets", namespaces));
        all.extend(static_targets.iter().map(|url| format!("the static target {}", address(url))));
        all.extend(if_so(*diagnostic_metrics, "diagnostic metrics of Prometheus targets"));
        all.extend(if_so(*native_histograms, "native histograms of Prometheus targets"));
    }
    if let Some(input) = istio {
        let IstioInput { namespaces, diagnostic_metrics, envoy_metrics } = input;
        all.push(from("Istio's proxies", namespaces));
        all.extend(if_so(*diagnostic_metrics, "diagnostic metrics of Istio's proxies"));
        all.extend(if_so(*envoy_metrics, "metrics of Envoy from Istio's proxies"));
    }
    if let Some(input) = runtime {
        all.push(from("nodes and workloads", &input.namespaces));
        all.extend(runtime_metrics(input.metrics).into_iter().flatten());
    }
    all
}

/// What else a pipeline is told.
pub(super) fn settings(of: &Pipeline) -> Vec<String> {
    let Pipeline { input, processing, output, backlog, .. } = of;
    let compression = match output.compression {
        Compression::None => "no compression",
        Compression::Gzip => "gzip",
        Compression::Snappy => "snappy",
        Compression::Zstd => "zstd",
    };
    let names: Vec<_> = output.headers.iter().map(|header| header.name.as_str()).collect();
    let tls = output.tls.as_ref();
    let overflow = match backlog.overflow {
        Overflow::DropOldest => "then its oldest data makes room",
        Overflow::Refuse => "then clients are asked to come again",
    };
    let all = [
        Some(compression.to_owned()),
        if_so(!names.is_empty(), &format!("headers {}", names.join(", "))),
        if_so(output.oauth2.is_some(), "OAuth2"),
        if_so(tls.is_some_and(|tls| tls.insecure_skip_verify), "any server certificate"),
        if_so(tls.is_some_and(|tls| tls.ca_pem.is_some()), "roots of its own"),
        if_so(tls.is_some_and(|tls| tls.identity.is_some()), "a client certificate"),
        if_so(processing.temporality == Temporality::Delta, "temporality delta"),
        if_so(!input.drop_istio_noise, "with the noise of Istio"),
        input.container_logs.as_ref().map(lines_of_containers),
        input.container_logs.as_ref().and_then(stack_traces),
        match &output.body {
            Body::Otlp => None,
            Body::FluentBit(settings) => Some(records(settings)),
        },
        Some(format!(
            "keeps {} for {} on the disk, {overflow}",
            bytes(backlog.max_bytes),
            time(backlog.max_age.as_secs())
        )),
    ];
    all.into_iter().flatten().collect()
}

/// What the process is told, whatever the pipeline: what the Telemetry says, with defaults where it says nothing.
pub(super) fn process(plan: &Plan) -> Vec<String> {
    let Enrichment { service, cluster_name, pod_labels } = &plan.enrichment;
    let CollectionIntervals { runtime, prometheus, istio } = plan.intervals;
    let service = match service {
        ServiceEnrichment::KymaLegacy => "kyma-legacy",
        ServiceEnrichment::Otel => "otel",
    };
    let mut all = vec![format!("service enrichment {service}")];
    all.extend(cluster_name.as_ref().map(|name| format!("cluster name {name}")));
    all.extend(pod_labels.iter().map(|labels| match labels {
        PodLabels::Key(key) => format!("pod label {key}"),
        PodLabels::Prefix(prefix) => format!("pod labels that begin with {prefix}"),
    }));
    let intervals = [("nodes and workloads", runtime), ("Prometheus targets", prometheus), ("Istio's proxies", istio)];
    all.extend(intervals.map(|(name, interval)| format!("{name} every {interval:?}")));
    all
}

fn if_so(is: bool, words: &str) -> Option<String> {
    is.then(|| words.to_owned())
}

fn from(name: &str, namespaces: &Selector) -> String {
    match namespaces {
        Selector::All => name.to_owned(),
        Selector::Only(names) => format!("{name} of {}", names.join(", ")),
        Selector::Except(names) => format!("{name} of all but {}", names.join(", ")),
    }
}

fn of_containers(containers: &Selector) -> String {
    match containers {
        Selector::All => String::new(),
        Selector::Only(names) => format!(" (containers {})", names.join(", ")),
        Selector::Except(names) => format!(" (all containers but {})", names.join(", ")),
    }
}

/// The address of a target without a user, a password and what a query says.
fn address(url: &str) -> String {
    let Ok(url) = url.parse::<Uri>() else { return "(no address)".to_owned() };
    let (scheme, host) = (url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default());
    let port = url.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    let query = if url.query().is_some() { "?..." } else { "" };
    format!("{scheme}://{host}{port}{}{query}", url.path())
}

/// Resources of which all metrics are taken, and the names of metrics beside them.
fn runtime_metrics(metrics: RuntimeMetrics) -> [Option<String>; 2] {
    let of = |resource: RuntimeResource| RuntimeMetrics::of(&[resource]);
    let is_whole = |resource: &RuntimeResource| of(*resource).names().all(|name| metrics.get(name).is_some());
    let whole: Vec<_> = RuntimeResource::ALL.into_iter().filter(is_whole).collect();
    let with_whole = RuntimeMetrics::of(&whole);
    let others: Vec<_> = metrics.names().filter(|name| with_whole.get(name).is_none()).collect();
    let whole: Vec<_> = whole.into_iter().map(resource).collect();
    let words = |what: &str, names: &[&str]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
    [words("metrics of resources", &whole), words("the metrics", &others)]
}

/// As users write it.
fn resource(of: RuntimeResource) -> &'static str {
    match of {
        RuntimeResource::Pod => "pod",
        RuntimeResource::Container => "container",
        RuntimeResource::Node => "node",
        RuntimeResource::Volume => "volume",
        RuntimeResource::DaemonSet => "daemonset",
        RuntimeResource::Deployment => "deployment",
        RuntimeResource::StatefulSet => "statefulset",
        RuntimeResource::Job => "job",
    }
}

fn lines_of_containers(of: &ContainerLogs) -> String {
    let words = match of.shape {
        RecordShape::Parsed { keep_original_body: true } => "JSON in container logs is read, and its text is kept",
        RecordShape::Parsed { keep_original_body: false } => "JSON in container logs is read, and its text is left out",
        RecordShape::Raw => "lines of container logs stay as they are",
    };
    words.to_owned()
}

fn stack_traces(of: &ContainerLogs) -> Option<String> {
    (!of.multiline.is_off()).then(|| format!("stack traces are joined of {}", of.multiline))
}

/// How records of Fluent Bit look.
fn records(of: &FluentBit) -> String {
    let FluentBit { to: _, format, date, kyma, dedot, labels, annotations, keep_original_body } = of;
    let format = match format {
        FluentBitFormat::Json => "json",
        FluentBitFormat::JsonLines => "json_lines",
        FluentBitFormat::JsonStream => "json_stream",
        FluentBitFormat::MsgPack => "msgpack",
        FluentBitFormat::Gelf => "gelf",
    };
    let parts = [
        Some(format),
        Some(date_of(date)),
        kyma.then_some("@timestamp and app_name"),
        labels.then_some("labels"),
        annotations.then_some("annotations"),
        dedot.then_some("_ for dots in their keys"),
        keep_original_body.then_some("the text of JSON"),
    ];
    format!("records of Fluent Bit: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// A Secret may be part of the name of its field.
fn date_of(date: &Date) -> &'static str {
    match (&date.key, date.format) {
        (None, _) => "no field for the time",
        (Some(_), DateFormat::Double) => "time as double",
        (Some(_), DateFormat::Epoch) => "time as epoch",
        (Some(_), DateFormat::EpochMillis) => "time as epoch_ms",
        (Some(_), DateFormat::Iso8601) => "time as iso8601",
        (Some(_), DateFormat::JavaSql) => "time as java_sql_timestamp",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_plan::{Language, Multiline, Output, RuntimeInput, Signal, Sink};

    use super::*;

    fn only(names: &[&str]) -> Selector {
        Selector::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn fluent_bit() -> FluentBit {
        FluentBit {
            to: Sink::Stdout,
            format: FluentBitFormat::JsonLines,
            date: Date { key: Some("s3cr3t".to_owned()), format: DateFormat::Iso8601 },
            kyma: false,
            dedot: true,
            labels: true,
            annotations: false,
            keep_original_body: true,
        }
    }

    #[test]
    fn containers_and_what_becomes_of_their_lines_are_named() {
        let mut pipeline = Pipeline::new(Signal::Logs, "a", Output::local(fluent_bit()));
        let logs = |containers, shape, multiline| {
            Some(ContainerLogs { namespaces: only(&["shop", "bank"]), containers, shape, multiline })
        };
        pipeline.input.otlp = None;
        let kept = RecordShape::Parsed { keep_original_body: true };
        for (containers, expected) in [
            (Selector::All, "container logs of shop, bank"),
            (only(&["app", "web"]), "container logs of shop, bank (containers app, web)"),
            (Selector::Except(vec!["side".to_owned()]), "container logs of shop, bank (all containers but side)"),
        ] {
            pipeline.input.container_logs = logs(containers, kept, Multiline::default());
            assert_eq!(inputs(&pipeline.input), [expected]);
        }
        let said = RecordShape::ALL.map(|shape| {
            pipeline.input.container_logs = logs(Selector::All, shape, Multiline::default());
            settings(&pipeline)[1].clone()
        });
        assert!(said[0] != said[1] && said[1] != said[2] && said[2] != said[0], "{said:?}");
        let both = Multiline::of(Language::Java).with(Language::Go);
        pipeline.input.container_logs = logs(Selector::All, RecordShape::Raw, both);
        let expected = [
            "no compression",
            "lines of container logs stay as they are",
            "stack traces are joined of java,go",
            "records of Fluent Bit: json_lines, time as iso8601, labels, _ for dots in their keys, the text of JSON",
            "keeps 10.0 GiB for 1d00h on the disk, then its oldest data makes room",
        ];
        assert_eq!(settings(&pipeline), expected);
    }

    #[test]
    fn targets_are_named_without_what_may_be_secret() {
        let urls = ["http://localhost:9100/metrics", "https://user:s3cr3t@[::1]:1/a?token=s3cr3t", "http://a"];
        let input = PrometheusInput {
            namespaces: Selector::All,
            diagnostic_metrics: true,
            static_targets: urls.map(str::to_owned).to_vec(),
            native_histograms: true,
        };
        let expected = [
            "Prometheus targets",
            "the static target http://localhost:9100/metrics",
            "the static target https://[::1]:1/a?...",
            "the static target http://a/",
            "diagnostic metrics of Prometheus targets",
            "native histograms of Prometheus targets",
        ];
        assert_eq!(inputs(&Input { otlp: None, prometheus: Some(input), ..Input::default() }), expected);
        assert_eq!(address("not an address: s3cr3t"), "(no address)");
    }

    #[test]
    fn metrics_are_named_by_their_resources_and_else_by_their_names() {
        let istio = |diagnostic_metrics, envoy_metrics| {
            Some(IstioInput { namespaces: Selector::All, diagnostic_metrics, envoy_metrics })
        };
        let of = |istio| inputs(&Input { otlp: None, istio, ..Input::default() });
        assert_eq!(of(istio(false, false)), ["Istio's proxies"]);
        assert_eq!(of(istio(true, false)), ["Istio's proxies", "diagnostic metrics of Istio's proxies"]);
        assert_eq!(of(istio(false, true)), ["Istio's proxies", "metrics of Envoy from Istio's proxies"]);
        let runtime = |metrics| {
            let runtime = Some(RuntimeInput { namespaces: only(&["shop"]), metrics });
            inputs(&Input { otlp: None, runtime, ..Input::default() }).split_off(1)
        };
        let mut metrics = RuntimeMetrics::of(&[RuntimeResource::Job, RuntimeResource::Pod]);
        assert_eq!(runtime(metrics), ["metrics of resources pod, job"]);
        assert!(metrics.insert("k8s.pod.uptime") && metrics.insert("k8s.node.uptime"));
        assert_eq!(runtime(metrics), ["metrics of resources pod, job", "the metrics k8s.node.uptime, k8s.pod.uptime"]);
        assert!(runtime(RuntimeMetrics::default()).is_empty());
        assert_eq!(
            runtime(RuntimeMetrics::of(&RuntimeResource::ALL)),
            ["metrics of resources pod, container, node, volume, daemonset, deployment, statefulset, job"]
        );
    }

    #[test]
    fn the_process_says_what_its_telemetry_says() {
        let usual = ["nodes and workloads every 30s", "Prometheus targets every 30s", "Istio's proxies every 30s"];
        let by_default = process(&Plan::default());
        assert_eq!(
            (by_default[0].as_str(), &by_default[1..]),
            ("service enrichment otel", &usual.map(str::to_owned)[..])
        );
        let enrichment = Enrichment {
            service: ServiceEnrichment::KymaLegacy,
            cluster_name: Some("garden".to_owned()),
            pod_labels: vec![PodLabels::Key("team".to_owned()), PodLabels::Prefix("app.".to_owned())],
        };
        let intervals = CollectionIntervals {
            runtime: Duration::from_secs(90),
            prometheus: Duration::from_millis(500),
            ..CollectionIntervals::default()
        };
        let expected = [
            "service enrichment kyma-legacy",
            "cluster name garden",
            "pod label team",
            "pod labels that begin with app.",
            "nodes and workloads every 90s",
            "Prometheus targets every 500ms",
            "Istio's proxies every 30s",
        ];
        assert_eq!(process(&Plan { pipelines: Vec::new(), enrichment, intervals }), expected);
    }
}
