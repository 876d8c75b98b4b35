//! Pages of which larger requests come than may be.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message;
use weir_engine::Settings;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::{Agent, Target, plan_of, text};

const SERIES: u32 = 1000;
const MOST_BYTES: usize = 16 << 10;

/// What arrived of each scrape, by its time.
fn scrapes(backend: &Backend) -> BTreeMap<u64, Vec<f64>> {
    let requests = backend.captured();
    let requests = requests.iter().map(|captured| ExportMetricsServiceRequest::decode(&*captured.plain).unwrap());
    let mut found: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (time, value) in requests.flat_map(|request| request.resource_metrics).flat_map(points) {
        found.entry(time).or_default().push(value);
    }
    found
}

/// The points of the page, with their times.
fn points(of_target: ResourceMetrics) -> Vec<(u64, f64)> {
    assert_eq!(text(&of_target.resource.unwrap().attributes, "service.name"), "static");
    let metrics = of_target.scope_metrics.into_iter().flat_map(|scope| {
        assert_eq!(scope.scope.unwrap().name, "io.kyma-project.telemetry/prometheus");
        scope.metrics
    });
    let points = metrics.filter(|metric| metric.name == "a").flat_map(|metric| match metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points,
        other => panic!("{other:?}"),
    });
    let numbers = points.filter_map(|point| match point.value? {
        Value::AsDouble(value) => Some((point.time_unix_nano, value)),
        Value::AsInt(_) => None,
    });
    numbers.collect()
}

#[tokio::test]
async fn what_is_larger_than_a_request_may_be_goes_in_parts() {
    let page: String = (0..SERIES).map(|series| format!("a{{series=\"number {series}\"}} {series}\n")).collect();
    let (target, backend) = (Target::start(&page).await, Backend::start().await);
    // All parts of a scrape are to be taken within it, on a busy machine as well.
    let plan = plan_of(&backend, &[&target.url], Duration::from_secs(2));
    let settings = Settings { max_request_bytes: MOST_BYTES, ..Settings::default() };
    let agent = Agent::with(&plan, backend, settings).await;
    let is_whole = |scrape: &Vec<f64>| scrape.len() == SERIES as usize;
    eventually("two whole scrapes", async || scrapes(&agent.backend).values().filter(|one| is_whole(one)).count() > 1)
        .await;
    let all = scrapes(&agent.backend);
    let (_, mut first) = all.into_iter().next().unwrap();
    first.sort_by(f64::total_cmp);
    assert_eq!(first, (0..SERIES).map(f64::from).collect::<Vec<_>>(), "every point once");
    assert!(agent.board.all().iter().all(|(_, last)| last.lost.is_none()));
}
