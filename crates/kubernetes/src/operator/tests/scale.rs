//! Many pipelines, large ones, and names at the limit.

use std::io::Read as _;

use super::*;
use crate::operator::configuration::packed_of;

#[test]
fn five_hundred_pipelines_of_which_one_is_wrong() {
    let mut cluster = Cluster::new();
    for number in 0..500 {
        cluster.pipeline(
            Signal::Traces,
            &format!("p{number:03}"),
            json!({ "output": of_secret("backend", "endpoint") }),
        );
    }
    cluster.secret("backend", &[("endpoint", "http://b:4317")]).telemetry();
    cluster.pipeline(Signal::Traces, "p250", json!({ "output": otlp("nowhere") }));
    let decision = cluster.settle();
    assert_eq!(configured(&decision).len(), 499);
    assert_eq!(decision.statuses.len(), 501);
    assert_eq!(decision.secrets.len(), 1, "one watch for all of them");
    let (.., message) = condition(&decision, "default", "TraceComponentsHealthy");
    assert!(message.starts_with("TracePipeline 'p250'"), "{message}");
    assert!(cluster.decide().statuses.is_empty());
}

/// What nodes get is read as files are read.
#[test]
fn nodes_read_what_they_get_as_files_are_read() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("shop").pipeline(Signal::Logs, "shop", json!({ "output": of_secret("backend", "a") }));
    cluster.pipeline(Signal::Metrics, "shop", json!({ "output": of_secret("backend", "b") }));
    cluster.secret("backend", &[("a", "http://a:4317"), ("b", "http://b:4317"), ("c", "c")]);
    let decision = cluster.decide();
    let secret = manifest(&decision, "Secret", "telemetry-node").unwrap();
    let configuration = decision.configuration.as_ref().unwrap();
    assert_eq!(packed_of(secret).as_ref(), Some(&configuration.packed));
    assert_eq!(configuration.documents, 5);
    assert_eq!(secret["metadata"]["annotations"]["weir.dev/revision"], configuration.revision.as_str());
    let mut text = String::new();
    flate2::read::GzDecoder::new(configuration.packed.as_slice()).read_to_string(&mut text).unwrap();
    let source = weir_resources::Source { name: "configuration".to_owned(), text };
    let loaded = weir_resources::load(&[source], &weir_resources::Options::at(now())).unwrap();
    let ids: Vec<_> = loaded.plan.pipelines.iter().map(|pipeline| pipeline.id.to_string()).collect();
    assert_eq!(ids, ["logs/shop", "metrics/shop", "traces/shop"]);
    assert_eq!(loaded.warnings, []);
}

#[test]
fn the_same_picture_gives_the_same_bytes_whatever_the_order() {
    let mut one = Cluster::new();
    one.trace("a").trace("b").telemetry();
    let mut other = Cluster::new();
    other.telemetry().trace("b").trace("a");
    let (one, other) = (one.decide(), other.decide());
    assert_eq!(one.configuration, other.configuration);
    assert_eq!(one.apply, other.apply);
}

/// Text that can hardly be compressed.
fn noise(bytes: usize, seed: usize) -> String {
    let mut seed = seed as u64;
    let letter = |seed: &mut u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + u8::try_from((*seed >> 33) % 74).unwrap())
    };
    (0..bytes).map(|_| letter(&mut seed)).collect()
}

#[test]
fn a_secret_of_a_mebibyte_leaves_out_its_pipeline_and_no_other() {
    let mut cluster = Cluster::new();
    let header =
        json!({ "name": "x", "valueFrom": { "secretKeyRef": { "name": "large", "namespace": "shop", "key": "x" } } });
    let mut output = otlp("http://b:4317");
    output["otlp"]["headers"] = json!([header]);
    cluster.pipeline(Signal::Traces, "large", json!({ "output": output })).trace("a").trace("z");
    for bytes in [2 << 20, 40 << 20] {
        cluster.secret("large", &[("x", &noise(bytes, 7))]);
        let decision = cluster.decide();
        assert_eq!(configured(&decision), ["a", "z"]);
        let (status, _, message) = condition(&decision, "large", "ConfigurationGenerated");
        assert_eq!(status, "False");
        assert!(message.len() < 1024, "{message}");
        assert!(decision.configuration.as_ref().unwrap().packed.len() < 1 << 20);
        assert!(brief(&decision, "a", "ConfigurationGenerated").starts_with("True"));
    }
}

#[test]
fn of_many_that_are_too_large_together_the_first_ones_run() {
    let mut cluster = Cluster::new();
    for number in 0..20 {
        let mut output = otlp("http://b:4317");
        output["otlp"]["headers"] = json!([{ "name": "x", "value": noise(100_000 + 1000 * number, number) }]);
        cluster.pipeline(Signal::Traces, &format!("p{number:02}"), json!({ "output": output }));
    }
    cluster.trace("small");
    let decision = cluster.decide();
    let configured = configured(&decision);
    assert!(configured.len() > 10 && configured.len() < 20, "{configured:?}");
    let first = (0..configured.len()).map(|number| format!("p{number:02}"));
    assert_eq!(configured, first.collect::<Vec<_>>());
}

#[test]
fn names_at_the_limit() {
    let name = format!("{}.{}", "a".repeat(200), "b".repeat(52));
    assert_eq!(name.len(), 253);
    let mut cluster = Cluster::new();
    let decision = cluster.trace(&name).telemetry().decide();
    assert_eq!(configured(&decision), std::slice::from_ref(&name));
    assert!(brief(&decision, &name, "ConfigurationGenerated").starts_with("True"));
    for manifest in &decision.apply {
        for (_, value) in manifest["metadata"]["labels"].as_object().unwrap() {
            assert!(value.as_str().unwrap().len() <= 63);
        }
    }
}
