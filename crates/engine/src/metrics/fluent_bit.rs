//! What Fluent Bit's metrics say of a LogPipeline whose output is one of Fluent Bit's, under the names that existing
//! dashboards read (<https://docs.fluentbit.io/manual/administration/monitoring>).

use weir_plan::Signal;

use super::Kind::{Counter, Gauge};
use super::{Metric, Samples, one};
use crate::view::{PipelineFigures, Snapshot};

const NAME: &[&str] = &["name"];

pub(super) const METRICS: [Metric; 6] = [
    Metric {
        name: "fluentbit_input_records_total",
        kind: Counter,
        labels: NAME,
        help: "Log records taken over, of LogPipelines with an output of Fluent Bit",
        samples: |snapshot| each(snapshot, |pipeline| pipeline.books.accepted),
    },
    Metric {
        name: "fluentbit_input_bytes_total",
        kind: Counter,
        labels: NAME,
        help: "Their bytes, as OTLP and before the rules",
        samples: |snapshot| each(snapshot, |pipeline| pipeline.accepted_bytes),
    },
    Metric {
        name: "fluentbit_output_proc_records_total",
        kind: Counter,
        labels: NAME,
        help: "Log records the backend took",
        samples: |snapshot| each(snapshot, |pipeline| pipeline.books.delivered),
    },
    Metric {
        name: "fluentbit_output_proc_bytes_total",
        kind: Counter,
        labels: NAME,
        help: "Their bytes, as OTLP and after the rules",
        samples: |snapshot| each(snapshot, |pipeline| pipeline.delivered_bytes),
    },
    Metric {
        name: "fluentbit_output_dropped_records_total",
        kind: Counter,
        labels: NAME,
        help: "Log records given up, or refused by the backend for good",
        samples: |snapshot| {
            each(snapshot, |pipeline| {
                let books = &pipeline.books;
                books.dropped.values().chain(books.rejected.values()).sum()
            })
        },
    },
    Metric {
        name: "telemetry_fsbuffer_usage_bytes",
        kind: Gauge,
        labels: &[],
        help: "Bytes that wait for the backends of LogPipelines with an output of Fluent Bit",
        samples: |snapshot| match pipelines(snapshot).map(|pipeline| pipeline.pending_bytes).reduce(|a, b| a + b) {
            Some(bytes) => one(bytes),
            None => Box::new(std::iter::empty()),
        },
    },
];

fn each<'a>(snapshot: &'a Snapshot, read: fn(&PipelineFigures) -> u64) -> Samples<'a> {
    Box::new(pipelines(snapshot).map(move |pipeline| (vec![(&*pipeline.id.name).into()], read(pipeline).into())))
}

fn pipelines(snapshot: &Snapshot) -> impl Iterator<Item = &PipelineFigures> {
    let is_fluent_bit = |of: &&PipelineFigures| of.id.signal == Signal::Logs && !of.exporter.starts_with("otlp_");
    snapshot.pipelines.iter().filter(is_fluent_bit)
}
