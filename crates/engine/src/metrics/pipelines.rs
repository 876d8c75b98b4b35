//! Metrics of pipelines: those of the Collector's exporters, which dashboards read, and Weir's own.

use std::collections::BTreeMap;

use weir_plan::{PipelineId, Signal};

use super::Kind::{Counter, Gauge, Histogram};
use super::{Metric, PIPELINE, Samples, Value, each, of};
use crate::view::{BackendState, BookFigures, Ending, PipelineFigures, Snapshot};

const EXPORTER: &[&str] = &["exporter"];
const QUEUE: &[&str] = &["exporter", "data_type"];
const SENT: &str = "Items the backend took";
const FAILED: &str = "Items the backend refused for good";
const DROPPED: &str = "Items given up for want of room";
const PENDING_BYTES: &str =
    "Bytes in the backlog and waiting to be sent; without a data directory, also parked and on the wire";

pub(super) const EXPORTERS: [Metric; 12] = [
    Metric {
        name: "otelcol_exporter_sent_spans_total",
        kind: Counter,
        labels: EXPORTER,
        help: SENT,
        samples: |snapshot| exporters(snapshot, Signal::Traces, |books| books.delivered),
    },
    Metric {
        name: "otelcol_exporter_send_failed_spans_total",
        kind: Counter,
        labels: EXPORTER,
        help: FAILED,
        samples: |snapshot| exporters(snapshot, Signal::Traces, |books| books.rejected.values().sum()),
    },
    Metric {
        name: "otelcol_exporter_enqueue_failed_spans_total",
        kind: Counter,
        labels: EXPORTER,
        help: DROPPED,
        samples: |snapshot| exporters(snapshot, Signal::Traces, |books| books.dropped.values().sum()),
    },
    Metric {
        name: "otelcol_exporter_sent_metric_points_total",
        kind: Counter,
        labels: EXPORTER,
        help: SENT,
        samples: |snapshot| exporters(snapshot, Signal::Metrics, |books| books.delivered),
    },
    Metric {
        name: "otelcol_exporter_send_failed_metric_points_total",
        kind: Counter,
        labels: EXPORTER,
        help: FAILED,
        samples: |snapshot| exporters(snapshot, Signal::Metrics, |books| books.rejected.values().sum()),
    },
    Metric {
        name: "otelcol_exporter_enqueue_failed_metric_points_total",
        kind: Counter,
        labels: EXPORTER,
        help: DROPPED,
        samples: |snapshot| exporters(snapshot, Signal::Metrics, |books| books.dropped.values().sum()),
    },
    Metric {
        name: "otelcol_exporter_sent_log_records_total",
        kind: Counter,
        labels: EXPORTER,
        help: SENT,
        samples: |snapshot| exporters(snapshot, Signal::Logs, |books| books.delivered),
    },
    Metric {
        name: "otelcol_exporter_send_failed_log_records_total",
        kind: Counter,
        labels: EXPORTER,
        help: FAILED,
        samples: |snapshot| exporters(snapshot, Signal::Logs, |books| books.rejected.values().sum()),
    },
    Metric {
        name: "otelcol_exporter_enqueue_failed_log_records_total",
        kind: Counter,
        labels: EXPORTER,
        help: DROPPED,
        samples: |snapshot| exporters(snapshot, Signal::Logs, |books| books.dropped.values().sum()),
    },
    Metric {
        name: "otelcol_exporter_queue_size",
        kind: Gauge,
        labels: QUEUE,
        help: PENDING_BYTES,
        samples: |snapshot| queues(snapshot, |pipeline| pipeline.pending_bytes),
    },
    Metric {
        name: "otelcol_exporter_queue_capacity",
        kind: Gauge,
        labels: QUEUE,
        help: "Bytes the pipeline may hold",
        samples: |snapshot| {
            queues(snapshot, |pipeline| {
                pipeline.backlog.map_or(pipeline.share_bytes as u64, |backlog| backlog.limit_bytes)
            })
        },
    },
    Metric {
        name: "otelcol_exporter_in_flight_requests",
        kind: Gauge,
        labels: QUEUE,
        help: "Requests to the backend without an answer",
        samples: |snapshot| queues(snapshot, |pipeline| pipeline.in_flight),
    },
];

