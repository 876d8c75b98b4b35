//! Noise in Istio's own metrics, for code that scrapes its proxies. Metrics that clients push are not looked at.

use weir_otlp::common::Message;
use weir_otlp::field::scope_data;
use weir_otlp::metrics::{Data, Metric, resource_metrics};
use weir_otlp::splice::Edit;

use crate::changes::{Changes, Left, NoRoom};
use crate::istio::{is_istio_metric, is_noise_point};

/// Removes the data points of Istio's metrics that count the traffic of telemetry itself, and what is empty without
/// them, from a valid metrics request. Edits take at most `max_bytes`.
///
/// # Errors
/// [`NoRoom`] when that is too little.
pub fn metric_noise(request: &[u8], max_bytes: usize) -> Result<Changes<'_>, NoRoom> {
    let mut changes = Changes::new(max_bytes);
    let root = Message::request(request);
    for resource in resource_metrics(request) {
        let left = changes.inside(root, resource.0, |changes| {
            let mut left = Left::default();
            for scope in resource.scope_metrics() {
                left += changes.inside(resource.0, scope.0, |changes| metrics(changes, scope.0))?;
            }
            Ok(left)
        })?;
        changes.noise += left.gone;
    }
    Ok(changes)
}

fn metrics(changes: &mut Changes<'_>, scope: Message<'_>) -> Result<Left, NoRoom> {
    let mut left = Left::default();
    for metric in scope.messages(scope_data::ITEMS).map(Metric) {
        left += match metric.data().filter(|_| is_istio_metric(metric.name())) {
            Some(data) => changes.inside(scope, metric.0, |changes| data_points(changes, data))?,
            // Whatever it holds stays.
            None => Left { kept: 1, gone: 0 },
        };
    }
    Ok(left)
}

fn data_points(changes: &mut Changes<'_>, data: Data<'_>) -> Result<Left, NoRoom> {
    let attributes = match data {
        Data::Gauge(_) | Data::Sum(_) | Data::Summary(_) => 7,
        Data::Histogram(_) => 9,
        Data::ExponentialHistogram(_) => 1,
    };
    let mut left = Left::default();
    for point in data.data_points() {
        if is_noise_point(point, attributes) {
            changes.push(Edit::remove(data.message(), point), 0)?;
            left.gone += 1;
        } else {
            left.kept += 1;
        }
    }
    Ok(left)
}
