//! Records as messages of GELF 1.1: flat objects whose additional fields begin with `_`.
//!
//! `host`, `short_message`, `full_message`, `timestamp` and `level` of a JSON line keep their meaning in GELF, if they
//! have the right type. Without them, the host is the node, and the short message is `message`, `msg` or the text.
//! Fluent Bit drops what has no short message, and everything that is sent with it.
//!
//! Values from different places of a record may get the same name. The last one counts, as everywhere: all names are
//! read before a record is written (`names`).

mod names;

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use weir_plan::{Date, FluentBit};

use crate::json::{Lexer, Nested, Scalar, Visitor, unescape};
use crate::members::{MOST_FIELDS, Member};
use crate::record::{Notation, Record};
use crate::sink::{Length, Sink};
use crate::time::Clock;
use names::Names;

/// An object whose fields take more than this many times its length, and [`SMALL`], stays one field, as text.
const MOST_GROWTH: usize = 4;

/// The fields of an object may take this much, however short the object is, in bytes.
const SMALL: usize = 1024;

/// Names of severities, by number.
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Writes messages.
pub(crate) struct Gelf<'s, S> {
    settings: &'s FluentBit,
    out: S,
    /// Of the record that is written.
    names: Names,
    /// How many it has so far, with those that are left out.
    fields: usize,
    /// The name of the field that is written, with those of the objects around it.
    name: String,
    /// How long the name was before each object that is open.
    open: Vec<usize>,
}

/// Where a scalar is in a message.
enum Field<'t> {
    /// As it is written in JSON, under a name of GELF.
    Known(&'static str, &'t str),
    Level(usize),
    Additional,
}

/// What a letter of a name becomes: letters, digits and `_.-` stay.
fn letter(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-') { letter } else { '_' }
}

impl<'s, S: Sink> Gelf<'s, S> {
    pub(crate) fn new(out: S, settings: &'s FluentBit) -> Self {
        Self { settings, out, names: Names::default(), fields: 0, name: String::new(), open: Vec::new() }
    }

    /// Adds a part to the name.
    fn enter(&mut self, part: &str) {
        self.open.push(self.name.len());
        self.name.push('_');
        self.name.extend(part.chars().map(letter));
    }

    fn leave(&mut self) {
        self.name.truncate(self.open.pop().unwrap_or_default());
    }

    /// Begins a field, unless another one of its name follows.
    fn key(&mut self) -> bool {
        self.fields += 1;
        // GELF has another use for this name.
        let name = if self.name == "_id" { "__id" } else { &self.name };
        if !self.names.is_last(name) {
            return false;
        }
        self.out.put(b",\"");
        self.out.put(name.as_bytes());
        self.out.put(b"\":");
        true
    }

    fn raw(&mut self, key: &str, json: &str) {
        self.out.put(b",\"");
        self.out.put(key.as_bytes());
        self.out.put(b"\":");
        self.out.put(json.as_bytes());
    }

    fn known_text(&mut self, key: &str, text: &str) {
        self.raw(key, "\"");
        self.out.put_escaped(text);
        self.out.put(b"\"");
    }

    fn scalar_field(&mut self, scalar: Scalar<'_>) {
        if scalar == Scalar::Null || !self.key() {
            return;
        }
        match scalar {
            Scalar::Null => {}
            Scalar::Bool(value) => self.out.put(if value { b"\"true\"" } else { b"\"false\"" }),
            Scalar::Number(digits) => self.out.put(digits.as_bytes()),
            Scalar::Text(raw) => {
                self.out.put(b"\"");
                self.out.put(raw.as_bytes());
                self.out.put(b"\"");
            }
        }
    }
}

impl<S: Sink> Gelf<'_, S> {
    /// Whether the fields that a value becomes are not much longer than it, and there is room for them in the record. The
    /// name of an object is repeated in each of its fields, so that a line of 256 KiB could become hundreds of megabytes.
    fn is_bounded(&mut self, json: &str) -> bool {
        if !json.starts_with('{') {
            return true;
        }
        let mut counted = Gelf::new(Length::default(), self.settings);
        counted.name = mem::take(&mut self.name);
        counted.write_fields(json);
        let (length, fields) = (counted.out.0, counted.fields);
        self.name = counted.name;
        length <= MOST_GROWTH * json.len() + SMALL && self.fields + fields <= MOST_FIELDS
    }

    fn write_fields(&mut self, json: &str) {
        let mut fields = Fields { gelf: self, text: json, objects: 0, in_array: 0, start: 0 };
        // It was read before.
        let _ = Lexer::new(json).value(&mut fields, 1);
    }

    /// One field, whatever is in the value.
    fn json_as_text(&mut self, json: &str) {
        if !self.key() {
            return;
        }
        self.out.put(b"\"");
        self.out.put_escaped(json);
        self.out.put(b"\"");
    }
}

