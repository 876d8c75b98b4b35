//! What to do with a batch that a backend refused: wait, take it apart to find the items at fault, or give it up.
//!
//! This is pure planning: it owns no batch and splits none. One rule stands above all others: **nothing is given up
//! unless the backend takes something else.** A tenant that does not exist, a missing header, or a proxy that is being
//! deployed makes a backend refuse everything, in whatever words. Then nothing is known about any item, and everything
//! waits.
//!
//! A refusal is a *proof* against its batch if the batch was refused before, and the backend took other data in between
//! that left after the earlier refusal. Data that left before may have met a backend that was still well. The backend
//! is in *doubt* while it refuses something against which there is no proof.
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
//! *Many* depends on how often the backend fails otherwise. It is so many that chance alone hardly ever makes the
//! backend refuse a batch that often.

#[cfg(test)]
mod tests;

use crate::export::About;

/// How many proofs it takes against an item whose refusal is about the data, and how many refusals of it alone.
const CLEAR: u32 = 2;
/// *Many* proofs (see the module) at a backend that never fails by chance. See [`many`] for one that does.
const MANY: f64 = 8.0;
/// *Many* is never more than this. It is reached at a backend that fails 24 times before each success.
const MOST: u32 = 200;

/// What the refusals of a batch have shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Suspicion {
    /// How many requests had left when the batch was last refused.
    left_before: Option<u64>,
    proofs: u32,
    /// How many of the proofs were in words that may be about an item.
    blames: u32,
    /// There were many proofs against the batch, or against the one that it is a part of.
    had_many_proofs: bool,
    /// How often the batch was refused when it was a single item, which cannot be taken apart.
    alone: u32,
    /// The refusals were about the data or the size. When this changes, counting begins anew: refusals of the other
    /// kind prove nothing here.
    clear: bool,
    /// Some proof is of this batch itself. The others are of the batch that it was a part of.
    own: bool,
    /// The last refusal says nothing about the backend: it was a proof, or the backend takes smaller requests while it
    /// refuses those of this size.
    says_nothing_of_backend: bool,
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
        self.says_nothing_of_backend = self.left_before.is_some_and(|before| traffic.taken > before);
        if self.says_nothing_of_backend {
            self.proofs = self.proofs.saturating_add(1);
            self.blames = self.blames.saturating_add(u32::from(may_blame(about)));
            self.own = true;
        }
        self.left_before = Some(traffic.left);
    }

    /// Whether there is a proof against this batch itself.
    pub(super) fn has_own_proof(&self) -> bool {
        self.own
    }

    /// The backend takes smaller requests while it refuses those of this size, so the last refusal says nothing about
    /// the backend.
    pub(super) fn excuse_backend(&mut self) {
        self.says_nothing_of_backend = true;
    }

    /// Whether the last refusal says nothing about the backend, because it was a proof or for the size.
    pub(super) fn says_nothing_of_backend(&self) -> bool {
        self.says_nothing_of_backend
    }

    /// What to do after a refusal.
    pub(super) fn step(&mut self, evidence: Evidence) -> Step {
        let Evidence { about, can_be_split, doubt, usual_streak } = evidence;
        if can_be_split {
            self.had_many_proofs |= self.has_many_proofs(usual_streak);
            let is_enough = is_clear(about) || (self.had_many_proofs && self.proofs >= CLEAR);
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
        Self { proofs, blames: 0, alone: 0, own: false, says_nothing_of_backend: false, ..*self }
    }

    /// Whether there are *many* proofs against the batch (see the module), so that there is no hurry to send it again.
    pub(super) fn has_many_proofs(&self, usual_streak: f64) -> bool {
        self.proofs >= many(usual_streak)
    }
}

fn is_clear(about: Option<About>) -> bool {
    matches!(about, Some(About::Data | About::Size))
}

fn may_blame(about: Option<About>) -> bool {
    matches!(about, Some(About::Data | About::Size | About::Unclear))
}

/// How many proofs are *many* at a backend that fails `usual_streak` times on average before each success. By chance
/// alone it fails so often in a row once in 3,000 times.
fn many(usual_streak: f64) -> u32 {
    let wanted = MANY * (1.0 + usual_streak.max(0.0));
    (1..MOST).find(|proofs| f64::from(*proofs) >= wanted).unwrap_or(MOST)
}
