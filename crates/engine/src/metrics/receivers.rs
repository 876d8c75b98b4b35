//! Metrics of what clients sent.

use weir_plan::Signal;

use super::Kind::{Counter, Gauge, Histogram};
use super::{Metric, Samples, Value, one};
use crate::view::{Snapshot, TransportFigures};

const RECEIVER: &[&str] = &["receiver", "transport"];
const BY_SIGNAL: &[&str] = &["transport", "signal"];
const ACCEPTED: &str = "Items answered OK, or collected by this process and safe";
const REFUSED: &str = "Items whose client was asked to send them again";

pub(super) const METRICS: [Metric; 14] = [
    Metric {
        name: "otelcol_receiver_accepted_spans_total",
        kind: Counter,
        labels: RECEIVER,
        help: ACCEPTED,
        samples: |snapshot| accepted(snapshot, Signal::Traces),
    },
    Metric {
        name: "otelcol_receiver_refused_spans_total",
        kind: Counter,
        labels: RECEIVER,
        help: REFUSED,
        samples: |snapshot| pushed(snapshot, Signal::Traces, |of| &of.refused),
    },
    Metric {
        name: "otelcol_receiver_accepted_metric_points_total",
        kind: Counter,
        labels: RECEIVER,
        help: ACCEPTED,
        samples: |snapshot| accepted(snapshot, Signal::Metrics),
    },
    Metric {
        name: "otelcol_receiver_refused_metric_points_total",
        kind: Counter,
        labels: RECEIVER,
        help: REFUSED,
        samples: |snapshot| pushed(snapshot, Signal::Metrics, |of| &of.refused),
    },
    Metric {
        name: "otelcol_receiver_accepted_log_records_total",
        kind: Counter,
        labels: RECEIVER,
        help: ACCEPTED,
        samples: |snapshot| accepted(snapshot, Signal::Logs),
    },
    Metric {
        name: "otelcol_receiver_refused_log_records_total",
        kind: Counter,
        labels: RECEIVER,
        help: REFUSED,
        samples: |snapshot| pushed(snapshot, Signal::Logs, |of| &of.refused),
    },
    Metric {
        name: "weir_receiver_unclaimed_items_total",
        kind: Counter,
        labels: &["signal"],
        help: "Items answered OK that no pipeline takes, because of their namespaces",
        samples: |snapshot| {
            let unclaimed = Signal::ALL.into_iter().zip(snapshot.receivers.unclaimed);
            Box::new(unclaimed.map(|(signal, items)| (vec![signal.name().into()], items.into())))
        },
    },
    Metric {
        name: "weir_receiver_itemless_requests_total",
        kind: Counter,
        labels: BY_SIGNAL,
        help: "Requests answered OK that were not empty, but had no item of their signal",
        samples: |snapshot| signals(snapshot, |of, signal| of.itemless[signal].into()),
    },
    Metric {
        name: "weir_receiver_refused_requests_total",
        kind: Counter,
        labels: &["transport", "reason"],
        help: "Requests refused, by reason",
        samples: |snapshot| {
            Box::new(snapshot.receivers.transports.iter().flat_map(|of| {
                let refusals = of.refusals.iter();
                refusals.map(|(reason, requests)| (vec![of.transport.into(), (*reason).into()], (*requests).into()))
            }))
        },
    },
    Metric {
        name: "weir_receiver_answer_seconds",
        kind: Histogram,
        labels: BY_SIGNAL,
        help: "Time from the head of a client's request to its answer, whatever that is",
        samples: |snapshot| signals(snapshot, |of, signal| (&of.answers[signal]).into()),
    },
    Metric {
        name: "weir_receiver_connections",
        kind: Gauge,
        labels: &[],
        help: "Open client connections",
        samples: |snapshot| one(snapshot.receivers.connections),
    },
    Metric {
        name: "weir_receiver_connections_refused_total",
        kind: Counter,
        labels: &[],
        help: "Connections closed at the limit on their number",
        samples: |snapshot| one(snapshot.receivers.connections_refused),
    },
    Metric {
        name: "weir_receiver_connections_retired_total",
        kind: Counter,
        labels: &[],
        help: "Connections whose clients were asked to connect anew by age, or because fewer are trusted",
        samples: |snapshot| one(snapshot.receivers.connections_retired),
    },
    Metric {
        name: "weir_receiver_tls_handshakes_failed_total",
        kind: Counter,
        labels: &[],
        help: "Connections whose TLS handshake failed: no TLS, no trusted client certificate",
        samples: |snapshot| one(snapshot.receivers.handshakes_failed),
    },
];

/// What clients pushed, and what sources in this process collected.
fn accepted(snapshot: &Snapshot, signal: Signal) -> Samples<'_> {
    let collected = snapshot.receivers.collected.iter().filter(move |of| of.signal == signal);
    let collected = collected.map(|of| (vec![of.input.into(), of.transport.into()], of.items.into()));
    Box::new(pushed(snapshot, signal, |of| &of.accepted).chain(collected))
}

fn pushed<'a>(
    snapshot: &'a Snapshot,
    signal: Signal,
    items: fn(&TransportFigures) -> &[u64; Signal::ALL.len()],
) -> Samples<'a> {
    let transports = snapshot.receivers.transports.iter();
    Box::new(transports.map(move |of| (vec!["otlp".into(), of.transport.into()], items(of)[signal as usize].into())))
}

fn signals<'a>(snapshot: &'a Snapshot, read: fn(&'a TransportFigures, usize) -> Value<'a>) -> Samples<'a> {
    Box::new(snapshot.receivers.transports.iter().flat_map(move |of| {
        let signals = Signal::ALL.into_iter();
        signals.map(move |signal| (vec![of.transport.into(), signal.name().into()], read(of, signal as usize)))
    }))
}
