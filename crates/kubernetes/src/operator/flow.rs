//! What became of the data: from the books of the nodes, asked every few seconds, to amounts of the last minutes.
//!
//! It keeps what every node said last, and sums for each round; no series, and nothing of nodes that are gone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use weir_plan::PipelineId;

use super::picture::{Answer, Books};

/// What counts as now.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);

/// Items of a pipeline within the window, on all nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) delivered: u64,
    /// Dropped here, or refused by the backend for good.
    pub(crate) lost: u64,
}

impl Amounts {
    fn add(&mut self, other: Self) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.lost = self.lost.saturating_add(other.lost);
    }
}

/// Rounds of answers.
#[derive(Default)]
pub(crate) struct Flow {
    rounds: VecDeque<(Instant, BTreeMap<PipelineId, Amounts>)>,
    /// By the names of pods.
    last: BTreeMap<String, BTreeMap<PipelineId, Books>>,
}

impl Flow {
    /// Takes the answers of a round. Nodes that are not among `pods` are forgotten.
    pub(crate) fn take(&mut self, now: Instant, answers: &BTreeMap<String, Answer>, is_there: impl Fn(&str) -> bool) {
        let mut round: BTreeMap<PipelineId, Amounts> = BTreeMap::new();
        for (pod, answer) in answers {
            let books = answer.pipelines.clone();
            // What was before the first answer of a pod was told before, or by nobody.
            if let Some(before) = self.last.get(pod) {
                for (id, now) in &books {
                    let amounts = increase(before.get(id).copied().unwrap_or_default(), *now);
                    round.entry(id.clone()).or_default().add(amounts);
                }
            }
            self.last.insert(pod.clone(), books);
        }
        self.last.retain(|pod, _| is_there(pod));
        self.rounds.push_back((now, round));
        self.rounds.retain(|(at, _)| now.duration_since(*at) < WINDOW);
    }

    /// The sums of all rounds.
    pub(crate) fn amounts(&self) -> BTreeMap<PipelineId, Amounts> {
        let mut sums: BTreeMap<PipelineId, Amounts> = BTreeMap::new();
        for (id, amounts) in self.rounds.iter().flat_map(|(_, round)| round) {
            sums.entry(id.clone()).or_default().add(*amounts);
        }
        sums
    }
}

/// A node that was started again counts from 0.
fn increase(before: Books, now: Books) -> Amounts {
    let is_older = now.delivered < before.delivered || now.dropped < before.dropped || now.rejected < before.rejected;
    let before = if is_older { Books::default() } else { before };
    let lost = (now.dropped - before.dropped).saturating_add(now.rejected - before.rejected);
    Amounts { delivered: now.delivered - before.delivered, lost }
}

/// A number as people say it: two digits that mean something, so that a status does not change with every item.
pub(crate) fn about(number: u64) -> String {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    let rounded = (number / unit * unit).to_string();
    let digits: Vec<char> = rounded.chars().collect();
    let groups: Vec<String> = digits.rchunks(3).rev().map(|group| group.iter().collect()).collect();
    let grouped = groups.join(",");
    if unit == 1 { grouped } else { format!("about {grouped}") }
}

#[cfg(test)]
mod tests {
    use weir_plan::Signal;

    use super::*;

    fn answer(delivered: u64, dropped: u64) -> Answer {
        let books = Books { delivered, dropped, ..Books::default() };
        let shop = PipelineId::new(Signal::Traces, "shop");
        Answer { pipelines: BTreeMap::from([(shop, books)]), ..Answer::default() }
    }

    #[tokio::test]
    async fn amounts_are_those_of_the_last_minutes_on_all_nodes() {
        let shop = PipelineId::new(Signal::Traces, "shop");
        let (mut flow, start) = (Flow::default(), Instant::now());
        let take = |flow: &mut Flow, seconds, a, b| {
            let answers = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
            flow.take(start + Duration::from_secs(seconds), &answers, |_| true);
            flow.amounts().get(&shop).copied()
        };
        assert_eq!(take(&mut flow, 0, answer(1000, 7), answer(50, 0)), None, "nobody knows when that was");
        let expected = Some(Amounts { delivered: 30, lost: 1 });
        assert_eq!(take(&mut flow, 15, answer(1010, 8), answer(70, 0)), expected);
        // One was started again.
        assert_eq!(take(&mut flow, 30, answer(5, 2), answer(70, 0)), Some(Amounts { delivered: 35, lost: 3 }));
        let expected = Some(Amounts { delivered: 0, lost: 0 });
        assert_eq!(take(&mut flow, 400, answer(5, 2), answer(70, 0)), expected, "too long ago");
    }

    #[test]
    fn nodes_that_are_gone_are_forgotten() {
        let mut flow = Flow::default();
        let answers = BTreeMap::from([("a".to_owned(), answer(1, 0))]);
        flow.take(Instant::now(), &answers, |_| true);
        flow.take(Instant::now(), &BTreeMap::new(), |_| false);
        assert!(flow.last.is_empty());
    }

    #[test]
    fn numbers_are_said_roughly() {
        let told = [0, 7, 99, 100, 128, 1234, 99_999, 1_000_000].map(about);
        assert_eq!(told, ["0", "7", "99", "about 100", "about 120", "about 1,200", "about 99,000", "about 1,000,000"]);
    }
}
