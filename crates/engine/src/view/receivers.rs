//! Figures of what clients sent.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_plan::Signal;

use crate::counters::BySignal;
use crate::histogram::HistogramFigures;
use crate::inlet::InputKind;
use crate::intake::Intake;
use crate::receive::{Counters, Lack, REASONS, ReceiverStats};

/// A figure for each signal, in the order of [`Signal::ALL`].
type EachSignal<T> = [T; Signal::ALL.len()];

/// What receivers count, since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverFigures {
    /// OTLP over gRPC and over HTTP.
    pub transports: [TransportFigures; 2],
    /// What sources in this process collected.
    pub collected: [CollectedFigures; InputKind::COLLECTED.len()],
    /// Items answered OK that no pipeline takes, because of their namespaces.
    pub unclaimed: EachSignal<u64>,
    /// Client connections that are open now.
    pub connections: u64,
    /// Connections closed at the limit on their number.
    pub connections_refused: u64,
    /// Connections that were asked to go away because they were old, or because some who could connect when they came may
    /// not do so any more.
    pub connections_retired: u64,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
}

/// What sources of one kind collected in this process, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectedFigures {
    /// Of their items.
    pub signal: Signal,
    /// The input, as specifications call it.
    pub input: &'static str,
    /// `http` or `file`.
    pub transport: &'static str,
    /// Items that became safe. What pipelines want in several shapes counts for each of them, and what is offered again because
    /// one pipeline had no room may count again.
    pub items: u64,
}

/// What came over one transport, since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportFigures {
    /// `grpc` or `http`.
    pub transport: &'static str,
    /// Items answered OK.
    pub accepted: EachSignal<u64>,
    /// Items whose client was asked to send them again after they were counted.
    pub refused: EachSignal<u64>,
    /// Requests answered OK that were not empty, but had no item of their signal.
    pub itemless: EachSignal<u64>,
    /// Requests refused, by reason.
    pub refusals: [(&'static str, u64); REASONS.len()],
    /// Requests of these that are to come again because there was no room, in the order of [`Lack::ALL`].
    pub turned_away: [EachSignal<u64>; Lack::ALL.len()],
    /// Time from a request's head to its answer.
    pub answers: EachSignal<HistogramFigures>,
}

impl ReceiverFigures {
    pub(super) fn of(stats: &ReceiverStats, intake: &Intake) -> Self {
        Self {
            transports: [TransportFigures::of("grpc", &stats.grpc), TransportFigures::of("http", &stats.http)],
            collected: std::array::from_fn(|index| {
                let (signal, input, transport) = InputKind::COLLECTED[index];
                CollectedFigures { signal, input, transport, items: load(&intake.collected[index]) }
            }),
            unclaimed: loaded(&intake.unclaimed),
            connections: load(&stats.connections),
            connections_refused: load(&stats.connections_refused),
            connections_retired: load(&stats.connections_retired),
            handshakes_failed: load(&stats.handshakes_failed),
        }
    }
}

impl TransportFigures {
    fn of(transport: &'static str, counters: &Counters) -> Self {
        Self {
            transport,
            accepted: loaded(&counters.accepted),
            refused: loaded(&counters.refused),
            itemless: loaded(&counters.itemless),
            refusals: std::array::from_fn(|reason| (REASONS[reason], load(&counters.refusals[reason]))),
            turned_away: counters.turned_away.each_ref().map(loaded),
            answers: counters.answers.each_ref().map(crate::histogram::Histogram::figures),
        }
    }
}

fn loaded(counters: &BySignal) -> EachSignal<u64> {
    counters.each_ref().map(load)
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
