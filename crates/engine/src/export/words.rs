//! What is shown of the words of a backend. It may quote what it refuses, so what looks like a secret or like data of a
//! person is hidden here, for all who show its words: the log, statuses, pages, samples.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use weir_legible::without_private;

use super::outcome::MAX_MESSAGE_CHARS;

/// So much is looked at. It is more than is kept, as what is hidden may end behind that.
const LOOKED_AT_CHARS: usize = 2 * MAX_MESSAGE_CHARS;

/// The last words, which are not looked through again: a backend that refuses each request mostly repeats itself.
#[derive(Default)]
pub(super) struct LastWords(Mutex<Option<Said>>);

struct Said {
    words: String,
    shown: String,
}

impl LastWords {
    /// What is shown of words.
    pub(super) fn hide(&self, words: &str) -> String {
        let words = beginning(words);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = last.as_ref().filter(|said| said.words == words) {
            return said.shown.clone();
        }
        let shown = without_private(words).into_owned();
        *last = Some(Said { words: words.to_owned(), shown: shown.clone() });
        shown
    }
}

/// Words that nobody has looked through are not printed.
impl fmt::Debug for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastWords").finish_non_exhaustive()
    }
}

fn beginning(words: &str) -> &str {
    let end = words.char_indices().nth(LOOKED_AT_CHARS).map_or(words.len(), |(at, _)| at);
    &words[..end]
}

#[cfg(test)]
mod tests {
    use super::super::{About, Outcome};
    use super::*;

    #[test]
    fn the_same_words_are_looked_through_once() {
        let last = LastWords::default();
        for (words, shown) in [("no a@b.org", "no [redacted]"), ("no a@b.org", "no [redacted]"), ("no", "no")] {
            assert_eq!(last.hide(words), shown);
        }
        // What is remembered is what is shown.
        last.0.lock().unwrap().as_mut().unwrap().shown = "remembered".to_owned();
        assert_eq!((last.hide("no"), last.hide("yes")), ("remembered".to_owned(), "yes".to_owned()));
        assert!(!format!("{last:?}").contains("yes"));
    }

    #[test]
    fn what_ends_behind_the_end_is_hidden() {
        let (last, before) = (LastWords::default(), "€".repeat(MAX_MESSAGE_CHARS - 4));
        let refused = Outcome::refused(About::Data, "400", format!("{before} anna.smith@example.com"));
        let shown = refused.hiding(&last).legible();
        assert_eq!(shown.message(), Some(format!("{before} [re").as_str()));
        let long = "€".repeat(10 * LOOKED_AT_CHARS);
        assert_eq!(last.hide(&long), "€".repeat(LOOKED_AT_CHARS));
    }

    #[test]
    fn our_own_words_stay() {
        let last = LastWords::default();
        for ours in [Outcome::unsent("no token: a@b.org"), Outcome::silence("no token: a@b.org")] {
            assert_eq!(ours.hiding(&last).message(), Some("no token: a@b.org"));
        }
        let partial = Outcome::Delivered { rejected: 1, message: "not a@b.org".to_owned() };
        let taken = Outcome::Delivered { rejected: 0, message: String::new() };
        for (said, shown) in [
            (partial, Some("not [redacted]")),
            (Outcome::retry("later, a@b.org"), Some("later, [redacted]")),
            (taken, None),
        ] {
            assert_eq!(said.hiding(&last).message(), shown);
        }
    }
}
