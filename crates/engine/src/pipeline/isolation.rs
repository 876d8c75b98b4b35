//! What to do with a batch that a backend refused: wait, take it apart to find the items at fault, or give it up.
//!
//! This is pure planning: it owns no batch and splits none. One rule stands above all others: **nothing is given up
//! unless the backend takes something else.** A tenant that does not exist, a missing header, or a proxy that is being
//! deployed makes a backend refuse everything, in whatever words. Then nothing is known about any item, and everything
//! waits. A batch that is refused again is *proven* to be the cause if in between the backend took other data, and that
//! data left after the earlier refusal: data that left before it may have met a backend that was still well. Such a
//! second refusal is a *proof*. While the backend refuses something against which there is no proof, it is in *doubt*.
//!
//! Time is counted in requests: each that leaves has the next number.
//!
//! How many proofs it takes follows from what the answer speaks of (decision 012):
//!
//! | answer | taken apart after | an item that is refused alone is given up after |
//! |---|---|---|
//! | about the data | the first | [`CLEAR`] proofs, of which its batch may have given some, and as many refusals alone |
//! | about the size | the first | the same, if it is larger than what was taken |
//! | unclear | many | many of its own in such words |
//! | about access, or "try again" | many | never |
//!
//! When a batch was taken apart after many proofs, its parts are taken apart after [`CLEAR`] proofs. That costs
//! requests but no item, and frees the neighbours of the item at fault.
//!
//! Without proofs, because nothing else is sent, delivery takes a few batches apart all the same
//! (`delivery/refused.rs`). That costs no item, either.
//!
//! *Many* is so many that a backend that fails at random, as often as this one does, hardly ever gets there.

#[cfg(test)]
mod tests;

use crate::export::About;

/// How many proofs it takes against an item whose refusal is about the data, and how many refusals of it alone.
const CLEAR: u32 = 2;
/// How many proofs it takes against a batch at a backend that never fails otherwise, when its answer does not say what
/// it is about ...
const MANY: f64 = 8.0;
/// ... and at a backend that fails as often as is counted: 24 times before each success.
const MOST: u32 = 200;

/// What the refusals of a batch have shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Suspicion {
    /// How many requests had left when it was last refused.
    left_before: Option<u64>,
    proofs: u32,
    /// How many of the proofs were in words that may be about an item.
    blames: u32,
    /// It, or the batch that it is a part of, was taken apart after many proofs.
    shown: bool,
    /// How often it was refused when it could not be taken apart any more.
    alone: u32,
    /// The refusals were about the data or the size. Refusals of another kind that came before prove nothing about
    /// these.
    clear: bool,
    /// It gave a proof itself; other proofs are of a batch that it was part of.
    own: bool,
    /// Its last refusal was a proof, or smaller requests pass where those of its size do not.
    proven: bool,
}

/// The requests to one backend so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    /// How many have left.
    pub(super) left: u64,
    /// The number of the latest request of which the backend took something; 0 when there is none.
    pub(super) taken: u64,
    /// How many had left when the backend last refused something against which there is no proof.
    doubted: u64,
}

impl Traffic {
    /// Another one leaves; its number.
    pub(super) fn leaves(&mut self) -> u64 {
        self.left += 1;
        self.left
    }

    /// Request number `number` was taken.
    pub(super) fn takes(&mut self, number: u64) {
        self.taken = self.taken.max(number);
    }

    /// Something was refused against which there is no proof.
    pub(super) fn doubt(&mut self) {
        self.doubted = self.left;
    }

    /// Whether nothing was taken that left since then.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubted > 0 && self.taken <= self.doubted
    }
}

/// What a refusal is judged by, besides the suspicion of the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// What the answer is about; `None` when the backend asked to try again.
    pub(super) about: Option<About>,
    pub(super) can_be_split: bool,
    /// [`Traffic::is_in_doubt`].
    pub(super) doubt: bool,
    /// How often the backend usually fails before it takes something.
    pub(super) usual_streak: f64,
}

/// What happens to a refused batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is sent again later, as it is.
    Wait,
    /// It is sent again in two halves.
    Halve,
    /// It is given up.
    Reject,
}

impl Suspicion {
    /// The backend refused the batch with an answer that is `about` something.
    pub(super) fn refused(&mut self, about: Option<About>, traffic: Traffic) {
        if self.clear != is_clear(about) {
            *self = Self { clear: is_clear(about), ..Self::default() };
        }
        self.proven = self.left_before.is_some_and(|before| traffic.taken > before);
        if self.proven {
            self.proofs = self.proofs.saturating_add(1);
            self.blames = self.blames.saturating_add(u32::from(may_blame(about)));
            self.own = true;
        }
        self.left_before = Some(traffic.left);
    }

    /// Whether something speaks against the batch.
    pub(super) fn is_grounded(&self) -> bool {
        self.own
    }

    /// Smaller requests pass where those of its size do not, so its refusal says nothing about the backend.
    pub(super) fn is_no_sign(&mut self) {
        self.proven = true;
    }

    /// Whether the last refusal says nothing about the backend, because it was a proof or for its size.
    pub(super) fn is_proven(&self) -> bool {
        self.proven
    }

    /// What to do after a refusal.
    pub(super) fn step(&mut self, evidence: Evidence) -> Step {
        let Evidence { about, can_be_split, doubt, usual_streak } = evidence;
        if can_be_split {
            self.shown |= self.is_shown(usual_streak);
            let is_enough = is_clear(about) || (self.shown && self.proofs >= CLEAR);
            return if is_enough { Step::Halve } else { Step::Wait };
        }
        self.alone = self.alone.saturating_add(1);
        let is_to_blame = match about {
            Some(About::Data | About::Size) => self.proofs >= CLEAR && self.alone >= CLEAR && !doubt,
            Some(About::Unclear) => self.blames.min(self.alone) >= many(usual_streak) && !doubt,
            Some(About::Access) | None => false,
        };
        if is_to_blame { Step::Reject } else { Step::Wait }
    }

    /// The suspicion of the parts of a batch that is taken apart.
    pub(super) fn of_parts(&self) -> Self {
        // One of two parts fails easily by chance alone, so what was shown of the whole says little about them.
        let proofs = if self.clear { self.proofs } else { 0 };
        // Blames count if the words turn out to be unclear.
        Self { proofs, blames: 0, alone: 0, own: false, proven: false, ..*self }
    }

    /// Whether there is so much proof against the batch that there is no hurry to send it again.
    pub(super) fn is_shown(&self, usual_streak: f64) -> bool {
        self.proofs >= many(usual_streak)
    }
}

fn is_clear(about: Option<About>) -> bool {
    matches!(about, Some(About::Data | About::Size))
}

fn may_blame(about: Option<About>) -> bool {
    matches!(about, Some(About::Data | About::Size | About::Unclear))
}

/// A backend that fails `usual_streak` times on average before each success fails this often in a row once in 3,000
/// times.
fn many(usual_streak: f64) -> u32 {
    let wanted = MANY * (1.0 + usual_streak.max(0.0));
    (1..MOST).find(|proofs| f64::from(*proofs) >= wanted).unwrap_or(MOST)
}
