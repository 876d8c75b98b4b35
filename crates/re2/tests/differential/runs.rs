//! The runs.

use fastrand::Rng;
use weir_re2::{Error, Regex};

use crate::generate::{Question, question};
use crate::go::{self, Found};

const PATTERNS: usize = 10_000;

/// How many of a hundred patterns both must take, both must refuse, and must match at least one of their texts: a run
/// that compares nothing proves nothing.
const LEAST_TAKEN: usize = 50;
const LEAST_REFUSED: usize = 10;
const LEAST_MATCHING: usize = 30;
/// How many of a hundred may be too large here.
const MOST_TOO_LARGE: usize = 2;

fn seed() -> u64 {
    let seed = weir_testkit::seed("OTTL_SEED");
    println!("OTTL_SEED={seed}");
    seed
}

fn find(regex: &Regex, question: &Question) -> Found {
    let mut found = Found { groups: regex.group_names().to_vec(), matches: Vec::new(), replaced: Vec::new() };
    for text in &question.texts {
        let (mut matches, mut replaced, mut done) = (Vec::new(), String::new(), 0);
        for captures in regex.captures_iter(text) {
            let captures = captures.unwrap();
            let place = |group: usize| captures.get(group).map(|group| (group.start(), group.end()));
            let places: Vec<_> = (0..found.groups.len()).map(place).collect();
            let (start, end) = places[0].unwrap();
            replaced.push_str(&text[done..start]);
            regex.expand(&captures, &question.template, &mut replaced);
            done = end;
            matches.push(places);
        }
        replaced.push_str(&text[done..]);
        found.matches.push(matches);
        found.replaced.push(replaced);
    }
    found
}

#[derive(Debug, Default)]
struct Counts {
    taken: usize,
    refused: usize,
    matching: usize,
    too_large: usize,
}

impl Counts {
    /// How the two differ about a question, if they do.
    fn compare(&mut self, question: &Question, theirs: Result<Found, String>) -> Option<String> {
        let ours = Regex::new(&question.pattern, 1 << 20, 64);
        let difference = match (ours, theirs) {
            (Err(Error::TooLarge), _) => {
                self.too_large += 1;
                return None;
            }
            (Ok(regex), Ok(theirs)) => {
                self.taken += 1;
                self.matching += usize::from(theirs.matches.iter().any(|matches| !matches.is_empty()));
                let ours = find(&regex, question);
                if ours == theirs {
                    return None;
                }
                format!("ours:   {ours:?}\n    theirs: {theirs:?}")
            }
            (Err(_), Err(_)) => {
                self.refused += 1;
                return None;
            }
            (Ok(_), Err(reason)) => format!("only Go refuses it: {reason}"),
            (Err(reason), Ok(_)) => format!("only we refuse it: {reason}"),
        };
        Some(format!("{:?} {:?} {:?}\n    {difference}", question.pattern, question.texts, question.template))
    }
}

#[test]
fn generated_patterns_mean_what_they_mean_in_go() {
    let mut rng = Rng::with_seed(seed());
    let questions: Vec<Question> = (0..PATTERNS).map(|_| question(&mut rng)).collect();
    let mut counts = Counts::default();
    let differences: Vec<String> = questions
        .iter()
        .zip(go::ask(&questions))
        .filter_map(|(question, theirs)| counts.compare(question, theirs))
        .collect();
    println!("of {PATTERNS} patterns: {counts:?}");
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    assert!(counts.taken * 100 >= PATTERNS * LEAST_TAKEN, "too few patterns are compared: {counts:?}");
    assert!(counts.refused * 100 >= PATTERNS * LEAST_REFUSED, "too few patterns are refused: {counts:?}");
    assert!(counts.matching * 100 >= PATTERNS * LEAST_MATCHING, "too few patterns match: {counts:?}");
    assert!(counts.too_large * 100 <= PATTERNS * MOST_TOO_LARGE, "too many patterns are too large: {counts:?}");
}
