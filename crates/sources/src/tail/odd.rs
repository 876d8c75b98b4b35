//! What the log says of output that was not read as it was written: soon, and then once an hour.

use std::mem;
use std::time::{Duration, Instant};

use super::path::ContainerName;
use super::reading::Counts;

/// Some containers print such lines all the time, which is no news.
const SAID_EVERY: Duration = Duration::from_secs(3600);

/// What was odd since the log said so last, of all containers.
#[derive(Debug, Default)]
pub(super) struct Odd {
    /// Whose output was the first.
    container: Option<ContainerName>,
    counts: Counts,
    /// There is more than at the last look.
    is_news: bool,
    /// When the log said so.
    said: Option<Instant>,
    /// How many looks found more since then.
    left_out: u64,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    container: ContainerName,
    counts: Counts,
    left_out: u64,
}

/// Whether something of it was not read as it was written. Plain lines were.
pub(super) fn is_odd(counts: &Counts) -> bool {
    Counts { records: 0, bytes: 0, plain: 0, ..*counts } != Counts::default()
}

impl Odd {
    /// Counts what is odd in what was read of a container.
    pub(super) fn add(&mut self, container: &ContainerName, counts: &Counts) {
        self.container.get_or_insert_with(|| container.clone());
        self.counts.add(counts);
        self.is_news = true;
    }

    /// What there is to say at a look at this time, once. When the process `ends`, that is all there is.
    pub(super) fn due(&mut self, now: Instant, ends: bool) -> Option<Line> {
        let is_news = mem::take(&mut self.is_news);
        if !ends && self.said.is_some_and(|said| now.duration_since(said) < SAID_EVERY) {
            self.left_out += u64::from(is_news);
            return None;
        }
        let container = self.container.take()?;
        self.said = Some(now);
        Some(Line { container, counts: mem::take(&mut self.counts), left_out: mem::take(&mut self.left_out) })
    }
}

impl Line {
    pub(super) fn say(&self) {
        let Self { container, counts, left_out } = self;
        let Counts { malformed, unparsed, cut, shortened, not_utf8, nul_bytes, .. } = *counts;
        tracing::warn!(
            %container,
            malformed,
            unparsed,
            cut,
            shortened,
            not_utf8,
            nul_bytes,
            left_out,
            advice = "look at what this container prints; /logs on the admin port has the figures of each",
            "container logs are malformed or had to be changed, those of this container first; the figures are of all \
             containers, since the last such line"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a minute, between two looks.
    const LOOK: Duration = Duration::from_secs(30);

    fn name(container: &str) -> ContainerName {
        ContainerName::parse("shop_cart_1", container).unwrap()
    }

    fn line(container: &str, malformed: u64, left_out: u64) -> Option<Line> {
        let counts = Counts { malformed, ..Counts::default() };
        Some(Line { container: name(container), counts, left_out })
    }

    #[test]
    fn what_is_odd_all_the_time_is_said_once_an_hour() {
        let (mut odd, began) = (Odd::default(), Instant::now());
        let mut said = Vec::new();
        for look in 0..241 {
            odd.add(&name("a"), &Counts { malformed: 2, ..Counts::default() });
            odd.add(&name("b"), &Counts { malformed: 1, ..Counts::default() });
            said.extend(odd.due(began + LOOK * look, false).map(|line| (look, Some(line))));
        }
        assert_eq!(said, [(0, line("a", 3, 0)), (120, line("a", 360, 119)), (240, line("a", 360, 119))]);
        assert_eq!(odd.due(began + LOOK * 241, true), None, "nothing is said twice");
    }

    /// What had no line is told also if nothing follows, with whose it was.
    #[test]
    fn what_was_left_out_is_said_in_the_end() {
        for (look, ends) in [(120, false), (3, true)] {
            let (mut odd, began) = (Odd::default(), Instant::now());
            odd.add(&name("a"), &Counts { malformed: 1, ..Counts::default() });
            assert_eq!(odd.due(began, false), line("a", 1, 0));
            odd.add(&name("b"), &Counts { malformed: 5, ..Counts::default() });
            assert_eq!([1, 2].map(|look| odd.due(began + LOOK * look, false)), [None, None]);
            assert_eq!(odd.due(began + LOOK * look, ends), line("b", 5, 1));
        }
    }

    #[test]
    fn plain_lines_are_as_they_were_written() {
        assert!(!is_odd(&Counts { records: 1, bytes: 2, plain: 1, ..Counts::default() }));
        assert!(is_odd(&Counts { records: 1, not_utf8: 1, ..Counts::default() }));
    }
}
