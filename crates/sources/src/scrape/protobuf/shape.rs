//! What becomes of the metrics of a family.

use weir_otlp::field::metric;

use super::message::FamilyType;
use super::series::{GAUGE_COUNT, GAUGE_SUM};
use crate::scrape::text;

/// What the metrics of a family become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Gauge,
    Counter,
    Summary,
    /// A histogram with bounds.
    Explicit,
    /// A native histogram.
    Exponential,
    /// Gauges, one for each bucket of a gauge histogram, and those for its sum and count.
    GaugeBuckets,
    GaugeSum,
    GaugeCount,
}

impl FamilyType {
    /// The same of a family in text. There, the sum and the count of a gauge histogram are of no family.
    pub(super) fn of_text(self, shape: Shape) -> text::MetricType {
        match self {
            _ if matches!(shape, Shape::GaugeSum | Shape::GaugeCount) => text::MetricType::Unknown,
            Self::Counter => text::MetricType::Counter,
            Self::Gauge => text::MetricType::Gauge,
            Self::Summary => text::MetricType::Summary,
            Self::Untyped => text::MetricType::Unknown,
            Self::Histogram => text::MetricType::Histogram,
            Self::GaugeHistogram => text::MetricType::GaugeHistogram,
        }
    }

    pub(super) fn shapes(self) -> &'static [Shape] {
        match self {
            Self::Counter => &[Shape::Counter],
            Self::Gauge | Self::Untyped => &[Shape::Gauge],
            Self::Summary => &[Shape::Summary],
            Self::Histogram => &[Shape::Exponential, Shape::Explicit],
            Self::GaugeHistogram => &[Shape::GaugeBuckets, Shape::GaugeSum, Shape::GaugeCount],
        }
    }
}

impl Shape {
    /// The field of a metric that its points are in.
    pub(super) fn data(self) -> u32 {
        match self {
            Self::Gauge | Self::GaugeBuckets | Self::GaugeSum | Self::GaugeCount => metric::GAUGE,
            Self::Counter => metric::SUM,
            Self::Summary => metric::SUMMARY,
            Self::Explicit => metric::HISTOGRAM,
            Self::Exponential => metric::EXPONENTIAL_HISTOGRAM,
        }
    }

    pub(super) fn is_cumulative(self) -> bool {
        matches!(self, Self::Counter | Self::Explicit | Self::Exponential)
    }

    /// What the name of the metric has behind that of the family.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::GaugeSum => GAUGE_SUM,
            Self::GaugeCount => GAUGE_COUNT,
            _ => "",
        }
    }
}
