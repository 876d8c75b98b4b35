//! What an API server refuses of a change although the old documents and the new ones are right by themselves.

use std::collections::BTreeMap;

use weir_plan::{PipelineId, Signal};

use crate::diagnostic::{Diagnostic, Place, Report, sorted};
use crate::kinds::fields::OUTPUT_SWITCHED;

/// Whether each `LogPipeline` of a configuration has an OTLP output: the one thing that must stay as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogOutputs {
    by_name: BTreeMap<String, LogOutput>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LogOutput {
    otlp: bool,
    /// What is reported if it was otherwise before.
    switched: Diagnostic,
}

impl LogOutputs {
    pub(crate) fn add(&mut self, name: &str, otlp: bool, place: &Place) {
        let mut switched = Diagnostic::error(place, OUTPUT_SWITCHED);
        switched.pipeline = Some(PipelineId { signal: Signal::Logs, name: name.to_owned() });
        self.by_name.insert(name.to_owned(), LogOutput { otlp, switched });
    }

    /// Whether this configuration may follow `before`. A pipeline that `before` does not have counts as new.
    ///
    /// # Errors
    /// What has been switched.
    pub fn check_after(&self, before: &Self) -> Result<(), Report> {
        let otherwise = |name: &str, now: &LogOutput| before.by_name.get(name).is_some_and(|was| was.otlp != now.otlp);
        let switched = self.by_name.iter().filter(|(name, now)| otherwise(name, now));
        let diagnostics = sorted(switched.map(|(_, now)| now.switched.clone()).collect());
        if diagnostics.is_empty() { Ok(()) } else { Err(Report { diagnostics }) }
    }
}
