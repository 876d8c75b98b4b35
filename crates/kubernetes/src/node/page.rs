//! The page on which a node says how it and its pipelines are. The operator and `weir doctor` read it.
//!
//! It has to be read when most is wrong, so it is never longer than what they read, whatever backends say: words are
//! there once, and where very many pipelines are in trouble, each says fewer of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use weir_observe::Verdict;

/// Where it is, on the port of the metrics.
pub const PAGE: &str = "/node";

/// What a page may take beside what it may take for each pipeline: so the words of a few hundred need not be shortened.
const BASE_BYTES: usize = 512 << 10;
/// What it may take for each pipeline. Without words an entry is shorter, even one with the longest name, and with
/// numbers of twenty digits.
const BYTES_PER_PIPELINE: usize = 2 << 10;
/// The words of backends have no more than that: a message of 500 characters, and a code.
const MOST_CHARS: usize = 1 << 10;
/// Of an error so much is told.
pub(crate) const MOST_CHARS_OF_ERROR: usize = 4000;
/// So many codes of refusals are told of a pipeline: a backend can think of hundreds.
const MOST_CODES: usize = 7;
/// All other codes together.
const OTHER_CODES: &str = "other";

/// The longest page of a node with so many pipelines. With 768 of them, as many as run by default, it is 2 MiB, which
/// is what earlier versions read.
pub const fn most_page_bytes(pipelines: usize) -> usize {
    BASE_BYTES.saturating_add(BYTES_PER_PIPELINE.saturating_mul(pipelines))
}

/// What a node says of itself.
#[derive(Debug, Serialize)]
pub struct NodePage<'a> {
    /// Of the configuration that runs.
    pub revision: Option<&'a str>,
    /// Why a newer one does not.
    pub error: Option<&'a str>,
    /// What this process does beside delivering what it has.
    pub roles: Vec<&'static str>,
    /// Clients that are connected.
    pub connections: u64,
    /// Those that run.
    pub pipelines: Vec<PipelineOfPage<'a>>,
}

/// Items of a pipeline since the start, and what is known of how they flow.
#[derive(Debug, Serialize)]
pub struct PipelineOfPage<'a> {
    /// Its id.
    pub pipeline: String,
    /// Items that the backend took.
    pub delivered: u64,
    /// Items that were given up, by reason.
    pub dropped: &'a BTreeMap<&'static str, u64>,
    /// Items that the backend refused, by code: see [`most_frequent`].
    pub rejected: BTreeMap<&'a str, u64>,
    /// What is owed to the backend now.
    pub pending: u64,
    /// What of it waits, in memory or on the disk.
    pub pending_bytes: u64,
    /// What the backend does.
    pub backend: BackendOfPage<'a>,
    /// What the self monitor found out.
    pub verdict: Verdict,
}

/// What the backend does with what it is sent.
#[derive(Debug, Serialize)]
pub struct BackendOfPage<'a> {
    /// `ok` as well if no request to it has ended yet.
    pub state: &'static str,
    /// Whether one has, since it is configured as it is.
    pub tried: bool,
    /// With which code it refuses.
    pub code: &'a str,
    /// In which words it does. On the page they are empty where those of the trouble say it.
    pub message: &'a str,
}

/// Items by the codes that most of them have, and those of all other codes together.
pub fn most_frequent(codes: &BTreeMap<String, u64>) -> BTreeMap<&str, u64> {
    let mut all: Vec<_> = codes.iter().map(|(code, items)| (code.as_str(), *items)).collect();
    all.sort_by_key(|(_, items)| Reverse(*items));
    let others = all.split_off(all.len().min(MOST_CODES));
    let mut told: BTreeMap<_, _> = all.into_iter().collect();
    if !others.is_empty() {
        let items = others.iter().fold(0, |sum: u64, (_, items)| sum.saturating_add(*items));
        told.insert(OTHER_CODES, items);
    }
    told
}

impl NodePage<'_> {
    /// Says words once, and fewer of them where the page would be longer than it may be. Returns how long it is.
    ///
    /// # Errors
    /// When something of it cannot be written as JSON.
    pub fn fit(&mut self) -> io::Result<usize> {
        self.error = self.error.map(|error| first(error, MOST_CHARS_OF_ERROR));
        self.pipelines.iter_mut().for_each(PipelineOfPage::say_once);
        let (most, mut chars) = (most_page_bytes(self.pipelines.len()), MOST_CHARS);
        loop {
            let mut length = Length(0);
            self.write(&mut length)?;
            if length.0 <= most || chars == 0 {
                return Ok(length.0);
            }
            chars /= 2;
            self.pipelines.iter_mut().for_each(|of| of.shorten(chars));
        }
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

impl PipelineOfPage<'_> {
    /// The words of a trouble are mostly those of the backend: earlier operators read them there, and earlier doctors
    /// tell the code alone.
    fn say_once(&mut self) {
        if self.verdict.trouble.as_ref().is_some_and(|trouble| trouble.words.ends_with(self.backend.message)) {
            self.backend.message = "";
        }
    }

    fn shorten(&mut self, chars: usize) {
        self.backend.message = first(self.backend.message, chars);
        if let Some(trouble) = &mut self.verdict.trouble {
            let length = first(&trouble.words, chars).len();
            trouble.words.truncate(length);
        }
    }
}

