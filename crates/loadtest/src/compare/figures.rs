//! Which figures of load tests are good when they are high, and which when they are low.

/// What is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
    /// It depends: a busier core may have done more.
    Neither,
}

/// All figures that are compared, in the order in which they are shown.
const FIGURES: [(&str, Better); 40] = [
    ("accepted_per_s", Better::Higher),
    ("exported_per_s", Better::Higher),
    ("input_mb_per_cpu_s", Better::Higher),
    ("samples_per_cpu_s", Better::Higher),
    ("cpu_s_per_million", Better::Lower),
    ("cpu_cores", Better::Neither),
    ("memory_mb_avg", Better::Lower),
    ("memory_mb_median", Better::Lower),
    ("memory_mb_peak", Better::Lower),
    ("disk_mb_peak", Better::Lower),
    ("disk_mb_written", Better::Lower),
    ("wire_bytes_per_item", Better::Lower),
    ("latency_ms_p50", Better::Lower),
    ("latency_ms_p99", Better::Lower),
    ("client_ms_p99", Better::Lower),
    ("client_ms_max", Better::Lower),
    ("queue_size", Better::Neither),
    ("backlog_peak", Better::Neither),
    ("settle_s", Better::Lower),
    ("drain_s", Better::Lower),
    ("recovery_ms_p50", Better::Lower),
    ("recovery_ms_max", Better::Lower),
    ("lost", Better::Lower),
    ("leaked", Better::Lower),
    ("pending", Better::Lower),
    ("duplicated", Better::Lower),
    ("refused", Better::Lower),
    ("unanswered", Better::Lower),
    ("reordered", Better::Lower),
    ("deleted_unread", Better::Lower),
    ("damaged", Better::Lower),
    ("scrapes_lost", Better::Lower),
    ("scrapes_torn", Better::Lower),
    ("told_s_max", Better::Lower),
    ("over_s_max", Better::Lower),
    ("false_alarms", Better::Lower),
    ("series", Better::Neither),
    ("samples_per_s", Better::Neither),
    ("targets_cpu_cores", Better::Neither),
    ("sinks_cpu_cores", Better::Neither),
];

/// Of these, a single one is no noise: they are compared as they are, however they vary.
const HARM: [&str; 7] = ["lost", "leaked", "deleted_unread", "damaged", "scrapes_lost", "scrapes_torn", "false_alarms"];

/// Whether it counts harm.
pub(crate) fn is_harm(name: &str) -> bool {
    HARM.contains(&name)
}

/// All names.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Better)> {
    FIGURES.into_iter()
}

/// Whether there is such a figure.
pub(crate) fn is_known(name: &str) -> bool {
    FIGURES.iter().any(|(known, _)| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Kpis, LineKpis, PageKpis};

    /// Figures that say how much was tested, and not how well.
    const EXTENT: [&str; 9] =
        ["system", "scenario", "part", "duration_s", "accepted", "exported", "kills", "input_mb", "scrapes"];

    #[test]
    fn every_figure_of_a_result_is_compared_or_an_extent() {
        let everything = Kpis {
            part: Some(String::new()),
            leaked: Some(1),
            drain_s: Some(1.0),
            kills: Some(1),
            recovery_ms_p50: Some(1.0),
            recovery_ms_max: Some(1.0),
            lines: Some(LineKpis::default()),
            pages: Some(PageKpis::default()),
            ..Kpis::default()
        };
        let value = serde_json::to_value(&everything).unwrap();
        for key in value.as_object().unwrap().keys() {
            assert!(is_known(key) != EXTENT.contains(&key.as_str()), "{key}");
        }
    }
}
