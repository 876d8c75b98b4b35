//! Makes what each pipeline gets of a request: the request is enriched once for all, then selection and rules follow
//! for each pipeline. Everything that is made on the way is paid for from the budget.

use std::ops::Range;

use bytes::Bytes;
use weir_enrich::{Arrival, Enricher, Noise};
use weir_otlp::splice;
use weir_plan::{Input, RecordShape, Signal};

use super::select::{self, Part, Selected, Selection};
use crate::budget::{self, Budget, Permit, Purse, Shortage};
use crate::buffer::Body;
use crate::inlet::{Added, InputKind, Request, Verdict};
use crate::preview::Step;
use crate::rules::{ISTIO_NOISE, Processed, Removed, Rules};

/// Room for what enrichment adds to a request: this much, and a part of the request's size.
pub(crate) const LEAST_ROOM: usize = 64 << 10;

/// A request of very many small resources or records may become this many times as large. The factors are tried one
/// after the other; a request that would become even larger is not telemetry.
const ROOM_FACTORS: [usize; 2] = [4, 16];

/// When all changes are in the first of so many parts of a request, they are made there, and the rest stays where it
/// is.
const FRONT_PART: usize = 4;

/// Why a request cannot be prepared.
#[derive(Debug)]
pub(crate) enum Unprepared {
    /// Not now.
    NoMemory,
    /// Never, unless it is sent in smaller parts.
    TooLarge(String),
}

impl From<Unprepared> for Verdict {
    fn from(unprepared: Unprepared) -> Self {
        match unprepared {
            Unprepared::NoMemory => Self::NoMemory,
            Unprepared::TooLarge(message) => Self::TooLarge(message),
        }
    }
}

impl From<Shortage> for Unprepared {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Passing => Self::NoMemory,
            Shortage::Lasting => Self::TooLarge("work on it needs more memory than there is".to_owned()),
        }
    }
}

/// A request with the facts about its sender.
#[derive(Debug)]
pub(crate) struct Enriched {
    signal: Signal,
    /// As many as arrived.
    items: u64,
    input: InputKind,
    unix_nanos: u64,
    /// The request without the noise of a service mesh, and how many items that removes.
    quiet: (Bytes, u64),
    /// With it, for whoever wants it.
    whole: Bytes,
}

impl Enriched {
    /// `keeps_noise`: some pipeline wants the noise, or wants to know how much of its namespaces is noise.
    pub(crate) fn new(
        request: Request,
        enricher: &Enricher,
        keeps_noise: bool,
        budget: &Budget,
    ) -> Result<Self, Unprepared> {
        let purse = Purse::new(budget, request.body.len());
        // One for both, because the facts about the sender may change meanwhile.
        let arrival = enricher.arrival(request.origin.peer, request.unix_nanos);
        let arrival = match request.origin.input {
            InputKind::ContainerLogs(RecordShape::Raw, _) => arrival.raw(),
            InputKind::Runtime(_, Added::OfCluster) => arrival.of_cluster(),
            InputKind::Istio => arrival.of_istio(),
            _ => arrival,
        };
        let enrich = |noise, purse| enrich(&request, &arrival, enricher, noise, purse);
        let (made, noise) = enrich(Noise::Drop, purse)?;
        let keep = match noise > 0 && keeps_noise {
            true => Some(enrich(Noise::Keep, purse.holding(made.bytes()))?.0),
            false => None,
        };
        let Request { signal, body, items, origin, unix_nanos } = request;
        let (quiet, whole) = match keep {
            Some(keep) => {
                let quiet = made.copy(&body, purse.holding(keep.bytes()))?;
                let purse = purse.holding(quiet.len());
                (quiet, keep.apply(body, purse)?)
            }
            None => {
                let quiet = made.apply(body, purse)?;
                (quiet.clone(), quiet)
            }
        };
        Ok(Self { signal, items, input: origin.input, unix_nanos, quiet: (quiet, noise), whole })
    }

    /// The request with all that is known of its sender.
    pub(super) fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// Bytes that all pipelines have in common.
    pub(super) fn bytes(&self) -> usize {
        let (quiet, whole) = (&self.quiet.0, &self.whole);
        whole.len() + if lies_in(quiet, whole) { 0 } else { quiet.len() }
    }

