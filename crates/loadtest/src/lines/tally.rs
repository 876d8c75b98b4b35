//! Which lines arrived, how often, and in which order.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Finding, LineId, Stream};
use crate::ids::IdSet;

/// The books about the lines of `weir load log-files`.
#[derive(Debug, Default)]
pub(crate) struct LineTally {
    streams: HashMap<(u32, Stream), Arrivals>,
    damaged: u64,
    unmarked: u64,
}

impl LineTally {
    /// Books what was found, in order of arrival; says how many lines are new.
    pub(crate) fn add(&mut self, findings: &[Finding]) -> u64 {
        let mut new = 0;
        for finding in findings {
            match *finding {
                Finding::Line(LineId { container, stream, sequence }) => {
                    new += u64::from(self.streams.entry((container, stream)).or_default().add(sequence));
                }
                Finding::Damaged => self.damaged += 1,
                Finding::Unmarked => self.unmarked += 1,
            }
        }
        new
    }

    /// The books as they are now; what arrived of each stream only on request.
    pub(crate) fn report(&self, with_ids: bool) -> LineReport {
        let sum = |count: fn(&Arrivals) -> u64| self.streams.values().map(count).sum();
        let mut streams: Vec<StreamReport> = if with_ids {
            self.streams.iter().map(|(&(container, stream), arrivals)| arrivals.report(container, stream)).collect()
        } else {
            Vec::new()
        };
        streams.sort_unstable_by_key(|report| (report.container, report.stream));
        LineReport {
            received: sum(|arrivals| arrivals.received),
            duplicates: sum(|arrivals| arrivals.duplicates),
            reordered: sum(|arrivals| arrivals.reordered),
            damaged: self.damaged,
            unmarked: self.unmarked,
            streams,
        }
    }
}

/// What arrived of one stream.
#[derive(Debug, Default)]
struct Arrivals {
    seen: IdSet,
    /// The latest that came one after the other, not yet in `seen`: nearly all lines come so, and cost nothing.
    run: Option<RangeInclusive<u64>>,
    highest: u64,
    received: u64,
    duplicates: u64,
    reordered: u64,
}

impl Arrivals {
    /// Says whether it is new.
    fn add(&mut self, sequence: u64) -> bool {
        self.received += 1;
        if let Some(run) = &mut self.run
            && *run.end() == self.highest
            && run.end().checked_add(1) == Some(sequence)
        {
            *run = *run.start()..=sequence;
            self.highest = sequence;
            return true;
        }
        if let Some(run) = self.run.take() {
            self.seen.insert(run);
        }
        if self.seen.insert(sequence..=sequence) == 0 {
            self.duplicates += 1;
            return false;
        }
        if sequence < self.highest {
            self.reordered += 1;
        } else {
            self.run = Some(sequence..=sequence);
            self.highest = sequence;
        }
        true
    }

    fn report(&self, container: u32, stream: Stream) -> StreamReport {
        let mut seen = self.seen.clone();
        if let Some(run) = &self.run {
            seen.insert(run.clone());
        }
        StreamReport {
            container,
            stream,
            received: self.received,
            duplicates: self.duplicates,
            reordered: self.reordered,
            seen: seen.ranges(),
        }
    }
}

/// What arrived of the lines of `weir load log-files`, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LineReport {
    /// Whole lines, duplicates included.
    pub received: u64,
    /// Lines that had arrived before.
    pub duplicates: u64,
    /// Lines that arrived for the first time after a later one of their stream.
    pub reordered: u64,
    /// Records that begin like a line and were cut, or put together wrongly.
    pub damaged: u64,
    /// Records without a line: of somebody else, or a part of a line that was not joined to the others.
    pub unmarked: u64,
    /// Each stream of each container, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamReport>,
}

/// What arrived of one stream of one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The container's number.
    pub container: u32,
    /// The stream.
    pub stream: Stream,
    /// Lines, duplicates included.
    pub received: u64,
    /// Lines that had arrived before.
    pub duplicates: u64,
    /// Lines that arrived for the first time after a later one.
    pub reordered: u64,
    /// Sequences that arrived, as inclusive ranges.
    pub seen: Vec<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(sequences: impl IntoIterator<Item = u64>) -> StreamReport {
        let mut arrivals = Arrivals::default();
        for sequence in sequences {
            arrivals.add(sequence);
        }
        arrivals.report(0, Stream::Stdout)
    }

    #[test]
    fn order_and_repetition_are_counted_one_by_one() {
        for (sequences, duplicates, reordered, seen) in [
            (vec![1, 2, 3, 4], 0, 0, vec![(1, 4)]),
            (vec![1, 2, 4, 5], 0, 0, vec![(1, 2), (4, 5)]),
            (vec![1, 3, 2, 4], 0, 1, vec![(1, 4)]),
            (vec![1, 2, 2, 3], 1, 0, vec![(1, 3)]),
            (vec![1, 2, 3, 1, 2, 3, 4], 3, 0, vec![(1, 4)]),
            (vec![4, 5, 6, 1, 2, 3, 7], 0, 3, vec![(1, 7)]),
            (vec![4, 1, 4, 1, 5], 2, 1, vec![(1, 1), (4, 5)]),
            (vec![], 0, 0, vec![]),
        ] {
            let report = arrivals(sequences.clone());
            assert_eq!(
                (report.duplicates, report.reordered, report.seen),
                (duplicates, reordered, seen),
                "{sequences:?}"
            );
            assert_eq!(report.received, sequences.len() as u64);
        }
    }
}
