//! All matches in a text, one after the other, as long as that takes linear time.
//!
//! One search takes linear time, but may look at all that is left of the text though what it finds is short: for
//! `(\d+)(?: .*ms)?`, each number may be followed to the end of its line. So finding all matches may take the square of
//! the text. The engine does not say how far it looked. Therefore each search counts as one that looked at all that was
//! left, which costs nothing, and is enough for texts that are short or have few matches. When it no longer is, the
//! automaton of the pattern is stepped through what each search looked at, and only its steps count.

use std::sync::{Mutex, OnceLock, PoisonError};

use regex::{CaptureMatches, Captures};
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;

use crate::{MAX_STATES_BYTES, Regex};

/// How many times as much as there is of a text may be looked at by searches that are not measured, and then by those
/// that are: each of them may look ahead as far as its pattern counts, which takes linear time.
const MAX_LOOKS: usize = 64;
const MAX_MEASURED_LOOKS: usize = 256;

/// What may be looked at for the sake of any text, in bytes: a short text may take the square of its length.
const MIN_LOOKS_BYTES: usize = 16 << 10;

/// Finding all matches in a text would take more than linear time, so the others are not looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

/// The groups of all matches in a text. The last item may be an error.
#[derive(Debug)]
pub struct Matches<'r, 't> {
    regex: &'r Regex,
    text: &'t str,
    /// `None` behind an error.
    found: Option<CaptureMatches<'r, 't>>,
    /// Where the next search starts.
    from: usize,
    /// Bytes that may still be looked at.
    left: usize,
    /// There is one as soon as searches are measured.
    measure: Option<Measure<'r>>,
}

impl<'r, 't> Matches<'r, 't> {
    pub(crate) fn new(regex: &'r Regex, text: &'t str) -> Self {
        let found = Some(regex.engine.captures_iter(text));
        Self { regex, text, found, from: 0, left: max_looks(text, MAX_LOOKS), measure: None }
    }

    /// Counts what the last search looked at.
    fn count(&mut self) -> Result<(), TooSlow> {
        let measure = match &mut self.measure {
            Some(measure) => measure,
            None => {
                if let Some(left) = self.left.checked_sub(self.text.len() - self.from) {
                    self.left = left;
                    return Ok(());
                }
                self.left = max_looks(self.text, MAX_MEASURED_LOOKS);
                self.measure.insert(self.regex.reach.measure(self.regex.engine.as_str()).ok_or(TooSlow)?)
            }
        };
        let looked = measure.looked(self.text, self.from, self.left)?;
        self.left -= looked;
        Ok(())
    }
}

impl<'t> Iterator for Matches<'_, 't> {
    type Item = Result<Captures<'t>, TooSlow>;

    fn next(&mut self) -> Option<Self::Item> {
        let captures = self.found.as_mut()?.next()?;
        if let Err(error) = self.count() {
            self.found = None;
            return Some(Err(error));
        }
        self.from = captures.get(0).map_or(self.from, |whole| whole.end());
        Some(Ok(captures))
    }
}

fn max_looks(text: &str, times: usize) -> usize {
    text.len().saturating_mul(times).max(MIN_LOOKS_BYTES)
}

/// What is needed to measure the searches of a pattern. Few patterns ever need it, so it is made when one does.
#[derive(Debug)]
pub(crate) struct Reach {
    max_compiled: usize,
    nest_limit: u32,
    /// `None` when it cannot be made, which is so of no pattern that the engine has taken.
    automaton: OnceLock<Option<DFA>>,
    /// The states of the automaton, while nobody uses them.
    states: Mutex<Option<Cache>>,
}

impl Reach {
    pub(crate) const fn new(max_compiled: usize, nest_limit: u32) -> Self {
        Self { max_compiled, nest_limit, automaton: OnceLock::new(), states: Mutex::new(None) }
    }

    fn measure(&self, pattern: &str) -> Option<Measure<'_>> {
        let automaton = self.automaton.get_or_init(|| self.build(pattern)).as_ref()?;
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some(Measure { automaton, states, home: &self.states })
    }

    /// The automaton that the engine has, too: of the same pattern, within the same limits. The engine does without it
    /// if the pattern needs more room for states. Here it gets what it needs, little more than the pattern takes.
    fn build(&self, pattern: &str) -> Option<DFA> {
        let states = DFA::config().cache_capacity(self.max_compiled.min(MAX_STATES_BYTES));
        let compiled = thompson::Config::new().nfa_size_limit(Some(self.max_compiled));
        DFA::builder()
            .configure(states.skip_cache_capacity_check(true))
            .syntax(syntax::Config::new().nest_limit(self.nest_limit))
            .thompson(compiled.which_captures(WhichCaptures::None))
            .build(pattern)
            .ok()
    }
}

/// Measures searches in one text.
#[derive(Debug)]
struct Measure<'r> {
    automaton: &'r DFA,
    states: Option<Cache>,
    home: &'r Mutex<Option<Cache>>,
}

impl Measure<'_> {
    /// How many bytes are looked at to find the match behind `from`.
    ///
    /// # Errors
    /// When they are more than `most`.
    fn looked(&mut self, text: &str, from: usize, most: usize) -> Result<usize, TooSlow> {
        let first = self.search(text, from, most)?;
        if !first.is_empty {
            return Ok(first.looked);
        }
        // An empty match right behind another one does not count, so there was a second search.
        let second = self.search(text, from + 1, most - first.looked)?;
        Ok(first.looked + second.looked)
    }

    fn search(&mut self, text: &str, from: usize, most: usize) -> Result<Search, TooSlow> {
        let automaton = self.automaton;
        let states = self.states.get_or_insert_with(|| automaton.create_cache());
        let input = Input::new(text).range(from..);
        let mut state = automaton.start_state_forward(states, &input).map_err(|_| TooSlow)?;
        let mut search = Search { looked: 0, is_empty: false };
        for byte in text.bytes().skip(from) {
            if search.looked == most {
                return Err(TooSlow);
            }
            state = automaton.next_state(states, state, byte).map_err(|_| TooSlow)?;
            // It says with the byte behind a match that there is one.
            if state.is_match() {
                search.is_empty = search.looked == 0;
            }
            search.looked += 1;
            if state.is_dead() {
                break;
            }
        }
        Ok(search)
    }
}

/// What one search did.
struct Search {
    looked: usize,
    /// It found an empty match where it started.
    is_empty: bool,
}

impl Drop for Measure<'_> {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.states.take();
    }
}
