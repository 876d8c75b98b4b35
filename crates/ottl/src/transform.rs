//! Statements applied to a request.

use std::fmt;
use std::sync::Arc;

use bumpalo::Bump;

use crate::context::Context;
use crate::error::Error;
use crate::group::{Group, Limits, Options, Tally};
use crate::patch::Patches;
use crate::program::Statement;
use crate::scene::Scene;
use crate::value::Failure;
use crate::walk::{DroppedBy, Walk};
use weir_otlp::{NoRoom, Room, Signal};

/// A group of statements, executed in order for every item for which one of the conditions holds.
///
/// Two transforms are equal when they were made from the same texts. A clone shares what was compiled.
#[derive(Clone)]
pub struct Transform {
    options: Options,
    conditions: Vec<String>,
    statements: Vec<String>,
    group: Arc<Group>,
}

/// What a [`Transform`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transformed {
    /// The request with the changes; `None` when nothing changed.
    pub request: Option<Vec<u8>>,
    /// One for each condition.
    pub conditions: Vec<Tally>,
    /// One for each statement.
    pub statements: Vec<Tally>,
}

impl Transform {
    /// Compiles statements and the conditions for all of them; no condition means always.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of conditions and statements.
    pub fn compile(
        signal: Signal,
        options: &Options,
        conditions: &[String],
        statements: &[String],
    ) -> Result<Self, Vec<Error>> {
        let group = Arc::new(Group::compile(signal, options, conditions, statements)?);
        let (conditions, statements) = (conditions.to_vec(), statements.to_vec());
        Ok(Self { options: options.clone(), conditions, statements, group })
    }

    /// The context the statements are executed in.
    pub fn context(&self) -> Context {
        self.group.context
    }

    /// Executes the statements for every item of a valid request. A statement that fails for an item is counted and
    /// leaves the item as it is; the next statement goes on.
    pub fn apply(&self, request: &[u8], limits: &Limits) -> Transformed {
        self.apply_within(request, limits, &mut |_| true).unwrap_or_else(|NoRoom| Transformed::default())
    }

    /// The same, with memory that `pay` gives beside what `limits` say: so many bytes more each time, or false when there
    /// are none.
    ///
    /// # Errors
    /// [`NoRoom`] when `pay` says so.
    pub fn apply_within(
        &self,
        request: &[u8],
        limits: &Limits,
        pay: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Transformed, NoRoom> {
        self.apply_in(&Bump::new(), request, limits, Room::new(pay))
    }

    fn apply_in<'a>(
        &'a self,
        arena: &'a Bump,
        request: &'a [u8],
        limits: &Limits,
        room: Room<'_>,
    ) -> Result<Transformed, NoRoom> {
        let mut conditions = vec![Tally::default(); self.conditions.len()];
        let mut statements = vec![Tally::default(); self.statements.len()];
        let group = &*self.group;
        let mut walk = Walk {
            scene: group.scene(request, arena, limits),
            signal: group.signal,
            context: group.context,
            drops: false,
            remembers_points: group.statements.iter().any(|statement| statement.action.remembers_points()),
            visit: |scene: &mut Scene<'a>| execute(group, scene, &mut conditions, &mut statements),
            patches: Patches::rewriting(request.len(), request.len().saturating_add(limits.max_growth), room)?,
            dropped: Vec::new(),
        };
        walk.run();
        let request = walk.patches.made(request)?;
        Ok(Transformed { request, conditions, statements })
    }
}

/// Executes the statements for what the scene shows. It never drops anything.
fn execute<'a>(
    group: &'a Group,
    scene: &mut Scene<'a>,
    conditions: &mut [Tally],
    statements: &mut [Tally],
) -> DroppedBy {
    if !group.conditions.is_empty() && group.first_match(scene, conditions).is_none() {
        return None;
    }
    for (statement, tally) in group.statements.iter().zip(statements) {
        match run(statement, scene) {
            Ok(matched) => tally.matched += u64::from(matched),
            Err(failure) => tally.failed(&failure),
        }
    }
    None
}

/// Executes a statement if its condition holds, and returns whether it did. A statement that fails has changed nothing.
fn run<'a>(statement: &'a Statement, scene: &mut Scene<'a>) -> Result<bool, Failure> {
    scene.begin_statement();
    let holds = scene.test(&statement.test)?;
    if holds {
        scene.act(&statement.action)?;
    }
    scene.check_size()?;
    Ok(holds)
}

impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        (self.group.signal, &self.options, &self.conditions, &self.statements)
            == (other.group.signal, &other.options, &other.conditions, &other.statements)
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Transform");
        debug.field("conditions", &self.conditions).field("statements", &self.statements).finish_non_exhaustive()
    }
}
