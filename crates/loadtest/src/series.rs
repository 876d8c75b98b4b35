//! The series of `weir load scrape-targets`: what they are called, and how each is known again.
//!
//! A series says itself which one it is. Its labels `target` and `series` are numbers, `cycle` is the scrape since which
//! it is there, and `digest` is made of its name and its other labels: with a label too few, one too many or one of
//! another series, it does not fit any more. A value is made of the number of the scrape and the number of the series, so
//! that a point tells from which page it is.

mod tally;

pub use self::tally::PageReport;
pub(crate) use self::tally::PageTally;

/// What all names begin with.
pub(crate) const PREFIX: &[u8] = b"load_";
/// Series of a target, and what is behind the scrape's number in a value.
pub(crate) const SERIES: u64 = 10_000_000;
/// Scrapes of a target.
pub(crate) const SCRAPES: u64 = 900_000;
/// Added to the number of a scrape, so that all values have equally many digits.
const FIRST_SCRAPE: u64 = 100_000;
/// Digits of the scrape's number, with which a value begins.
pub(crate) const SCRAPE_DIGITS: usize = 6;

/// Upper bounds of a histogram's buckets, and a summary's quantiles.
pub(crate) const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.05", "0.1", "0.5", "1", "2.5", "5", "10", "+Inf"];
pub(crate) const QUANTILES: [&str; 3] = ["0.5", "0.9", "0.99"];

pub(crate) const CYCLE: &str = "cycle";
pub(crate) const DIGEST: &str = "digest";
pub(crate) const NUMBER: &str = "series";
pub(crate) const TARGET: &str = "target";

/// The value of a series on the page of a scrape. Lines of the same series that must differ add a little to it.
pub(crate) fn value(scrape: u64, series: u64) -> u64 {
    (FIRST_SCRAPE + scrape) * SERIES + series
}

/// The scrape and the series that a value is made of.
fn read(value: u64) -> Option<(u64, u64)> {
    let scrape = (value / SERIES).checked_sub(FIRST_SCRAPE)?;
    (scrape < SCRAPES).then_some((scrape, value % SERIES))
}

/// What a name or a label adds to a digest; the order of labels says nothing.
pub(crate) fn digest_of(key: &[u8], value: &[u8]) -> u64 {
    hash(hash(0, key), value)
}

fn hash(start: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let step = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    };
    let sum = words.iter().fold(start, |sum, word| step(sum, u64::from_le_bytes(*word)));
    step(step(sum, u64::from_le_bytes(last)), bytes.len() as u64)
}

/// The labels of a point, as they are read one by one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Labels {
    target: Option<u32>,
    series: Option<u64>,
    digest: Option<u64>,
    sum: u64,
}

impl Labels {
    /// None yet.
    pub(crate) fn of(name: &[u8]) -> Self {
        Self::default().named(name)
    }

    /// Those of a metric whose name is known only now.
    pub(crate) fn named(self, name: &[u8]) -> Self {
        Self { sum: self.sum.wrapping_add(digest_of(b"", name)), ..self }
    }

    /// Reads one more.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        if key == DIGEST.as_bytes() {
            self.digest = text(value).and_then(|text| u64::from_str_radix(text, 16).ok());
            return;
        }
        self.sum = self.sum.wrapping_add(digest_of(key, value));
        if key == TARGET.as_bytes() {
            self.target = text(value).and_then(|text| text.parse().ok());
        } else if key == NUMBER.as_bytes() {
            self.series = text(value).and_then(|text| text.parse().ok());
        }
    }

    /// The sample that these labels and a value are, if both are whole; `lines` are those of the page that it is.
    pub(crate) fn sample(&self, value: u64, lines: Lines) -> Finding {
        let sample = || {
            let (scrape, series) = read(value)?;
            let whole = self.digest == Some(self.sum) && self.series == Some(series);
            whole.then_some(Finding::Sample { target: self.target?, series, scrape, lines })
        };
        sample().unwrap_or(Finding::Damaged)
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// What a data point is, as a sample of a page of this generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A whole one.
    Sample {
        /// The number of the target.
        target: u32,
        /// The number of the series on its page.
        series: u64,
        /// The number of the scrape.
        scrape: u64,
        /// Lines of the page that it is made of.
        lines: Lines,
    },
    /// It says that a series has ended.
    Ended,
    /// It is called like one of this generator, and labels or value are not what stood on the page.
    Damaged,
    /// Of somebody else, as metrics about scrapes are.
    Foreign,
}

/// Lines of the page that a data point is made of: a histogram has many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// All lines of its series, so many.
    All(u32),
    /// One of them: by remote write, each comes by itself.
    One(Part),
}

/// Which line of its series it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The only one, or one of the buckets or quantiles.
    At(u8),
    Sum,
    Count,
}

impl Lines {
    /// How many they are.
    fn count(self) -> u64 {
        match self {
            Self::All(lines) => lines.into(),
            Self::One(_) => 1,
        }
    }

    /// A number that the other lines of the series do not have.
    fn number(self) -> usize {
        match self {
            Self::All(_) => 0,
            Self::One(Part::At(index)) => index.into(),
            Self::One(Part::Sum) => BOUNDS.len(),
            Self::One(Part::Count) => BOUNDS.len() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Lines = Lines::All(1);

    /// The labels of series 123 of target 3.
    fn labels(with: &[(&str, &str)]) -> Labels {
        let name = b"load_gauge_00012";
        let own = [("cycle", "000000"), ("label_0", "0000123abc"), ("series", "0000123"), ("target", "00003")];
        let sum = own.iter().fold(digest_of(b"", name), |sum, (key, value)| {
            sum.wrapping_add(digest_of(key.as_bytes(), value.as_bytes()))
        });
        let mut labels = Labels::of(name);
        for (key, value) in own.iter().chain(with) {
            labels.add(key.as_bytes(), value.as_bytes());
        }
        labels.add(b"digest", format!("{sum:016x}").as_bytes());
        labels
    }

    #[test]
    fn a_sample_is_known_by_its_labels_and_its_value() {
        let whole = Finding::Sample { target: 3, series: 123, scrape: 7, lines: LINE };
        assert_eq!(labels(&[]).sample(value(7, 123), LINE), whole);
        for (with, value) in [
            (&[][..], value(7, 124)),
            (&[], 123),
            (&[], value(SCRAPES, 123)),
            (&[("label_1", "x")], value(7, 123)),
            (&[("label_0", "0000123abc")], value(7, 123)),
        ] {
            assert_eq!(labels(with).sample(value, LINE), Finding::Damaged, "{with:?} {value}");
        }
        assert_eq!(Labels::of(b"load_gauge_00012").sample(value(7, 0), LINE), Finding::Damaged);
    }

    #[test]
    fn texts_of_any_length_have_digests_of_their_own() {
        let texts = ["", "\0", "a", "a\0", "12345678", "12345678\0", "123456789", "12345678abcdefgh"];
        let mut digests: Vec<u64> = texts.iter().map(|text| digest_of(b"label", text.as_bytes())).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), texts.len());
        assert_ne!(digest_of(b"ab", b"c"), digest_of(b"a", b"bc"));
    }
}
