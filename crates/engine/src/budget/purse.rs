//! The memory that one request draws from a budget for work on it. When memory is missing, the purse knows whether it
//! may come later, or whether the budget is too small for the work.

use bytes::Bytes;
use weir_otlp::Part;

use super::{Budget, Permit};

/// A budget, as seen by a request that holds some of it already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purse<'a> {
    budget: &'a Budget,
    held: usize,
}

/// There is not enough memory for work on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Others hold too much now. There may be enough later.
    Passing,
    /// The budget is too small, even if nobody else held any of it.
    Lasting,
}

impl<'a> Purse<'a> {
    /// The purse of a request that holds `held` bytes already.
    pub(crate) fn new(budget: &'a Budget, held: usize) -> Self {
        Self { budget, held }
    }

    /// The purse of the same request once it holds `more` bytes besides.
    pub(crate) fn holding(self, more: usize) -> Self {
        Self { held: self.held.saturating_add(more), ..self }
    }

    /// All bytes there are in its budget.
    pub(crate) fn capacity(&self) -> usize {
        self.budget.capacity()
    }

    /// The most bytes that it could get if nobody else held any.
    pub(crate) fn most(&self) -> usize {
        self.capacity().saturating_sub(self.held)
    }

    /// Takes `bytes`, and their overhead.
    pub(crate) fn take(&self, bytes: usize) -> Result<Permit, Shortage> {
        self.budget.try_take(bytes).ok_or_else(|| self.shortage(bytes))
    }

    /// Takes `more` bytes for a permit whose bytes the request holds beside the rest.
    pub(crate) fn extend(&self, permit: &mut Permit, more: usize) -> Result<(), Shortage> {
        if permit.grow(more) { Ok(()) } else { Err(self.holding(permit.bytes()).shortage(more)) }
    }

    /// Makes a part of a request that keeps no other part of it alive.
    pub(crate) fn copy(&self, part: &Part<'_>) -> Result<Bytes, Shortage> {
        self.copy_and(part, 0)
    }

    /// The same, and pays for so much beside it, for as long as it is there.
    pub(crate) fn copy_and(&self, part: &Part<'_>, beside: usize) -> Result<Bytes, Shortage> {
        let mut permit = self.take(part.length() + beside)?;
        let mut copy: Vec<u8> = part.make().into();
        super::fit_and(&mut copy, beside, &mut permit);
        Ok(super::charge_from(copy, 0, permit))
    }

    fn shortage(&self, wanted: usize) -> Shortage {
        if wanted > self.most() { Shortage::Lasting } else { Shortage::Passing }
    }
}
