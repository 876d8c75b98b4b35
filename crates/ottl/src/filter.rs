//! Conditions that drop what they hold for.

use std::fmt;
use std::sync::Arc;

use bumpalo::Bump;

use crate::context::Context;
use crate::error::Error;
use crate::group::{Group, Limits, Options, Tally};
use crate::patch::Patches;
use crate::scene::Scene;
use crate::walk::Walk;
use weir_otlp::Signal;

/// Conditions of which one is enough to drop an item, or a whole metric, scope or resource when that is the context.
///
/// Two are equal when they were made from the same texts. A clone shares what was compiled.
#[derive(Clone)]
pub struct Filter {
    options: Options,
    conditions: Vec<String>,
    group: Arc<Group>,
}

/// What a [`Filter`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filtered {
    /// The request without what was dropped, empty when nothing is left; none when nothing was dropped.
    pub request: Option<Vec<u8>>,
    /// One for each condition. What several would drop is counted for the first of them.
    pub conditions: Vec<Tally>,
    /// Spans, data points or log records dropped.
    pub dropped_items: u64,
}

impl Filter {
    /// Compiles conditions.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the conditions.
    pub fn compile(signal: Signal, options: &Options, conditions: &[String]) -> Result<Self, Vec<Error>> {
        let group = Arc::new(Group::compile(signal, options, conditions, &[])?);
        Ok(Self { options: options.clone(), conditions: conditions.to_vec(), group })
    }

    /// The context the conditions are evaluated in.
    pub fn context(&self) -> Context {
        self.group.context
    }

    /// Drops from a valid request what a condition holds for, and scopes and resources that have nothing left. A
    /// condition that fails is counted and drops nothing.
    pub fn apply(&self, request: &[u8], limits: &Limits) -> Filtered {
        self.apply_in(&Bump::new(), request, limits)
    }

    fn apply_in<'a>(&'a self, arena: &'a Bump, request: &'a [u8], limits: &Limits) -> Filtered {
        let mut conditions = vec![Tally::default(); self.conditions.len()];
        let group = &*self.group;
        let mut walk = Walk {
            scene: group.scene(request, arena, limits),
            signal: group.signal,
            context: group.context,
            drops: true,
            remembers_points: false,
            visit: |scene: &mut Scene<'a>| !group.first_match(scene, &mut conditions),
            patches: Patches::default(),
            dropped_items: 0,
        };
        walk.run();
        let (patches, dropped_items) = (walk.patches, walk.dropped_items);
        let request = (!patches.is_empty()).then(|| patches.apply(request));
        Filtered { request, conditions, dropped_items }
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        (self.group.signal, &self.options, &self.conditions) == (other.group.signal, &other.options, &other.conditions)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("conditions", &self.conditions).finish_non_exhaustive()
    }
}
