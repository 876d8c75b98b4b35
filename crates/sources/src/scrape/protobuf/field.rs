//! Field numbers of the messages on a page, which are those of the package `io.prometheus.client`.

/// `MetricFamily`
pub(super) mod family {
    pub(in crate::scrape::protobuf) const NAME: u32 = 1;
    pub(in crate::scrape::protobuf) const HELP: u32 = 2;
    pub(in crate::scrape::protobuf) const TYPE: u32 = 3;
    pub(in crate::scrape::protobuf) const METRICS: u32 = 4;
    pub(in crate::scrape::protobuf) const UNIT: u32 = 5;
}

/// `Metric`
pub(super) mod metric {
    pub(in crate::scrape::protobuf) const LABELS: u32 = 1;
    pub(in crate::scrape::protobuf) const GAUGE: u32 = 2;
    pub(in crate::scrape::protobuf) const COUNTER: u32 = 3;
    pub(in crate::scrape::protobuf) const SUMMARY: u32 = 4;
    pub(in crate::scrape::protobuf) const UNTYPED: u32 = 5;
    pub(in crate::scrape::protobuf) const TIMESTAMP_MS: u32 = 6;
    pub(in crate::scrape::protobuf) const HISTOGRAM: u32 = 7;
}

/// `LabelPair`
pub(super) mod label {
    pub(in crate::scrape::protobuf) const NAME: u32 = 1;
    pub(in crate::scrape::protobuf) const VALUE: u32 = 2;
}

/// `Gauge`, `Counter` and `Untyped`, of which only counters have more than a value.
pub(super) mod number {
    pub(in crate::scrape::protobuf) const VALUE: u32 = 1;
    pub(in crate::scrape::protobuf) const EXEMPLAR: u32 = 2;
    pub(in crate::scrape::protobuf) const CREATED: u32 = 3;
}

/// `Summary`
pub(super) mod summary {
    pub(in crate::scrape::protobuf) const COUNT: u32 = 1;
    pub(in crate::scrape::protobuf) const SUM: u32 = 2;
    pub(in crate::scrape::protobuf) const QUANTILES: u32 = 3;
    pub(in crate::scrape::protobuf) const CREATED: u32 = 4;
}

/// `Quantile`
pub(super) mod quantile {
    pub(in crate::scrape::protobuf) const QUANTILE: u32 = 1;
    pub(in crate::scrape::protobuf) const VALUE: u32 = 2;
}

/// `Histogram`
pub(super) mod histogram {
    pub(in crate::scrape::protobuf) const COUNT: u32 = 1;
    pub(in crate::scrape::protobuf) const SUM: u32 = 2;
    pub(in crate::scrape::protobuf) const BUCKETS: u32 = 3;
    pub(in crate::scrape::protobuf) const COUNT_FLOAT: u32 = 4;
    pub(in crate::scrape::protobuf) const SCHEMA: u32 = 5;
    pub(in crate::scrape::protobuf) const ZERO_THRESHOLD: u32 = 6;
    pub(in crate::scrape::protobuf) const ZERO_COUNT: u32 = 7;
    pub(in crate::scrape::protobuf) const ZERO_COUNT_FLOAT: u32 = 8;
    pub(in crate::scrape::protobuf) const NEGATIVE_SPANS: u32 = 9;
    pub(in crate::scrape::protobuf) const NEGATIVE_DELTAS: u32 = 10;
    pub(in crate::scrape::protobuf) const NEGATIVE_COUNTS: u32 = 11;
    pub(in crate::scrape::protobuf) const POSITIVE_SPANS: u32 = 12;
    pub(in crate::scrape::protobuf) const POSITIVE_DELTAS: u32 = 13;
    pub(in crate::scrape::protobuf) const POSITIVE_COUNTS: u32 = 14;
    pub(in crate::scrape::protobuf) const CREATED: u32 = 15;
    pub(in crate::scrape::protobuf) const EXEMPLARS: u32 = 16;
}

/// `Bucket`
pub(super) mod bucket {
    pub(in crate::scrape::protobuf) const COUNT: u32 = 1;
    pub(in crate::scrape::protobuf) const UPPER_BOUND: u32 = 2;
    pub(in crate::scrape::protobuf) const EXEMPLAR: u32 = 3;
    pub(in crate::scrape::protobuf) const COUNT_FLOAT: u32 = 4;
}

/// `BucketSpan`
pub(super) mod span {
    pub(in crate::scrape::protobuf) const OFFSET: u32 = 1;
    pub(in crate::scrape::protobuf) const LENGTH: u32 = 2;
}

/// `Exemplar`
pub(super) mod exemplar {
    pub(in crate::scrape::protobuf) const LABELS: u32 = 1;
    pub(in crate::scrape::protobuf) const VALUE: u32 = 2;
    pub(in crate::scrape::protobuf) const TIMESTAMP: u32 = 3;
}

/// `google.protobuf.Timestamp`
pub(super) mod timestamp {
    pub(in crate::scrape::protobuf) const SECONDS: u32 = 1;
    pub(in crate::scrape::protobuf) const NANOS: u32 = 2;
}
