//! Logs what comes again with each list, such as the warnings of a configuration that changes: what is new in a list at
//! once, and the rest seldom.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

/// What stays has another line in the first list that comes this long after its last.
const EVERY: Duration = Duration::from_secs(12 * 3600);

/// What the last list had, and when each of it had its line.
#[derive(Debug, Default)]
pub struct Recurring(BTreeMap<String, Instant>);

impl Recurring {
    /// What of a list is worth a line now. Each has a text with it, by which it is known when it comes again.
    pub fn due<T>(&mut self, list: impl IntoIterator<Item = (String, T)>, now: impl Into<Instant>) -> Vec<T> {
        let (now, before) = (now.into(), mem::take(&mut self.0));
        let mut due = Vec::new();
        for (text, one) in list {
            let said = before.get(&text).copied().filter(|said| now.duration_since(*said) < EVERY);
            if said.is_none() {
                due.push(one);
            }
            self.0.insert(text, said.unwrap_or(now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LEGIBLE-4.
    #[test]
    fn of_a_list_what_is_new_has_a_line_and_what_stays_has_another_after_half_a_day() {
        let (mut recurring, now) = (Recurring::default(), Instant::now());
        let mut due = |hour: u32, list: &[&'static str]| {
            recurring.due(list.iter().map(|one| ((*one).to_owned(), *one)), now + hour * Duration::from_secs(3600))
        };
        assert_eq!(due(0, &["old"]), ["old"]);
        assert_eq!(due(1, &["new", "old"]), ["new"]);
        assert_eq!(due(11, &["new", "old"]), [""; 0]);
        assert_eq!(due(12, &["new", "old"]), ["old"]);
        assert_eq!(due(13, &["old"]), [""; 0]);
        assert_eq!(due(14, &["new", "old"]), ["new"], "the list before did not have it");
    }
}
