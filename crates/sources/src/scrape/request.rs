//! Requests of one target: its metrics, or what is said of the scrape itself.

use std::time::Duration;

use weir_otlp::build::Encoder;
use weir_otlp::field::{gauge, metric, number_data_point, request, resource_data, scope, scope_data};

use super::page::Taken;

/// The scope of scraped metrics, which is that of Kyma's agent.
const SCOPE: &str = "io.kyma-project.telemetry/prometheus";

/// Puts metrics, the fields of a `ScopeMetrics`, into a request.
pub(super) fn request(resource: &[u8], metrics: &[u8]) -> Vec<u8> {
    let mut out = Encoder::with_capacity(metrics.len() + resource.len() + 256);
    let all = out.open(request::RESOURCES, metrics.len() + resource.len() + 64);
    out.bytes(resource_data::RESOURCE, resource);
    let scopes = out.open(resource_data::SCOPES, metrics.len() + 64);
    let named = out.open(scope_data::SCOPE, 64);
    out.bytes(scope::NAME, SCOPE.as_bytes());
    out.bytes(scope::VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    out.close(named);
    out.raw(metrics);
    out.close(scopes);
    out.close(all);
    out.into_bytes()
}

/// The metrics that Prometheus adds to each scrape. `taken`: nothing when it failed.
pub(super) fn diagnostics(took: Duration, taken: Option<Taken>, scraped: u64) -> Vec<u8> {
    let number = |count: fn(Taken) -> usize| {
        #[expect(clippy::cast_precision_loss, reason = "no page has so many samples")]
        let count = taken.map_or(0, count) as f64;
        count
    };
    let up = if taken.is_some() { 1.0 } else { 0.0 };
    let mut out = Encoder::default();
    for (name, unit, about, value) in [
        ("up", "", "The scraping was successful", up),
        ("scrape_duration_seconds", "s", "Duration of the scrape", took.as_secs_f64()),
        ("scrape_samples_scraped", "", "The number of samples the target exposed", number(|taken| taken.samples)),
        (
            "scrape_samples_post_metric_relabeling",
            "",
            "The number of samples remaining after metric relabeling was applied",
            number(|taken| taken.samples - taken.repeated),
        ),
        ("scrape_series_added", "", "The approximate number of new series in this scrape", number(|taken| taken.added)),
    ] {
        let whole = out.open(scope_data::ITEMS, 127);
        out.bytes(metric::NAME, name.as_bytes());
        out.bytes(metric::DESCRIPTION, about.as_bytes());
        if !unit.is_empty() {
            out.bytes(metric::UNIT, unit.as_bytes());
        }
        let data = out.open(metric::GAUGE, 64);
        let point = out.open(gauge::DATA_POINTS, 64);
        out.fixed64(number_data_point::TIME_UNIX_NANO, scraped);
        out.fixed64(number_data_point::AS_DOUBLE, value.to_bits());
        out.close(point);
        out.close(data);
        out.close(whole);
    }
    out.into_bytes()
}