    /// Whether these bytes are of those.
    pub(super) fn has(&self, body: &Bytes) -> bool {
        lies_in(body, &self.whole) || lies_in(body, &self.quiet.0)
    }

    /// What one pipeline takes of the request, before its rules; `None` when it takes nothing.
    pub(crate) fn select(&self, selection: &Selection, purse: Purse<'_>) -> Result<Option<Taken>, Unprepared> {
        if !selection.takes_from(self.input) {
            return Ok(None);
        }
        let noise = self.noise_for(selection);
        let body = if selection.drop_noise { &self.quiet.0 } else { &self.whole };
        let (body, items) = match selection.of(self.signal, self.input, body) {
            Selected::Nothing if noise == 0 => return Ok(None),
            Selected::Nothing => (Bytes::new(), 0),
            Selected::All => (body.clone(), self.items - noise),
            Selected::Some(part) => (join(body, &part, selection.ranges(self.input, body), purse)?, part.items),
        };
        Ok(Some(Taken { body, items, noise }))
    }

    /// Parts of what clients push that none of these takes. What sources in this process collect is not among them: they
    /// make a request for each way in which some pipeline wants the same.
    pub(super) fn unclaimed<'a>(
        &'a self,
        selections: impl Iterator<Item = &'a Selection> + Clone,
    ) -> impl Iterator<Item = &'a [u8]> {
        let is_pushed = self.input == InputKind::Otlp;
        let stretches = is_pushed.then(move || select::unclaimed(selections, self.input, &self.whole));
        stretches.into_iter().flatten().filter_map(|stretch| self.whole.get(stretch))
    }

    /// What is left of it after the pipeline's rules.
    pub(crate) fn process(
        &self,
        Taken { body, items, noise }: Taken,
        rules: Option<&Rules>,
        purse: Purse<'_>,
    ) -> Result<Processed, Unprepared> {
        let purse = if self.has(&body) { purse } else { purse.holding(body.len()) };
        let mut processed = match rules {
            Some(rules) if items > 0 => rules.apply(body, items, purse, self.unix_nanos)?,
            _ => Processed { body, items, removed: Vec::new(), conversion: None },
        };
        if noise > 0 {
            processed.removed.push(Removed::new(ISTIO_NOISE, noise));
        }
        Ok(processed)
    }

    /// The steps of a preview: the request after enrichment, and without noise if the input leaves that out.
    pub(crate) fn steps(&self, input: &Input) -> Vec<Step> {
        let mut steps = vec![Step { name: "enrichment", request: self.whole.clone(), items: self.items }];
        if input.drop_istio_noise {
            let (request, noise) = &self.quiet;
            steps.push(Step { name: "noise filter", request: request.clone(), items: self.items - noise });
        }
        steps
    }

    /// Applies further rules to what a pipeline gets.
    pub(crate) fn apply(&self, rules: &Rules, processed: Processed, purse: Purse<'_>) -> Result<Processed, Unprepared> {
        Ok(rules.apply(processed.body, processed.items, purse, self.unix_nanos)?)
    }

    /// Items that the pipeline would take if they were not noise.
    fn noise_for(&self, selection: &Selection) -> u64 {
        if !selection.drop_noise || self.quiet.1 == 0 {
            return 0;
        }
        let (signal, input, total) = (self.signal, self.input, self.items);
        let taken = |body: &Bytes, all| match selection.of(signal, input, body) {
            Selected::All => all,
            Selected::Nothing => 0,
            Selected::Some(part) => part.items,
        };
        taken(&self.whole, total) - taken(&self.quiet.0, total - self.quiet.1)
    }
}

/// What a pipeline takes of a request, before its rules.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) body: Bytes,
    pub(crate) items: u64,
    /// What it would have taken, had it not been noise.
    noise: u64,
}

/// What enrichment makes of a request.
enum Made {
    /// The same.
    Nothing,
    /// Bytes that take the place of the first `until` bytes. They are paid for.
    Front { bytes: Vec<u8>, until: usize, _permit: Permit },
    /// These.
    Whole(Bytes),
}

