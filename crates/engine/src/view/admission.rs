//! What decides whether a request would find memory now, as the budget has it.

use std::time::Duration;

use super::PartFigures;
use crate::budget::OVERHEAD_BYTES;
use crate::division::RequestLimits;
use crate::inlet::ADMIT_PATIENCE;
use crate::intake::{Intake, LEAST_ROOM};
use crate::receive::{REQUEST_BYTES, Reason};

/// How all the memory is taken, and what that means for a request that comes now. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionFigures {
    /// Set aside for other things than payloads, used or not.
    pub set_aside: usize,
    /// Of the memory for payloads, what is taken.
    pub used: usize,
    /// The rest of that. With the two above, this is all the memory.
    pub free: usize,
    /// More than half of the memory for payloads is taken: bodies that come slowly are refused.
    pub is_scarce: bool,
    /// What a request costs from its head to its answer, whatever its size.
    pub request: usize,
    /// What a request takes, beside a part of its size, while facts about its sender are added.
    pub enrichment: usize,
    /// How large a request may be, and how often it is in memory.
    pub limits: RequestLimits,
    /// The largest request for which the free bytes are enough, if nobody else takes any.
    pub fits: usize,
    /// Requests that wait for room.
    pub waiting: u32,
    /// How many may; what comes then is refused at once.
    pub most_waiting: u32,
    /// How long each of them waits before it is refused.
    pub patience: Duration,
    /// Why even a small request would be refused now, as refusals are counted; `None` if it would be taken.
    pub refused: Option<&'static str>,
}

impl AdmissionFigures {
    /// `total`: all the memory; `payloads`: that part of it.
    pub(super) fn of(intake: &Intake, total: usize, payloads: PartFigures, refused: Option<Reason>) -> Self {
        let used = payloads.used.unwrap_or_default().min(payloads.bytes);
        let free = payloads.bytes - used;
        let (request, enrichment) = (REQUEST_BYTES + OVERHEAD_BYTES, LEAST_ROOM + OVERHEAD_BYTES);
        let limits = intake.request_limits();
        let [waiting, most_waiting] = intake.budget().waiting();
        Self {
            set_aside: total.saturating_sub(payloads.bytes),
            used,
            free,
            is_scarce: intake.budget().is_scarce(),
            request,
            enrichment,
            limits,
            fits: limits.largest_within(free.saturating_sub(request + enrichment)),
            waiting,
            most_waiting,
            patience: ADMIT_PATIENCE,
            refused: refused.map(Reason::as_str),
        }
    }
}
