//! Cuts requests that are larger than a backend takes. Bytes that several pipelines share are cut once for each size.

use std::sync::Arc;

use bytes::Bytes;
use weir_otlp::Part;
use weir_plan::Signal;

use super::offer::Offer;
use super::prepare::{Enriched, Unprepared};
use super::{Route, Routes};
use crate::budget::{Budget, OVERHEAD_BYTES, Purse};
use crate::obligation::Piece;
use crate::request_size::RequestSize;
use crate::rules::{Conversion, Processed};

/// See the module.
pub(super) struct Cuts<'a> {
    signal: Signal,
    /// How much the pipeline with the least room could hold.
    share: usize,
    shared: &'a Enriched,
    /// One pipeline takes requests of this signal.
    alone: bool,
    /// Knows of what was made of the request so far.
    pub(super) purse: Purse<'a>,
    /// What several pipelines have in common, the limit that it was cut by, and its pieces.
    done: Vec<(Bytes, usize, Vec<Piece>)>,
}

impl<'a> Cuts<'a> {
    pub(super) fn new(signal: Signal, routes: &Routes, shared: &'a Enriched, budget: &'a Budget) -> Self {
        let shares = routes.of(signal).map(|route| route.pipeline.account.share.limit());
        let share = shares.min().unwrap_or(usize::MAX);
        let purse = Purse::new(budget, shared.bytes());
        let alone = routes.of(signal).count() == 1;
        Self { signal, share, shared, alone, purse, done: Vec::new() }
    }

    /// What a pipeline is offered of a request that its rules were applied to. Before these it had `arrived_bytes`.
    pub(super) fn offer(
        &mut self,
        route: &Route,
        arrived_bytes: usize,
        processed: Processed,
    ) -> Result<Offer, Unprepared> {
        let Processed { body, items, removed, conversion } = processed;
        self.purse = self.purse.holding(conversion.as_ref().map_or(0, Conversion::bytes));
        let pipeline = Arc::clone(&route.pipeline);
        let size = &pipeline.account.request_size;
        let pieces = if items > 0 { self.pieces(&body, items, size)? } else { Vec::new() };
        Ok(Offer {
            pipeline,
            arrived_bytes,
            pieces,
            obligations: Vec::new(),
            removed,
            conversion,
            reliance: None,
            mark: None,
            _paid: None,
        })
    }

    /// Pieces as large as the backend takes, as far as that costs nobody anything. What several pipelines share stays one
    /// copy, in memory and in the journal, whatever their backends have taught: pieces of it are as large as configured,
    /// and delivery takes apart what a backend refuses. No request is refused because of what a backend has taught,
    /// either: without memory to cut it like that, pieces are as large as configured.
    fn pieces(&mut self, body: &Bytes, items: u64, size: &RequestSize) -> Result<Vec<Piece>, Unprepared> {
        let is_own = self.alone || !self.shared.has(body);
        let limit = if is_own { size.bytes() } else { size.configured() };
        match self.cut_by(limit, body, items) {
            Err(_) if limit < size.configured() => self.cut_by(size.configured(), body, items),
            pieces => pieces,
        }
    }

    fn cut_by(&mut self, limit: usize, body: &Bytes, items: u64) -> Result<Vec<Piece>, Unprepared> {
        let is_shared = self.shared.has(body);
        if body.len() <= limit {
            self.purse = self.purse.holding(if is_shared { 0 } else { body.len() + OVERHEAD_BYTES });
            return Ok(vec![Piece { body: body.clone(), items }]);
        }
        if is_shared { self.shared_pieces(limit, body) } else { self.own_pieces(limit, body) }
    }

    fn shared_pieces(&mut self, limit: usize, body: &Bytes) -> Result<Vec<Piece>, Unprepared> {
        let same = |(other, by, _): &&(Bytes, usize, _)| {
            other.as_ptr() == body.as_ptr() && other.len() == body.len() && *by == limit
        };
        if let Some((_, _, pieces)) = self.done.iter().find(same) {
            return Ok(pieces.clone());
        }
        let (pieces, cost) = self.cut(limit, body, self.purse, |part| part.is_slice())?;
        self.purse = self.purse.holding(cost);
        self.done.push((body.clone(), limit, pieces.clone()));
        Ok(pieces)
    }

    /// The pieces of a body that was made for one pipeline alone. Once it is cut, the body itself is not kept: many
    /// pipelines together would keep more of such bodies than there is memory.
    fn own_pieces(&mut self, limit: usize, body: &Bytes) -> Result<Vec<Piece>, Unprepared> {
        let (pieces, cost) = self.cut(limit, body, self.purse.holding(body.len()), |_| false)?;
        self.purse = self.purse.holding(cost);
        Ok(pieces)
    }

    /// Cuts a request and returns the pieces and what they cost. Each piece is paid for before it is made, except those
    /// that `remain` where they are. Without room for one of them, this finds out whether there could ever be enough
    /// for all.
    fn cut(
        &self,
        limit: usize,
        body: &Bytes,
        purse: Purse<'_>,
        remain: fn(&Part<'_>) -> bool,
    ) -> Result<(Vec<Piece>, usize), Unprepared> {
        let most = self.share.max(body.len() + body.len() / 4).min(purse.most());
        let (mut cost, mut pieces) = (0, Some(Vec::new()));
        for part in weir_otlp::cut(self.signal, body, limit) {
            let remains = remain(&part);
            cost += if remains { 0 } else { part.length() + OVERHEAD_BYTES };
            if cost > most {
                return Err(Unprepared::TooLarge(too_much(limit, most)));
            }
            if let Some(all) = &mut pieces {
                match if remains { Ok(part.make()) } else { purse.copy(&part) } {
                    Ok(body) => all.push(Piece { body, items: u64::from(part.items()) }),
                    Err(_) => pieces = None,
                }
            }
        }
        Ok((pieces.ok_or(Unprepared::NoMemory)?, cost))
    }
}

fn too_much(limit: usize, most: usize) -> String {
    format!(
        "cut into requests of at most {limit} bytes, with what stands around their items repeated in each, it takes more than {most} bytes"
    )
}