impl Made {
    /// Bytes that it takes beside the request.
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Front { bytes, .. } => bytes.len(),
            Self::Whole(bytes) => bytes.len(),
        }
    }

    /// Makes the changes, in place where that is possible.
    fn apply(self, mut body: Body, purse: Purse<'_>) -> Result<Bytes, Unprepared> {
        match self {
            Self::Nothing => Ok(body.into_bytes()),
            Self::Front { bytes, until, .. } if body.replace_front(until, &bytes) => Ok(body.into_bytes()),
            made => made.copy(&body, purse),
        }
    }

    /// Makes it beside the request.
    fn copy(self, body: &[u8], purse: Purse<'_>) -> Result<Bytes, Unprepared> {
        let (front, until) = match &self {
            Self::Nothing => (&[][..], 0),
            Self::Front { bytes, until, .. } => (&bytes[..], *until),
            Self::Whole(bytes) => return Ok(bytes.clone()),
        };
        let rest = &body[until..];
        let permit = purse.holding(front.len()).take(front.len() + rest.len())?;
        Ok(budget::charge([front, rest].concat(), permit))
    }
}

/// What enrichment makes of a request, and how many items were removed as noise.
fn enrich(
    request: &Request,
    arrival: &Arrival,
    enricher: &Enricher,
    noise: Noise,
    purse: Purse<'_>,
) -> Result<(Made, u64), Unprepared> {
    let bytes = request.body.len();
    let mut enriched = enrich_within(bytes / 2 + LEAST_ROOM, request, arrival, enricher, noise, purse);
    for factor in ROOM_FACTORS {
        let room = bytes * factor + LEAST_ROOM;
        // There will never be more than a part of the memory for one request.
        if !matches!(enriched, Err(Unprepared::TooLarge(_))) || room > purse.capacity() / 4 {
            break;
        }
        enriched = enrich_within(room, request, arrival, enricher, noise, purse);
    }
    enriched
}

/// The same with `room` for the changes, which is paid for before they are made.
fn enrich_within(
    room: usize,
    request: &Request,
    arrival: &Arrival,
    enricher: &Enricher,
    noise: Noise,
    purse: Purse<'_>,
) -> Result<(Made, u64), Unprepared> {
    let Request { signal, body, .. } = request;
    let too_large = |error: &dyn std::fmt::Display| Unprepared::TooLarge(error.to_string());
    let mut permit = purse.take(room)?;
    let changes = enricher.edits(*signal, body, arrival, noise, room).map_err(|error| too_large(&error))?;
    let removed = u64::from(changes.noise);
    if changes.edits.is_empty() {
        return Ok((Made::Nothing, 0));
    }
    let until = splice::last_change(&changes.edits);
    let is_front = until <= body.len() / FRONT_PART;
    purse.extend(&mut permit, if is_front { until } else { body.len() } + changes.bytes())?;
    let made = if is_front {
        let front = splice::splice_front(*signal, body, changes.edits);
        front.map(|(bytes, until)| {
            permit.shrink_to(bytes.capacity());
            Made::Front { bytes, until, _permit: permit }
        })
    } else {
        splice::splice(*signal, body, changes.edits).map(|made| Made::Whole(budget::charge(made, permit)))
    };
    Ok((made.map_err(|error| too_large(&error))?, removed))
}

/// Joins resources of a request; if they follow each other, the result is a slice of the request.
fn join(
    body: &Bytes,
    part: &Part,
    resources: impl Iterator<Item = Range<usize>>,
    purse: Purse<'_>,
) -> Result<Bytes, Unprepared> {
    if part.bytes == part.span.len() {
        return Ok(body.slice(part.span.clone()));
    }
    let permit = purse.take(part.bytes)?;
    let mut joined = Vec::with_capacity(part.bytes);
    resources.for_each(|range| joined.extend_from_slice(&body[range]));
    Ok(budget::charge(joined, permit))
}

/// Whether some bytes are a piece of others.
fn lies_in(piece: &Bytes, whole: &Bytes) -> bool {
    let (piece, whole) = (piece.as_ptr_range(), whole.as_ptr_range());
    whole.start <= piece.start && piece.end <= whole.end
}