/// What a member means to GELF.
fn field<'t>(member: Member<'t>) -> Field<'t> {
    let is_text = member.value.starts_with('"');
    let is_number = member.value.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    match member.key {
        "host" if is_text => Field::Known("host", member.value),
        "short_message" if is_text => Field::Known("short_message", member.value),
        "full_message" if is_text => Field::Known("full_message", member.value),
        "timestamp" if is_number => Field::Known("timestamp", member.value),
        "level" => level(member.value.trim_matches('"')).map_or(Field::Additional, Field::Level),
        _ => Field::Additional,
    }
}

fn level(text: &str) -> Option<usize> {
    let number = text.parse().ok().filter(|number| *number < LEVELS.len());
    number.or_else(|| LEVELS.iter().position(|name| name.eq_ignore_ascii_case(text)))
}

/// The text of a member, if it is one.
fn text_of<'t>(record: &Record<'t>, key: &str) -> Option<Cow<'t, str>> {
    let member = record.members().find(|member| member.key == key)?;
    Some(unescape(member.value.strip_prefix('"')?.strip_suffix('"')?))
}

impl<S: Sink> Notation for Gelf<'_, S> {
    fn start(&mut self) {}

    fn finish(&mut self) {}

    fn begin(&mut self, record: &Record<'_>, _: &Date, _: &mut Clock) {
        self.list_names(record);
        self.out.put(b"{\"version\":\"1.1\"");
        let has = |name: &str| {
            record.members().any(|member| matches!(field(member), Field::Known(known, _) if known == name))
        };
        if !has("host") {
            let host = if record.origin.node.is_empty() { record.origin.pod } else { record.origin.node };
            self.known_text("host", host);
        }
        if !has("short_message") {
            // What filters made has the line in a field, and is no line itself.
            let log = || record.finished.and_then(|_| text_of(record, "log"));
            let message = text_of(record, "message").or_else(|| text_of(record, "msg")).or_else(log);
            self.known_text("short_message", message.as_deref().unwrap_or(record.text));
        }
        if !has("timestamp") {
            let (second, micros) = (record.unix_nanos / 1_000_000_000, record.unix_nanos % 1_000_000_000 / 1000);
            self.raw("timestamp", &format!("{second}.{micros:06}"));
        }
    }

    fn end(&mut self) {
        self.out.put(b"}\n");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.enter(key);
        if self.key() {
            self.out.put(b"\"");
            self.out.put_escaped(value);
            self.out.put(b"\"");
        }
        self.leave();
    }

    fn member(&mut self, member: Member<'_>) {
        match field(member) {
            Field::Known(name, json) => self.raw(name, json),
            Field::Level(number) => self.raw("level", &number.to_string()),
            Field::Additional => {
                self.enter(&member.name());
                if self.is_bounded(member.value) {
                    self.write_fields(member.value);
                } else {
                    self.json_as_text(member.value);
                }
                self.leave();
            }
        }
    }

    const RENAMES: bool = true;

    fn name(key: &str) -> String {
        key.chars().map(letter).collect()
    }

    fn open(&mut self, key: &str) {
        self.enter(key);
    }

    fn close(&mut self) {
        self.leave();
    }

    fn len(&self) -> usize {
        self.out.len()
    }

    fn repeat(&mut self, field: Range<usize>) {
        self.out.repeat(field);
    }
}

/// The fields that a member becomes: one for each value in it that is not an object. Arrays stay together, as text.
struct Fields<'a, 's, S> {
    gelf: &'a mut Gelf<'s, S>,
    text: &'a str,
    /// Objects around the value, each of which gave a part of its name.
    objects: usize,
    /// Arrays around the value, and objects in them.
    in_array: usize,
    /// Where the outermost array begins.
    start: usize,
}

impl<S: Sink> Fields<'_, '_, S> {
    fn end_value(&mut self) {
        if self.objects > 0 {
            self.gelf.leave();
        }
    }
}

impl<S: Sink> Visitor for Fields<'_, '_, S> {
    fn open(&mut self, nested: Nested, at: usize) {
        if self.in_array == 0 && nested == Nested::Object {
            self.objects += 1;
            return;
        }
        if self.in_array == 0 {
            self.start = at;
        }
        self.in_array += 1;
    }

    fn close(&mut self, _: Nested, end: usize) {
        if self.in_array == 0 {
            self.objects -= 1;
            return self.end_value();
        }
        self.in_array -= 1;
        if self.in_array == 0 {
            self.gelf.json_as_text(&self.text[self.start..end]);
            self.end_value();
        }
    }

    fn key(&mut self, raw: &str) {
        if self.in_array == 0 {
            self.gelf.enter(&unescape(raw));
        }
    }

    fn scalar(&mut self, scalar: Scalar<'_>) {
        if self.in_array == 0 {
            self.gelf.scalar_field(scalar);
            self.end_value();
        }
    }
}
