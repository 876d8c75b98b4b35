//! Requests of one target: its metrics, or what is said of the scrape itself.

use std::time::Duration;

use weir_otlp::build::Encoder;
use weir_otlp::field::{gauge, metric, number_data_point, request, resource_data, scope_data};

use super::draft::TYPE_METADATA;
use super::home::{self, Homes};
use super::page::Taken;
use super::stale::NO_RECORDED_VALUE;
use crate::encoding::{attribute, own_scope};

/// Makes a request of metrics, which `make` appends to what is there: the fields of a `ScopeMetrics` of this name, and
/// between them those of [`home`](super::home). `resource`: the fields of that of the target. `length`: how long metrics
/// will be, more or less.
pub(super) fn request<T>(
    resource: &[u8],
    scope_name: &str,
    length: usize,
    make: impl FnOnce(&mut Vec<u8>) -> T,
) -> (Vec<u8>, T) {
    let mut out = Encoder::with_capacity(length + resource.len() + 256);
    let all = out.open(request::RESOURCES, length + resource.len() + 64);
    out.bytes(resource_data::RESOURCE, resource);
    let scopes = out.open(resource_data::SCOPES, length + 64);
    own_scope(&mut out, scope_name);
    let start = out.len();
    let made = out.append(make);
    let metrics = &out.written()[start..];
    if home::has_any(metrics) {
        return (sorted(resource, scope_name, metrics), made);
    }
    out.close(scopes);
    out.close(all);
    (out.into_bytes(), made)
}

/// Puts metrics into a request, by their homes.
fn sorted(resource: &[u8], scope_name: &str, metrics: &[u8]) -> Vec<u8> {
    let homes = Homes::of(metrics);
    let mut out = Encoder::with_capacity(metrics.len() + resource.len() + 256);
    for home in &homes.resources {
        let all = out.open(request::RESOURCES, metrics.len() + resource.len() + 64);
        out.bytes(resource_data::RESOURCE, &homes.resource(resource, home));
        for scope in &home.scopes {
            let opened = out.open(resource_data::SCOPES, metrics.len() + 64);
            match scope.scope {
                Some(scope) => out.bytes(scope_data::SCOPE, scope),
                None => own_scope(&mut out, scope_name),
            }
            scope.metrics.iter().for_each(|range| out.raw(&metrics[range.clone()]));
            if !scope.schema_url.is_empty() {
                out.bytes(scope_data::SCHEMA_URL, scope.schema_url);
            }
            out.close(opened);
        }
        out.close(all);
    }
    out.into_bytes()
}

/// The metrics that Prometheus adds to each scrape. `taken`: nothing when it failed.
pub(super) fn diagnostics(took: Duration, taken: Option<Taken>, scraped: u64) -> Vec<u8> {
    of_scrape((took, taken), scraped, false)
}

/// The same metrics of a target that is not scraped any more: they end.
pub(super) fn no_diagnostics(scraped: u64) -> Vec<u8> {
    of_scrape((Duration::ZERO, None), scraped, true)
}

fn of_scrape((took, taken): (Duration, Option<Taken>), scraped: u64, is_end: bool) -> Vec<u8> {
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
            number(|taken| taken.samples - taken.dropped),
        ),
        ("scrape_series_added", "", "The approximate number of new series in this scrape", number(|taken| taken.added)),
    ] {
        let whole = out.open(scope_data::ITEMS, 191);
        out.bytes(metric::NAME, name.as_bytes());
        out.bytes(metric::DESCRIPTION, about.as_bytes());
        if !unit.is_empty() {
            out.bytes(metric::UNIT, unit.as_bytes());
        }
        attribute(&mut out, metric::METADATA, TYPE_METADATA, b"gauge");
        let data = out.open(metric::GAUGE, 64);
        let point = out.open(gauge::DATA_POINTS, 64);
        out.fixed64(number_data_point::TIME_UNIX_NANO, scraped);
        if is_end {
            out.varint(number_data_point::FLAGS, NO_RECORDED_VALUE);
        } else {
            out.fixed64(number_data_point::AS_DOUBLE, value.to_bits());
        }
        out.close(point);
        out.close(data);
        out.close(whole);
    }
    out.into_bytes()
}