/// The beginning of a text.
pub(crate) fn first(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map(|(at, _)| at);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// Counts what is written.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use weir_observe::{Amounts, BeforeBooks, EarlyLoss, Kept, Roles, State, Trouble, TurnedAway, message};

    use super::*;
    use crate::operator::flow::Troubled;
    use crate::operator::picture::Answer;

    const REASONS: [&str; 6] =
        ["backlog_age", "backlog_full", "disk_full", "journal_damaged", "memory_full", "shutdown"];
    /// As many as run by default, with 2 GiB for each node, and with more.
    const PIPELINES: [usize; 3] = [768, 1536, 4096];
    /// Four bytes, or two in JSON.
    const CHARS: [char; 2] = ['\u{1f525}', '"'];

    fn verdict(words: String) -> Verdict {
        let most = u64::MAX;
        let amounts = Amounts {
            delivered: most,
            dropped: most,
            rejected: most,
            before_books: BeforeBooks { items: most, last: EarlyLoss::Overwritten },
            refused: most,
            requests: most,
            turned_away: most,
            turned_away_for: TurnedAway { no_memory: most, pipelines_full: most, disk: most, busy: most },
        };
        let kept = Kept {
            items: most,
            bytes: most,
            room_bytes: most,
            room_seconds: Some(most),
            disk_free_bytes: Some(most),
            disk_is_scarce: true,
            full_in_seconds: Some(most),
        };
        let state = State::NothingDelivered;
        let trouble = Trouble { state, since: most, amounts, kept, may_be_slow: true, fails_here: true, words };
        Verdict { roles: Roles::default(), delivers: false, trouble: Some(Box::new(trouble)) }
    }

    /// A page on which every pipeline has a trouble, with everything as long as it can be.
    pub(crate) fn of_troubles(pipelines: usize, char: char) -> Vec<u8> {
        let dropped = BTreeMap::from(REASONS.map(|reason| (reason, u64::MAX)));
        let codes: BTreeMap<_, _> =
            (0..900).map(|number| (format!("FAILED_PRECONDITION_{number}"), u64::MAX)).collect();
        let rejected = most_frequent(&codes);
        let message = String::from(char).repeat(500);
        let of = |number: usize| PipelineOfPage {
            pipeline: format!("metrics/{number:0>253}"),
            delivered: u64::MAX,
            dropped: &dropped,
            rejected: rejected.clone(),
            pending: u64::MAX,
            pending_bytes: u64::MAX,
            backend: BackendOfPage {
                state: "unreachable",
                tried: false,
                code: "FAILED_PRECONDITION",
                message: &message,
            },
            verdict: verdict(format!("FAILED_PRECONDITION: {message}")),
        };
        let error = message.repeat(100);
        let mut page = NodePage {
            revision: Some("5f1d0c6e9a7b2c34"),
            error: Some(&error),
            roles: vec!["gateway", "logs", "metrics"],
            connections: u64::MAX,
            pipelines: (0..pipelines).map(of).collect(),
        };
        let (length, mut written) = (page.fit().unwrap(), Vec::new());
        page.write(&mut written).unwrap();
        assert_eq!(written.len(), length);
        written
    }

    #[test]
    fn when_all_pipelines_are_in_trouble_each_is_told_of() {
        for (pipelines, char) in PIPELINES.into_iter().flat_map(|count| CHARS.map(|char| (count, char))) {
            let page = of_troubles(pipelines, char);
            assert!(page.len() <= most_page_bytes(pipelines), "{pipelines} {char}: {}", page.len());
            let answer: Answer = serde_json::from_slice(&page).unwrap();
            let is_told = |of: &Troubled| {
                of.trouble.state == State::NothingDelivered
                    && of.trouble.amounts.rejected == u64::MAX
                    && of.words.starts_with("FAILED_PREC")
                    && message(&of.trouble, "spans").starts_with("No spans were delivered")
            };
            let told = answer.pipelines.each().filter(|(_, _, trouble)| trouble.is_some_and(is_told));
            assert_eq!((told.count(), answer.owes), (pipelines, true));
        }
    }

    #[test]
    fn words_of_a_few_are_whole_and_said_once() {
        for char in CHARS {
            let page = of_troubles(64, char);
            let answer: Answer = serde_json::from_slice(&page).unwrap();
            let words = format!("FAILED_PRECONDITION: {}", String::from(char).repeat(500));
            let told = answer.pipelines.each().filter(|(_, _, of)| of.is_some_and(|of| *of.words == words));
            assert_eq!(told.count(), 64);
            let page: serde_json::Value = serde_json::from_slice(&page).unwrap();
            assert_eq!(page["pipelines"][0]["backend"]["message"], "");
        }
    }

    /// The words of a trouble stay for a while, so they may be others than those of now.
    #[test]
    fn what_a_trouble_does_not_say_is_told_beside_it() {
        let dropped = BTreeMap::new();
        let said = |message: &'static str| {
            let mut of = PipelineOfPage {
                pipeline: "traces/shop".to_owned(),
                delivered: 0,
                dropped: &dropped,
                rejected: BTreeMap::new(),
                pending: 3,
                pending_bytes: 3,
                backend: BackendOfPage { state: "unsent", tried: true, code: "", message },
                verdict: verdict("not asked, as requests fail here: no token".to_owned()),
            };
            of.say_once();
            of.backend.message
        };
        assert_eq!((said("no token"), said("no memory"), said("")), ("", "no memory", ""));
    }

    #[test]
    fn items_of_rare_codes_are_told_together() {
        let codes: BTreeMap<_, _> = (1..=10).map(|number| (format!("{}", 400 + number), number)).collect();
        let told = most_frequent(&codes);
        assert_eq!(told.len(), MOST_CODES + 1);
        assert_eq!((told["410"], told["404"], told.get("403"), told[OTHER_CODES]), (10, 4, None, 1 + 2 + 3));
        assert_eq!(told.values().sum::<u64>(), codes.values().sum::<u64>());
        let few = BTreeMap::from([("401".to_owned(), 5)]);
        assert_eq!(most_frequent(&few), BTreeMap::from([("401", 5)]));
    }
}