/// They include the books of P4: `accepted + recovered = delivered + filtered + dropped + rejected + pending` within
/// one scrape. Books of pipelines that are gone are shown as well, so that one can still see what became of their
/// items.
pub(super) const METRICS: [Metric; 25] =
    [
        Metric {
            name: "weir_pipeline_accepted_items_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Items taken over from clients",
            samples: |snapshot| books(snapshot, |books| books.accepted),
        },
        Metric {
            name: "weir_pipeline_delivered_items_total",
            kind: Counter,
            labels: PIPELINE,
            help: SENT,
            samples: |snapshot| books(snapshot, |books| books.delivered),
        },
        Metric {
            name: "weir_pipeline_filtered_items_total",
            kind: Counter,
            labels: REASON,
            help: "Items removed on the user's request, by reason",
            samples: |snapshot| parts(snapshot, |books| &books.filtered),
        },
        Metric {
            name: "weir_pipeline_dropped_items_total",
            kind: Counter,
            labels: REASON,
            help: "Items given up, by reason",
            samples: |snapshot| parts(snapshot, |books| &books.dropped),
        },
        Metric {
            name: "weir_pipeline_rejected_items_total",
            kind: Counter,
            labels: &["pipeline", "signal", "code"],
            help: "Items the backend refused for good, by its code",
            samples: |snapshot| parts(snapshot, |books| &books.rejected),
        },
        Metric {
            name: "weir_pipeline_withdrawn_items_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Items given back to their clients to send again",
            samples: |snapshot| books(snapshot, |books| books.withdrawn),
        },
        Metric {
            name: "weir_pipeline_pending_items",
            kind: Gauge,
            labels: PIPELINE,
            help: "Items accepted and not finished",
            samples: |snapshot| books(snapshot, |books| books.pending),
        },
        Metric {
            name: "weir_pipeline_waiting_items",
            kind: Gauge,
            labels: PIPELINE,
            help: "Items whose client is not answered yet",
            samples: |snapshot| books(snapshot, |books| books.waiting),
        },
        Metric {
            name: "weir_books_mismatches_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Entries that did not add up: bugs",
            samples: |snapshot| books(snapshot, |books| books.mismatches),
        },
        Metric {
            name: "weir_pipeline_accepted_bytes_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Bytes of requests whose client was answered OK, as they are before the rules",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.accepted_bytes),
        },
        Metric {
            name: "weir_pipeline_delivered_bytes_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Bytes of requests that the backend took, before compression",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.delivered_bytes),
        },
        Metric {
            name: "weir_pipeline_pending_bytes",
            kind: Gauge,
            labels: PIPELINE,
            help: PENDING_BYTES,
            samples: |snapshot| each(snapshot, |pipeline| pipeline.pending_bytes),
        },
        Metric {
            name: "weir_pipeline_held_bytes",
            kind: Gauge,
            labels: PIPELINE,
            help: "Bytes kept in memory after their client got its OK",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.held_bytes),
        },
        Metric {
            name: "weir_pipeline_oldest_age_seconds",
            kind: Gauge,
            labels: PIPELINE,
            help: "Age of the oldest item not finished",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.oldest_age),
        },
        Metric {
            name: "weir_pipeline_parked_batches",
            kind: Gauge,
            labels: PIPELINE,
            help: "Batches that wait for their next attempt",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.parked),
        },
        Metric {
            name: "weir_pipeline_setup_failed",
            kind: Gauge,
            labels: PIPELINE,
            help: "1 while the pipeline cannot be set up as it is configured",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.setup_error.is_some()),
        },
        Metric {
            name: "weir_pipeline_retries_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Requests to the backend that have to be tried again",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.retries),
        },
        Metric {
            name: "weir_pipeline_concurrency_limit",
            kind: Gauge,
            labels: PIPELINE,
            help: "Requests to the backend that may be unanswered at once",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.concurrency_limit),
        },
        Metric {
            name: "weir_pipeline_backend_state",
            kind: Gauge,
            labels: &["pipeline", "signal", "state", "code"],
            help: "1 for the state that the backend is in, with the code of its refusal",
            samples: |snapshot| Box::new(snapshot.pipelines.iter().flat_map(states)),
        },
        Metric {
            name: "weir_backend_certificate_end_timestamp_seconds",
            kind: Gauge,
            labels: PIPELINE,
            help: "When the certificate ends that the backend showed last",
            samples: |snapshot| {
                Box::new(snapshot.pipelines.iter().filter_map(|pipeline| {
                    Some((of(&pipeline.id, []), pipeline.expiry.certificate_unix_seconds?.into()))
                }))
            },
        },
        Metric {
            name: "weir_client_certificate_end_timestamp_seconds",
            kind: Gauge,
            labels: PIPELINE,
            help: "When the client certificate ends that the backend is shown",
            samples: |snapshot| {
                Box::new(snapshot.pipelines.iter().filter_map(|pipeline| {
                    let certificate = pipeline.credentials.as_ref()?.certificate.as_ref()?;
                    Some((of(&pipeline.id, []), certificate.ends_unix_seconds?.into()))
                }))
            },
        },
        Metric {
            name: "weir_backend_latency_seconds",
            kind: Histogram,
            labels: PIPELINE,
            help: "Time from a request to the backend to its answer",
            samples: |snapshot| each(snapshot, |pipeline| &pipeline.latency),
        },
        Metric {
            name: "weir_backend_requests_total",
            kind: Counter,
            labels: &["pipeline", "signal", "ending"],
            help: "Requests to the backend, by how they ended",
            samples: |snapshot| Box::new(snapshot.pipelines.iter().flat_map(endings)),
        },
        Metric {
            name: "weir_backend_answers_total",
            kind: Counter,
            labels: &["pipeline", "signal", "code"],
            help: "Requests that were sent to the backend, by the code of their answer",
            samples: |snapshot| Box::new(snapshot.pipelines.iter().flat_map(codes)),
        },
        Metric {
            name: "weir_backend_refused_items_total",
            kind: Counter,
            labels: PIPELINE,
            help: "Items in requests that the backend refused without asking for another attempt, each time",
            samples: |snapshot| each(snapshot, |pipeline| pipeline.refused_items),
        },
    ];

