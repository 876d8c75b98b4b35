//! The name of a pipeline, wherever people or files name it.

use std::fmt;
use std::str::FromStr;

use weir_otlp::Signal;

/// What identifies a pipeline. It is written `traces/backend`: in the log, on pages, and as the name of its queue in
/// the journal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineId {
    /// The signal it takes.
    pub signal: Signal,
    /// `metadata.name` of its resource, which is unique for its signal.
    pub name: String,
}

impl PipelineId {
    /// The pipeline of this name.
    pub fn new(signal: Signal, name: impl Into<String>) -> Self {
        Self { signal, name: name.into() }
    }

    /// Whether a user means this pipeline by `text`: its name, with or without its signal.
    pub fn is_called(&self, text: &str) -> bool {
        self.name == text || self.to_string() == text
    }
}

impl fmt::Display for PipelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.signal.name(), self.name)
    }
}

/// It does not begin with a signal and `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAPipeline;

impl FromStr for PipelineId {
    type Err = NotAPipeline;

    fn from_str(text: &str) -> Result<Self, NotAPipeline> {
        let (signal, name) = text.split_once('/').ok_or(NotAPipeline)?;
        let signal = Signal::ALL.into_iter().find(|known| known.name() == signal).ok_or(NotAPipeline)?;
        Ok(Self::new(signal, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for signal in Signal::ALL {
            let id = PipelineId::new(signal, "a/b");
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["traces", "events/shop", "/shop", ""] {
            assert_eq!(text.parse::<PipelineId>(), Err(NotAPipeline), "{text}");
        }
    }
}
