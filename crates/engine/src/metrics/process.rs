//! Metrics of the configuration, the memory and the process.

use super::Kind::{Counter, Gauge};
use super::{Metric, Value, one};

pub(super) const METRICS: [Metric; 11] = [
    Metric {
        name: "weir_config_reloads_total",
        kind: Counter,
        labels: &["result"],
        help: "Changed configurations that were read, by result",
        samples: |snapshot| {
            let (successes, failures) = (snapshot.reloads.successes, snapshot.reloads.failures);
            let results = [("success", successes), ("failure", failures)].into_iter();
            Box::new(results.map(|(result, count)| (vec![result.into()], count.into())))
        },
    },
    Metric {
        name: "weir_config_last_reload_successful",
        kind: Gauge,
        labels: &[],
        help: "0 while the files hold a configuration that cannot be used",
        samples: |snapshot| one(snapshot.reloads.error.is_none()),
    },
    Metric {
        name: "weir_config_last_reload_success_timestamp_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the configuration that runs was taken up, in seconds since the Unix epoch",
        samples: |snapshot| one(snapshot.reloads.last_success),
    },
    Metric {
        name: "otelcol_process_cpu_seconds_total",
        kind: Counter,
        labels: &[],
        help: "CPU time used",
        samples: |snapshot| one(Value::Real(snapshot.process.cpu_seconds)),
    },
    Metric {
        name: "otelcol_process_memory_rss",
        kind: Gauge,
        labels: &[],
        help: "Resident memory in bytes",
        samples: |snapshot| one(snapshot.process.rss_bytes),
    },
    Metric {
        name: "otelcol_process_uptime_seconds_total",
        kind: Counter,
        labels: &[],
        help: "Time since the start",
        samples: |snapshot| one(snapshot.uptime),
    },
    Metric {
        name: "weir_memory_budget_bytes",
        kind: Gauge,
        labels: &[],
        help: "The memory budget for payloads",
        samples: |snapshot| one(snapshot.memory.payloads().0),
    },
    Metric {
        name: "weir_memory_used_bytes",
        kind: Gauge,
        labels: &[],
        help: "Of the budget, what is taken",
        samples: |snapshot| one(snapshot.memory.payloads().1),
    },
    Metric {
        name: "weir_memory_part_bytes",
        kind: Gauge,
        labels: &["holder"],
        help: "The parts of the memory, by what they are for",
        samples: |snapshot| {
            Box::new(snapshot.memory.parts.iter().map(|part| (vec![part.holder.into()], part.bytes.into())))
        },
    },
    Metric {
        name: "weir_memory_part_used_bytes",
        kind: Gauge,
        labels: &["holder"],
        help: "Of these parts, what is taken, where that is counted",
        samples: |snapshot| {
            let used = snapshot.memory.parts.iter().filter_map(|part| Some((part, part.used?)));
            Box::new(used.map(|(part, used)| (vec![part.holder.into()], used.into())))
        },
    },
    Metric {
        name: "weir_memory_payloads_used_bytes",
        kind: Gauge,
        labels: &["holder"],
        help: "Of the memory for payloads, what is taken, by who has it",
        samples: |snapshot| {
            Box::new(snapshot.memory.payload_holders.iter().map(|of| (vec![of.holder.into()], of.used.into())))
        },
    },
];
