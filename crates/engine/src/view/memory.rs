//! The parts of the memory, and how much of each is used.

use std::sync::{Arc, Mutex, PoisonError};

use super::AdmissionFigures;
use crate::budget::Budget;
use crate::division::Division;
use crate::intake::Intake;
use crate::receive::Reason;

/// The memory budget by holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFigures {
    /// All of it, in bytes.
    pub total: usize,
    /// The parts. Together they are no more than the total: payloads first, then everything that is set aside.
    pub parts: [PartFigures; Division::PARTS],
    /// Whether a request would find some now.
    pub admission: AdmissionFigures,
}

/// A part of the memory budget, for all pipelines together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartFigures {
    /// What it is for: `payloads`, ...
    pub holder: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
    /// How much of it is taken. `None` where there is no budget: such parts are limited by number, so they cannot take
    /// more.
    pub used: Option<usize>,
}

impl MemoryFigures {
    /// Bytes for payloads, and how many of them are taken.
    pub fn payloads(&self) -> (usize, usize) {
        (self.parts[0].bytes, self.parts[0].used.unwrap_or_default())
    }
}

/// The budgets of the parts that have one, and how the memory is divided now.
#[derive(Debug)]
pub(crate) struct Budgets {
    pub(crate) total: usize,
    pub(crate) division: Arc<Mutex<Division>>,
    /// By holder, payloads first.
    pub(crate) budgets: Vec<(&'static str, Budget)>,
}

impl Budgets {
    /// `refused`: why a small request would not be taken now.
    pub(super) fn figures(&self, intake: &Intake, refused: Option<Reason>) -> MemoryFigures {
        let division = *self.division.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |holder| {
            let (_, budget) = self.budgets.iter().find(|(name, _)| *name == holder)?;
            Some(budget.used())
        };
        let part = |(holder, bytes)| PartFigures { holder, bytes, used: used(holder) };
        let parts = division.parts().map(part);
        let admission = AdmissionFigures::of(intake, self.total, parts[0], refused);
        MemoryFigures { total: self.total, parts, admission }
    }
}
