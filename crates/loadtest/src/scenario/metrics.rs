//! Reads the few Prometheus series in which a gateway shows its own view of the test.

use crate::signal::Signal;

/// What a system says about itself, summed over label sets; `None` when it has no such series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SelfView {
    pub(crate) accepted: Option<f64>,
    pub(crate) sent: Option<f64>,
    /// Items that its pipelines took, summed over them, wherever they are from; only Weir counts them so.
    pub(crate) taken: Option<f64>,
    pub(crate) queue_size: Option<f64>,
    /// Items accepted and not finished; only Weir counts them.
    pub(crate) pending: Option<f64>,
    /// Items given up or refused for good, by its own account; only Weir counts them so.
    pub(crate) given_up: Option<f64>,
    /// Entries of Weir's books that did not add up.
    pub(crate) mismatches: Option<f64>,
    /// Bytes of Weir's journal that were not what it had written.
    pub(crate) damaged_bytes: Option<f64>,
    /// How often one of Weir's rules failed on an item.
    pub(crate) rule_errors: Option<f64>,
}

impl SelfView {
    /// Reads Prometheus text format; what is accepted and sent are items of `signal`.
    pub(crate) fn parse(text: &str, signal: Signal) -> Self {
        // Whether counters end in `_total` depends on how a collector's metrics reader is configured.
        let counter = |name: &str| sum(text, &format!("{name}_total")).or_else(|| sum(text, name));
        Self {
            accepted: counter(&format!("otelcol_receiver_accepted_{}", signal.series())),
            sent: counter(&format!("otelcol_exporter_sent_{}", signal.series())),
            taken: sum(text, "weir_pipeline_accepted_items_total"),
            queue_size: sum(text, "otelcol_exporter_queue_size"),
            pending: sum(text, "weir_pipeline_pending_items"),
            given_up: [sum(text, "weir_pipeline_dropped_items_total"), sum(text, "weir_pipeline_rejected_items_total")]
                .into_iter()
                .flatten()
                .reduce(|dropped, rejected| dropped + rejected),
            mismatches: sum(text, "weir_books_mismatches_total"),
            damaged_bytes: sum(text, "weir_journal_damaged_bytes_total"),
            rule_errors: sum(text, "weir_rule_errors_total"),
        }
    }
}

/// Sum over all samples of the series `name`.
pub(crate) fn sum(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labelled) => labelled.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_ascii_whitespace().next()?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_over_labels_and_read_with_or_without_suffix() {
        let text = "# TYPE otelcol_receiver_accepted_spans_total counter
otelcol_receiver_accepted_spans_total{receiver=\"otlp\",transport=\"grpc\"} 100
otelcol_receiver_accepted_spans_total{receiver=\"otlp\",transport=\"http\"} 20
otelcol_exporter_sent_spans{exporter=\"otlp_grpc/a}b\"} 7e1
otelcol_exporter_queue_size_limit 5
weir_pipeline_pending_items 3
weir_pipeline_accepted_items_total{pipeline=\"a\"} 8
weir_pipeline_dropped_items_total{pipeline=\"a\",reason=\"age\"} 4
weir_books_mismatches_total{pipeline=\"a\"} 1
weir_pipeline_rejected_items_total{pipeline=\"a\",code=\"400\"} 5
weir_rule_errors_total{pipeline=\"a\",rule=\"1\"} 6
weir_rule_errors_total{pipeline=\"a\",rule=\"2\"} 7
";
        let view = SelfView::parse(text, Signal::Traces);
        let expected = SelfView {
            accepted: Some(120.0),
            sent: Some(70.0),
            taken: Some(8.0),
            queue_size: None,
            pending: Some(3.0),
            given_up: Some(9.0),
            mismatches: Some(1.0),
            damaged_bytes: None,
            rule_errors: Some(13.0),
        };
        assert_eq!(view, expected);
        assert_eq!(SelfView::parse(text, Signal::Logs).accepted, None);
    }
}
