//! Cuts requests that are larger than some backend takes. Bytes that several pipelines share are cut once.

use std::sync::Arc;

use bytes::Bytes;
use weir_otlp::Part;
use weir_plan::Signal;

use super::offer::Offer;
use super::prepare::{Enriched, Unprepared};
use super::{Route, Routes};
use crate::budget::{Budget, OVERHEAD_BYTES, Purse};
use crate::pipeline::Pipeline;
use crate::rules::{Conversion, Processed};

/// See the module.
pub(super) struct Cuts<'a> {
    signal: Signal,
    limit: usize,
    /// How much the pipeline with the least room could hold.
    share: usize,
    shared: &'a Enriched,
    /// Knows of what was made of the request so far.
    pub(super) purse: Purse<'a>,
    done: Vec<(Bytes, Vec<(Bytes, u64)>)>,
}

impl<'a> Cuts<'a> {
    pub(super) fn new(signal: Signal, routes: &Routes, shared: &'a Enriched, budget: &'a Budget) -> Self {
        let least = |of: fn(&Pipeline) -> usize| routes.of(signal).map(|route| of(&route.pipeline)).min();
        let limit = least(Pipeline::batch_bytes).unwrap_or(usize::MAX);
        let share = least(|pipeline| pipeline.account.share.limit()).unwrap_or(usize::MAX);
        let purse = Purse::new(budget, shared.bytes());
        Self { signal, limit, share, shared, purse, done: Vec::new() }
    }

    /// What a pipeline is offered of a request that its rules were applied to.
    pub(super) fn offer(&mut self, route: &Route, processed: Processed) -> Result<Offer, Unprepared> {
        let Processed { body, items, removed, conversion } = processed;
        self.purse = self.purse.holding(conversion.as_ref().map_or(0, Conversion::bytes));
        let pieces = if items > 0 { self.pieces(body, items)? } else { Vec::new() };
        let pipeline = Arc::clone(&route.pipeline);
        Ok(Offer { pipeline, pieces, claims: Vec::new(), removed, conversion, reliance: None, _paid: None })
    }

    fn pieces(&mut self, body: Bytes, items: u64) -> Result<Vec<(Bytes, u64)>, Unprepared> {
        if !self.shared.has(&body) {
            return self.own_pieces(body, items);
        }
        if body.len() <= self.limit {
            return Ok(vec![(body, items)]);
        }
        let same = |(other, _): &&(Bytes, Vec<_>)| other.as_ptr() == body.as_ptr() && other.len() == body.len();
        if let Some((_, pieces)) = self.done.iter().find(same) {
            return Ok(pieces.clone());
        }
        let (pieces, cost) = self.cut(&body, self.purse, |part| part.is_slice())?;
        self.purse = self.purse.holding(cost);
        self.done.push((body, pieces.clone()));
        Ok(pieces)
    }

    /// The pieces of a body that was made for one pipeline alone. Once it is cut, the body itself is not kept: many
    /// pipelines together would keep more of such bodies than there is memory.
    fn own_pieces(&mut self, body: Bytes, items: u64) -> Result<Vec<(Bytes, u64)>, Unprepared> {
        if body.len() <= self.limit {
            self.purse = self.purse.holding(body.len() + OVERHEAD_BYTES);
            return Ok(vec![(body, items)]);
        }
        let (pieces, cost) = self.cut(&body, self.purse.holding(body.len()), |_| false)?;
        self.purse = self.purse.holding(cost);
        Ok(pieces)
    }

    /// Cuts a request and returns the pieces and what they cost. Each piece is paid for before it is made, except those
    /// that `remain` where they are. Without room for one of them, this finds out whether there could ever be enough
    /// for all.
    fn cut(
        &self,
        body: &Bytes,
        purse: Purse<'_>,
        remain: fn(&Part<'_>) -> bool,
    ) -> Result<(Vec<(Bytes, u64)>, usize), Unprepared> {
        let most = self.share.max(body.len() + body.len() / 4).min(purse.most());
        let (mut cost, mut pieces) = (0, Some(Vec::new()));
        for part in weir_otlp::cut(self.signal, body, self.limit) {
            let remains = remain(&part);
            cost += if remains { 0 } else { part.length() + OVERHEAD_BYTES };
            if cost > most {
                return Err(Unprepared::TooLarge(self.too_much(most)));
            }
            if let Some(all) = &mut pieces {
                match if remains { Ok(part.make()) } else { purse.copy(&part) } {
                    Ok(bytes) => all.push((bytes, u64::from(part.items()))),
                    Err(_) => pieces = None,
                }
            }
        }
        Ok((pieces.ok_or(Unprepared::NoMemory)?, cost))
    }

    fn too_much(&self, most: usize) -> String {
        let limit = self.limit;
        format!(
            "cut into requests of at most {limit} bytes, with what stands around their items repeated in each, it takes more than {most} bytes"
        )
    }
}
