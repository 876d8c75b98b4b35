//! Conditions: an item for which one of them holds is dropped.

use std::fmt;
use std::sync::Arc;

use bumpalo::Bump;

use crate::context::{self, Context};
use crate::error::{Error, Origin};
use crate::group::{Group, Limits, Options, Tally};
use crate::patch::Patches;
use crate::scene::Scene;
use crate::walk::Walk;
use weir_otlp::{NoRoom, Room, Signal};

/// Conditions, one of which is enough to drop an item, or a whole metric, scope or resource if that is its context.
///
/// Each condition has the context that its own paths name. Outer contexts come first: what they drop is not looked
/// into. Two filters are equal when they were made from the same texts. A clone shares what was compiled.
#[derive(Clone)]
pub struct Filter {
    signal: Signal,
    options: Options,
    conditions: Vec<String>,
    parts: Arc<[Part]>,
}

/// The conditions of one context.
#[derive(Debug)]
struct Part {
    group: Group,
    /// Their places among all conditions.
    places: Vec<usize>,
}

/// What a [`Filter`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filtered {
    /// The request without what was dropped; empty when nothing is left, `None` when nothing was dropped.
    pub request: Option<Vec<u8>>,
    /// One for each condition. An item that several conditions would drop counts for the first of them.
    pub conditions: Vec<Tally>,
    /// Spans, data points or log records that each condition dropped, including those in a whole metric, scope or
    /// resource.
    pub dropped: Vec<u64>,
}

impl Filtered {
    /// The result of a filter with so many conditions, before it did anything.
    fn nothing(conditions: usize) -> Self {
        Self { request: None, conditions: vec![Tally::default(); conditions], dropped: vec![0; conditions] }
    }
}

impl Filter {
    /// Compiles conditions.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the conditions.
    pub fn compile(signal: Signal, options: &Options, conditions: &[String]) -> Result<Self, Vec<Error>> {
        let mut errors = Vec::new();
        let mut places: Vec<(Context, Vec<usize>)> = Vec::new();
        for (place, text) in conditions.iter().enumerate() {
            match Group::compile(signal, options, std::slice::from_ref(text), &[]) {
                Ok(group) => match places.iter_mut().find(|(context, _)| *context == group.context) {
                    Some((_, places)) => places.push(place),
                    None => places.push((group.context, vec![place])),
                },
                Err(found) => errors.extend(found.into_iter().map(|error| error.at(Origin::Condition(place)))),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        places.sort_by_key(|(context, _)| std::cmp::Reverse(context::ALL.iter().position(|other| other == context)));
        let part = |(_, places): (Context, Vec<usize>)| {
            let texts: Vec<String> = places.iter().map(|place| conditions[*place].clone()).collect();
            Ok(Part { group: Group::compile(signal, options, &texts, &[])?, places })
        };
        let parts = places.into_iter().map(part).collect::<Result<_, Vec<Error>>>()?;
        Ok(Self { signal, options: options.clone(), conditions: conditions.to_vec(), parts })
    }

    /// Drops from a valid request whatever a condition holds for, and scopes and resources that have nothing left. A
    /// condition that fails is counted and drops nothing.
    pub fn apply(&self, request: &[u8], limits: &Limits) -> Filtered {
        let done = self.apply_within(request, limits, &mut |_| true);
        done.unwrap_or_else(|NoRoom| Filtered::nothing(self.conditions.len()))
    }

    /// The same, with memory that `pay` gives beside what `limits` say: so many bytes more each time, or false when
    /// there are none.
    ///
    /// # Errors
    /// [`NoRoom`] when `pay` says so.
    pub fn apply_within(
        &self,
        request: &[u8],
        limits: &Limits,
        pay: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Filtered, NoRoom> {
        let mut done = Filtered::nothing(self.conditions.len());
        for part in self.parts.iter() {
            let request = done.request.as_deref().unwrap_or(request);
            let left = part.apply(&Bump::new(), request, limits, Room::new(&mut *pay))?;
            done.request = left.request.or(done.request);
            for (place, (tally, dropped)) in part.places.iter().zip(left.conditions.into_iter().zip(left.dropped)) {
                done.conditions[*place] = tally;
                done.dropped[*place] = dropped;
            }
        }
        Ok(done)
    }
}

impl Part {
    fn apply<'a>(
        &'a self,
        arena: &'a Bump,
        request: &'a [u8],
        limits: &Limits,
        room: Room<'_>,
    ) -> Result<Filtered, NoRoom> {
        let Filtered { mut conditions, dropped, .. } = Filtered::nothing(self.places.len());
        let group = &self.group;
        let mut walk = Walk {
            scene: group.scene(request, arena, limits),
            signal: group.signal,
            context: group.context,
            drops: true,
            remembers_points: false,
            visit: |scene: &mut Scene<'a>| group.first_match(scene, &mut conditions),
            patches: Patches::within(room),
            dropped,
        };
        walk.run();
        let (patches, dropped) = (walk.patches, walk.dropped);
        Ok(Filtered { request: patches.made(request)?, conditions, dropped })
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        (self.signal, &self.options, &self.conditions) == (other.signal, &other.options, &other.conditions)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("conditions", &self.conditions).finish_non_exhaustive()
    }
}
