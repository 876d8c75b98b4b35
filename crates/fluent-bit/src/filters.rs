//! Filters of Fluent Bit, applied to the records that container logs become.
//!
//! A filter sees a record as Fluent Bit's own filters do under Kyma: with facts about the pod, and before `app_name`
//! is added and names are rid of their dots. Records that no filter changes keep their bytes.

mod accessor;
mod fields;
mod grep;
mod keys;
mod modify;
mod nest;
mod parser;
mod pattern;
mod record_modifier;
mod walk;

#[cfg(test)]
mod tests;

use std::fmt;

use weir_otlp::{NoRoom, Room};
use weir_plan::{FluentBit, Section};

use crate::text::Wrong;
use fields::{Fields, Misfit};
use grep::Grep;
pub use keys::{max_pattern_bytes, unknown};
use modify::Modify;
use nest::Nest;
use parser::Parser;
use record_modifier::RecordModifier;
use walk::Walk;

/// Names of all filters there are here.
pub const PLUGINS: [&str; 5] = ["grep", "record_modifier", "modify", "nest", "parser"];

/// Other filters of Fluent Bit, which may be named in messages.
const KNOWN: [&str; 14] = [
    "aws",
    "checklist",
    "ecs",
    "expect",
    "geoip2",
    "kubernetes",
    "log_to_metrics",
    "lua",
    "rewrite_tag",
    "sysinfo",
    "tensorflow",
    "throttle",
    "type_converter",
    "wasm",
];

/// The filters of a pipeline, in order.
#[derive(Debug)]
pub struct Filters {
    /// Of the records. The names in them keep their dots, and the names of applications are missing.
    settings: FluentBit,
    /// What is done to a record in the end.
    finish: Finish,
    list: Vec<Filter>,
}

/// What Kyma does behind all other filters.
#[derive(Debug, Clone, Copy)]
struct Finish {
    app_name: bool,
    dedot: bool,
}

/// What a filter is made of may come from Secrets: none of the types in it can be printed.
enum Filter {
    Grep(Grep),
    RecordModifier(RecordModifier),
    Modify(Modify),
    Nest(Nest),
    Parser(Parser),
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grep(_) => "Grep(***)",
            Self::RecordModifier(_) => "RecordModifier(***)",
            Self::Modify(_) => "Modify(***)",
            Self::Nest(_) => "Nest(***)",
            Self::Parser(_) => "Parser(***)",
        })
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filtered {
    /// Nothing when it stays as it is.
    pub request: Option<Vec<u8>>,
    /// What each filter did.
    pub tallies: Vec<Tally>,
}

/// What a filter did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Records that it changed.
    pub changed: u64,
    /// Records that it dropped.
    pub dropped: u64,
    /// Records that it could not be applied to.
    pub errors: u64,
    /// Why not, the first time.
    pub first_error: Option<String>,
}

/// What a filter did to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    None,
    Changed,
    Dropped,
}

impl Filters {
    /// Compiles the filters of a pipeline whose records have these settings.
    ///
    /// # Errors
    /// What is wrong with the first section that is wrong.
    pub fn compile(settings: &FluentBit, sections: &[Section]) -> Result<Self, Vec<Wrong>> {
        let list = sections.iter().map(Filter::compile).collect::<Result<_, _>>()?;
        let finish = Finish { app_name: settings.kyma && settings.labels, dedot: settings.dedot };
        Ok(Self { settings: settings.clone(), finish, list })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Applies them to a valid request. What is made of one record may take `max_scratch` bytes, which are paid for; all
    /// else is asked for with `pay`.
    ///
    /// # Errors
    /// When there is no room for the request that is made.
    pub fn apply_within(
        &self,
        request: &[u8],
        max_scratch: usize,
        pay: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Filtered, NoRoom> {
        Walk::new(self, request, max_scratch, Room::new(pay)).run()
    }

    /// Applies all filters to a record. Returns whether it is the same, changed, or dropped.
    fn run<'a>(&'a self, record: &mut Fields<'a>, tallies: &mut [Tally]) -> Effect {
        let mut effect = Effect::None;
        for (filter, tally) in self.list.iter().zip(tallies) {
            match filter.apply(record) {
                Ok(Effect::None) => {}
                Ok(Effect::Changed) => {
                    tally.changed += 1;
                    effect = Effect::Changed;
                }
                Ok(Effect::Dropped) => {
                    tally.dropped += 1;
                    return Effect::Dropped;
                }
                Err(misfit) => {
                    tally.errors += 1;
                    tally.first_error.get_or_insert_with(|| misfit.to_string());
                    // A part of it may have been done.
                    effect = Effect::Changed;
                }
            }
        }
        effect
    }
}

impl Filter {
    fn compile(section: &Section) -> Result<Self, Vec<Wrong>> {
        let name = section.lines.iter().rfind(|line| line.key == "name");
        let plugin = name.map(|line| line.value.reveal().to_ascii_lowercase()).unwrap_or_default();
        match plugin.as_str() {
            "grep" => Grep::compile(section).map(Self::Grep),
            "record_modifier" => RecordModifier::compile(section).map(Self::RecordModifier),
            "modify" => Modify::compile(section).map(Self::Modify),
            "nest" => Nest::compile(section).map(Self::Nest),
            "parser" => Parser::compile(section).map(Self::Parser),
            _ => Err(vec![unsupported(name.map_or(0, |line| line.number), &plugin)]),
        }
    }

    fn apply<'a>(&'a self, record: &mut Fields<'a>) -> Result<Effect, Misfit> {
        let changed = match self {
            Self::Grep(grep) if grep.keeps(record) => false,
            Self::Grep(_) => return Ok(Effect::Dropped),
            Self::RecordModifier(modifier) => modifier.apply(record)?,
            Self::Modify(modify) => modify.apply(record)?,
            Self::Nest(nest) => nest.apply(record)?,
            Self::Parser(parser) => parser.apply(record)?,
        };
        Ok(if changed { Effect::Changed } else { Effect::None })
    }
}

/// What is wrong with the section of a filter.
pub fn check(section: &Section) -> Vec<Wrong> {
    Filter::compile(section).err().unwrap_or_default()
}

fn unsupported(line: usize, plugin: &str) -> Wrong {
    let expected = format!("one of: {}", PLUGINS.join(", "));
    if plugin == "multiline" {
        let message = "filter multiline is not supported here: lines are joined where they are read";
        return Wrong::new(line, message, "the annotation weir.dev/multiline on the LogPipeline, without this filter");
    }
    Wrong::new(line, format!("filter {} is not supported", shown(plugin, &KNOWN)), expected)
}

/// The name of a plugin, if it is one of those that are known: other values of a section are never shown.
pub fn shown(plugin: &str, known: &[&'static str]) -> &'static str {
    known.iter().find(|name| plugin.eq_ignore_ascii_case(name)).copied().unwrap_or("(name not shown)")
}
