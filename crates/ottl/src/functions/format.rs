//! `Format`: text by a format of Go's `fmt` package.
//!
//! What is wrong with a format or its values is written into the text, as in Go: `%!d(string=x)`. Lists and maps are
//! written as Go writes plain values; the reference writes their addresses.

use super::{Function, Kind, function, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

use spec::Spec;

mod float;
mod print;
mod quote;
mod spec;

pub(super) const FUNCTIONS: &[Function] =
    &[function("Format", &[required("format", Kind::Text), required("vals", Kind::Values)], |arguments, scene| {
        format(arguments, scene)
    })];

fn format<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let values = arguments.values(1, scene)?;
    let template = arguments.literal_text(0).unwrap_or_default();
    let mut run = Run { rest: template, values: &values, next: 0, reordered: false, good_index: true };
    let mut out = String::with_capacity(template.len());
    while let Some((text, rest)) = run.rest.split_once('%') {
        out.push_str(text);
        run.rest = rest;
        run.directive(&mut out, scene)?;
        scene.check_length(out.len())?;
    }
    out.push_str(run.rest);
    run.extra(scene.room(), &mut out)?;
    Ok(Value::text(out))
}

/// A format that is being worked on.
struct Run<'v, 'a> {
    rest: &'v str,
    values: &'v [Value<'a>],
    /// Which value comes next.
    next: usize,
    /// Whether the format chose a value by its index.
    reordered: bool,
    /// Whether all indexes in the directive lead to a value.
    good_index: bool,
}

impl Run<'_, '_> {
    /// A directive, behind its percent sign.
    fn directive(&mut self, out: &mut String, scene: &Scene<'_>) -> Result<(), Failure> {
        self.good_index = true;
        let mut spec = Spec { room: scene.room(), ..Spec::default() };
        while let Some(flag) = self.rest.chars().next().filter(|flag| spec.flag(*flag)) {
            self.rest = &self.rest[flag.len_utf8()..];
        }
        let indexed = self.index();
        let indexed = self.width(&mut spec, indexed, out);
        let indexed = self.precision(&mut spec, indexed, out);
        if !indexed {
            self.index();
        }
        let Some(verb) = self.rest.chars().next() else {
            out.push_str("%!(NOVERB)");
            return Ok(());
        };
        self.rest = &self.rest[verb.len_utf8()..];
        scene.check_length(spec.width.unwrap_or_default().max(spec.precision.unwrap_or_default()))?;
        match self.values.get(self.next) {
            _ if verb == '%' => out.push('%'),
            _ if !self.good_index => out.push_str(&format!("%!{verb}(BADINDEX)")),
            None => out.push_str(&format!("%!{verb}(MISSING)")),
            Some(value) => {
                self.next += 1;
                print::value(value, verb, &spec.of(verb), out)?;
            }
        }
        Ok(())
    }

    /// The index of a value in brackets, and whether there was one.
    fn index(&mut self) -> bool {
        let Some(rest) = self.rest.strip_prefix('[') else { return false };
        self.reordered = true;
        let Some((index, after)) = rest.split_once(']').filter(|_| rest.len() > 1) else {
            self.good_index = false;
            self.rest = rest;
            return false;
        };
        self.rest = after;
        let index = index.bytes().all(|byte| byte.is_ascii_digit()).then(|| spec::size(index)).flatten();
        match index.and_then(|index| index.checked_sub(1)) {
            Some(index) if index < self.values.len() => self.next = index,
            _ => self.good_index = false,
        }
        index.is_some()
    }

    /// A width, behind an index or not. Returns whether an index stands right before what follows.
    fn width(&mut self, spec: &mut Spec, indexed: bool, out: &mut String) -> bool {
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            match self.size_argument() {
                Some(width) => {
                    spec.minus |= width < 0;
                    spec.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => out.push_str("%!(BADWIDTH)"),
            }
            return false;
        }
        spec.width = self.number();
        self.good_index &= !(indexed && spec.width.is_some());
        indexed
    }

    /// A point and a precision; as [`width`](Self::width).
    fn precision(&mut self, spec: &mut Spec, indexed: bool, out: &mut String) -> bool {
        let Some(rest) = self.rest.strip_prefix('.') else { return indexed };
        self.rest = rest;
        self.good_index &= !indexed;
        let indexed = self.index();
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            spec.precision = self.size_argument().and_then(|precision| usize::try_from(precision).ok());
            if spec.precision.is_none() {
                out.push_str("%!(BADPREC)");
            }
            return false;
        }
        spec.precision = Some(self.number().unwrap_or_default());
        indexed
    }

    fn number(&mut self) -> Option<usize> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        let number = spec::size(digits);
        // As in Go, a number too large ends the format.
        self.rest = if number.is_none() && !digits.is_empty() { "" } else { rest };
        number
    }

    /// The next value, when it is the number of a width or a precision.
    fn size_argument(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        match value {
            Value::Int(size) if size.unsigned_abs() <= 1_000_000 => Some(*size),
            _ => None,
        }
    }

    /// Values that the format does not use.
    fn extra(&self, room: usize, out: &mut String) -> Result<(), Failure> {
        let extra = self.values.get(self.next..).unwrap_or_default();
        if self.reordered || extra.is_empty() {
            return Ok(());
        }
        out.push_str("%!(EXTRA ");
        for (index, value) in extra.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            print::with_type(value, &Spec { room, ..Spec::default() }, out)?;
        }
        out.push(')');
        Ok(())
    }
}