const REASON: &[&str] = &["pipeline", "signal", "reason"];

fn exporters<'a>(snapshot: &'a Snapshot, signal: Signal, items: fn(&BookFigures) -> u64) -> Samples<'a> {
    let pipelines = snapshot.pipelines.iter().filter(move |pipeline| pipeline.id.signal == signal);
    Box::new(pipelines.map(move |pipeline| (vec![(&*pipeline.exporter).into()], items(&pipeline.books).into())))
}

fn queues<'a>(snapshot: &'a Snapshot, read: fn(&PipelineFigures) -> u64) -> Samples<'a> {
    Box::new(snapshot.pipelines.iter().map(move |pipeline| {
        (vec![(&*pipeline.exporter).into(), pipeline.id.signal.name().into()], read(pipeline).into())
    }))
}

/// Books of the pipelines that there are, and of those that are gone.
pub(super) fn books<'a>(snapshot: &'a Snapshot, items: fn(&BookFigures) -> u64) -> Samples<'a> {
    Box::new(all_books(snapshot).map(move |(id, books)| (of(id, []), items(books).into())))
}

fn all_books(snapshot: &Snapshot) -> impl Iterator<Item = (&PipelineId, &BookFigures)> {
    let pipelines = snapshot.pipelines.iter().map(|pipeline| (&pipeline.id, &pipeline.books));
    pipelines.chain(snapshot.orphans.iter().map(|orphan| (&orphan.id, &orphan.books)))
}

/// Items by reason, or by code.
fn parts<'a, K: AsRef<str> + 'a>(snapshot: &'a Snapshot, which: fn(&BookFigures) -> &BTreeMap<K, u64>) -> Samples<'a> {
    Box::new(all_books(snapshot).flat_map(move |(id, books)| {
        let parts = which(books).iter();
        parts.map(move |(part, items)| (of(id, [part.as_ref()]), (*items).into()))
    }))
}

/// Each way in which requests end, and how many did.
fn endings(pipeline: &PipelineFigures) -> impl Iterator<Item = (super::Values<'_>, Value<'_>)> {
    let ending = |ending: Ending| (of(&pipeline.id, [ending.as_str()]), pipeline.answers.of(ending).into());
    Ending::ALL.into_iter().map(ending)
}

/// Each code that the backend answered with, and how many requests.
fn codes(pipeline: &PipelineFigures) -> impl Iterator<Item = (super::Values<'_>, Value<'_>)> {
    pipeline.codes.each().map(|(code, requests)| (of(&pipeline.id, [code]), requests.into()))
}

/// Each state that a backend may be in, and whether it is in that state.
fn states(pipeline: &PipelineFigures) -> impl Iterator<Item = (super::Values<'_>, Value<'_>)> {
    let backend = &pipeline.backend;
    BackendState::ALL.into_iter().map(move |state| {
        let is_now = state == backend.state;
        let code = if is_now { &*backend.code } else { "" };
        (of(&pipeline.id, [state.as_str(), code]), is_now.into())
    })
}
