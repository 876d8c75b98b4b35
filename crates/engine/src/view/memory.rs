//! The parts of the memory, and how much of each is used.

use std::sync::{Arc, Mutex, PoisonError};

use super::AdmissionFigures;
use crate::budget::{Budget, Holder};
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
    /// Who has what is used of the payloads.
    pub payload_holders: [HolderFigures; HOLDERS],
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

/// Each of those who have some of the payloads, and those who wait.
const HOLDERS: usize = Holder::ALL.len() + 1;

/// What somebody has of the memory for payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderFigures {
    /// Who has it: `clients`, ..., or `waiting`: nobody yet, but it is gathered for those who wait for more.
    pub holder: &'static str,
    /// How much, in bytes.
    pub used: usize,
}

impl HolderFigures {
    /// Of `payloads`, of which so much is `used`.
    fn all(payloads: &Budget, used: usize) -> [Self; HOLDERS] {
        let held = payloads.held();
        let gathered = used.saturating_sub(held.iter().map(|(_, bytes)| bytes).sum());
        let [clients, sources, delivery, onlookers] = held.map(|(holder, used)| Self { holder: holder.as_str(), used });
        [clients, sources, delivery, onlookers, Self { holder: "waiting", used: gathered }]
    }
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
        let payload_holders = HolderFigures::all(intake.budget(), parts[0].used.unwrap_or_default());
        MemoryFigures { total: self.total, parts, payload_holders, admission }
    }
}
