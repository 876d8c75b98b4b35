//! Noise in Istio's own metrics. Metrics that clients push are not looked at.

use weir_otlp::common::Message;
use weir_otlp::field::scope_data;
use weir_otlp::metrics::{Data, Metric};
use weir_otlp::splice::Edit;

use crate::changes::{Changes, Left, NoRoom};
use crate::istio::{is_istio_metric, is_noise_point};

/// Removes the data points of a scope that count the traffic of telemetry itself, and metrics that are empty without
/// them.
pub(crate) fn remove<'a>(changes: &mut Changes<'a>, scope: Message<'a>) -> Result<Left, NoRoom> {
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
