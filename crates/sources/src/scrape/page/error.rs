//! Why pages are refused, in words that say what to do.

use std::io;

use crate::scrape::rules::OverLimit;

/// Why a page is not taken. Nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// A line cannot be read.
    #[error("line {line}: {cause}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// A metric family of a page in protobuf cannot be read.
    #[error("metric family {number} ({name:?}): {cause}")]
    Family {
        /// Counted from 1.
        number: usize,
        /// As far as it is known.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A page of OpenMetrics without its last line.
    #[error("the page ends before its last line, # EOF: it is incomplete")]
    Truncated,
    /// There are too many labels, or they are too long.
    #[error("line {line}: {over}")]
    Labels {
        /// Counted from 1.
        line: usize,
        /// Which limit, and what is above it.
        over: OverLimit,
    },
    /// The same of a metric family of a page in protobuf.
    #[error("metric family {number} ({name:?}): {over}")]
    FamilyLabels {
        /// Counted from 1.
        number: usize,
        /// What it is called.
        name: String,
        /// Which limit, and what is above it.
        over: OverLimit,
    },
    /// A sample or an exemplar has more labels than any may have.
    #[error("{place}: {cause}")]
    TooManyLabels {
        /// The line, or the metric family of a page in protobuf.
        place: String,
        /// How many it may have.
        cause: String,
    },
    /// There are too many of them.
    #[error("{samples} samples, the limit is {limit}: let the target expose fewer series")]
    TooManySamples {
        /// How many there are.
        samples: usize,
        /// How many there may be.
        limit: usize,
    },
    /// What is known of the last page is kept compressed.
    #[error("no memory to compress or inflate what is known of the page: {0}")]
    Packing(String),
}

impl From<io::Error> for PageError {
    fn from(error: io::Error) -> Self {
        Self::Packing(error.to_string())
    }
}

impl PageError {
    /// In one word, for metrics.
    pub fn result(&self) -> &'static str {
        match self {
            Self::TooManySamples { .. }
            | Self::TooManyLabels { .. }
            | Self::Labels { .. }
            | Self::FamilyLabels { .. } => "limit",
            Self::Packing(_) => "no_memory",
            _ => "malformed",
        }
    }
}
