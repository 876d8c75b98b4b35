//! Editors that replace text: by glob or by regular expression, in one value or in a whole map.

use std::borrow::Cow;

use weir_re2::{Regex, TooSlow};

use super::{Function, Kind, STRING, function, optional, required};
use crate::program::{Arguments, Lambda, Syntax};
use crate::scene::maps::MapEditor;
use crate::scene::{Scene, TOO_LARGE, TOO_MUCH_WORK};
use crate::value::places::Distinct;
use crate::value::{Failure, Value};

const GLOB: super::Parameter = required("pattern", Kind::Pattern(Syntax::Glob));
const REGEX: super::Parameter = required("regex_pattern", Kind::Pattern(Syntax::Regex));
const REPLACEMENT: super::Parameter = required("replacement", STRING);
const FUNCTION: super::Parameter = optional("function", Kind::Function);
const FORMAT: super::Parameter = optional("replacement_format", STRING);

pub(super) const FUNCTIONS: &[Function] = &[
    function("replace_match", &[required("target", Kind::Path), GLOB, REPLACEMENT, FUNCTION, FORMAT], replace_match),
    function(
        "replace_all_matches",
        &[required("target", Kind::MapPath), GLOB, REPLACEMENT, FUNCTION, FORMAT],
        replace_all_matches,
    ),
    function(
        "replace_pattern",
        &[required("target", Kind::Path), REGEX, REPLACEMENT, FUNCTION, FORMAT],
        replace_pattern,
    ),
    function(
        "replace_all_patterns",
        &[
            required("target", Kind::MapPath),
            required("mode", Kind::OneOf(&["key", "value"])),
            REGEX,
            REPLACEMENT,
            FUNCTION,
            FORMAT,
        ],
        replace_all_patterns,
    ),
];

/// What replaces a match: a template, and perhaps a function and a format for the result of the template.
struct Replacement<'a> {
    template: Cow<'a, str>,
    function: Option<&'a Lambda>,
    format: Option<Cow<'a, str>>,
}

impl<'a> Replacement<'a> {
    /// The replacement whose template is the argument at `index`.
    fn of(arguments: &'a Arguments, index: usize, scene: &mut Scene<'a>) -> Result<Self, Failure> {
        let template = arguments.text(index, scene)?;
        let function = arguments.optional_lambda(index + 1);
        let has_format = function.is_some() && arguments.has(index + 2);
        let format = if has_format { Some(arguments.text(index + 2, scene)?) } else { None };
        Ok(Self { template, function, format })
    }

    /// What the function and the format make of a text.
    fn finish(&self, text: Cow<'a, str>, scene: &mut Scene<'a>) -> Result<Cow<'a, str>, Failure> {
        let Some(function) = self.function else { return Ok(text) };
        let text = scene.call_lambda(function, [Value::String(text)])?.into_text()?;
        let Some(format) = &self.format else { return Ok(text) };
        match format.split_once("%s") {
            Some((before, after)) if !before.contains('%') && !after.contains('%') => {
                Ok(Cow::Owned(format!("{before}{text}{after}")))
            }
            _ => Err(Failure::text("the replacement format must contain %s once and no other directive")),
        }
    }

    /// A text in which every match is replaced; `None` when nothing matches.
    fn replace(&self, pattern: &Regex, text: &str, scene: &mut Scene<'a>) -> Result<Option<String>, Failure> {
        let mut out = String::new();
        let mut done = 0;
        let mut matched = false;
        for captures in pattern.captures_iter(text) {
            let captures = captures.map_err(|TooSlow| TOO_MUCH_WORK)?;
            let Some(whole) = captures.get(0) else { continue };
            matched = true;
            out.push_str(&text[done..whole.start()]);
            done = whole.end();
            let mut expanded = String::new();
            pattern.expand(&captures, &self.template, &mut expanded);
            out.push_str(&self.finish(Cow::Owned(expanded), scene)?);
            scene.check_length(out.len())?;
        }
        out.push_str(&text[done..]);
        Ok(matched.then_some(out))
    }
}

fn replace_match<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(1, scene)?;
    let target = arguments.path(0)?;
    let replacement = Replacement::of(arguments, 2, scene)?;
    if let Value::String(text) = scene.get(target)?
        && pattern.is_match(&text)
    {
        let new = replacement.finish(replacement.template.clone(), scene)?;
        scene.set(target, Value::String(new))?;
    }
    Ok(Value::Nil)
}

fn replace_pattern<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let target = arguments.path(0)?;
    let value = scene.get(target)?;
    if value.is_nil() {
        return Ok(Value::Nil);
    }
    let replacement = Replacement::of(arguments, 2, scene)?;
    let pattern = arguments.pattern(1, scene)?;
    if let Value::String(text) = value
        && let Some(new) = replacement.replace(&pattern, &text, scene)?
    {
        scene.set(target, Value::text(new))?;
    }
    Ok(Value::Nil)
}

fn replace_all_matches<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(1, scene)?;
    let replacement = Replacement::of(arguments, 2, scene)?;
    let new = replacement.finish(replacement.template.clone(), scene)?;
    scene.edit_map(arguments.path(0)?, |map| {
        let mut changed = Distinct::default();
        for (key, value) in map.entries() {
            if let Value::String(text) = value
                && pattern.is_match(&text)
            {
                changed.put(key, Value::String(new.clone()));
            }
        }
        map.put(changed.entries)
    })?;
    Ok(Value::Nil)
}

fn replace_all_patterns<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(2, scene)?;
    let replacement = Replacement::of(arguments, 3, scene)?;
    let keys = arguments.literal_text(1) == Some("key");
    // What changes is found first: while the map is being edited no function can be called.
    let value = scene.get(arguments.path(0)?)?;
    let mut entries = scene.entries(value)?;
    let mut any = false;
    let mut length = 0;
    for (key, value) in &mut entries {
        let subject = match &*value {
            _ if keys => key.as_ref(),
            Value::String(text) => text.as_ref(),
            _ => "",
        };
        let applies = keys || matches!(value, Value::String(_));
        // As in the reference, an entry whose replacement fails is passed over.
        let new = match applies.then(|| replacement.replace(&pattern, subject, scene)) {
            Some(Err(failure)) if [TOO_LARGE, TOO_MUCH_WORK].contains(&failure) => return Err(failure),
            new => new.and_then(Result::ok).flatten(),
        };
        any |= new.is_some();
        length += new.as_ref().map_or(0, String::len);
        scene.check_length(length)?;
        match new {
            Some(new) if keys => *key = Cow::Owned(new),
            Some(new) => *value = Value::text(new),
            None => {}
        }
    }
    if any {
        scene.edit_map(arguments.path(0)?, |map: &mut MapEditor<'_, 'a>| map.replace_all(entries))?;
    }
    Ok(Value::Nil)
}
