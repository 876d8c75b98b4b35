//! One pass over a request: each of its records through all filters.

use std::borrow::Cow;

use weir_otlp::build::{Encoder, varint_len};
use weir_otlp::common::Message;
use weir_otlp::field::{any_value, key_value, log_record, request, resource_data, scope_data};
use weir_otlp::logs::{LogRecord, ResourceLogs};
use weir_otlp::rewrite::{Grown, Pass, Rewriter};
use weir_otlp::{NoRoom, Room};

use super::fields::{Field, Fields, Value};
use super::{Effect, Filtered, Filters, Finish, Tally};
use crate::members::{MOST_FIELDS, Member, Members};
use crate::object::{Frame, Object};
use crate::origin::Origin;
use crate::record::{self, CLUSTER, Finished, KUBERNETES, Record, dedotted, kubernetes};
use crate::sink::{Length, Sink};
use crate::time::Clock;

/// Tags and lengths of a record, its times, and the attribute that says what it is.
const MOST_FRAME: usize = 128;

pub(super) struct Walk<'a, 'room> {
    filters: &'a Filters,
    request: &'a [u8],
    max_scratch: usize,
    room: Room<'room>,
    rewriter: Rewriter<'a>,
    tallies: Vec<Tally>,
    clock: Clock,
}

impl<'a, 'room> Pass<'a, 'room> for Walk<'a, 'room> {
    fn output(&mut self) -> (&mut Rewriter<'a>, &mut Room<'room>) {
        (&mut self.rewriter, &mut self.room)
    }
}

impl<'a, 'room> Walk<'a, 'room> {
    pub(super) fn new(filters: &'a Filters, request: &'a [u8], max_scratch: usize, room: Room<'room>) -> Self {
        let (rewriter, tallies) = (Rewriter::new(request), vec![Tally::default(); filters.count()]);
        Self { filters, request, max_scratch, room, rewriter, tallies, clock: Clock::new() }
    }

    pub(super) fn run(mut self) -> Result<Filtered, NoRoom> {
        self.inside(Message::request(self.request), request::RESOURCES, |walk, resource| {
            let origin = Origin::of(ResourceLogs(resource).resource());
            let container = walk.container(origin)?;
            walk.inside(resource, resource_data::SCOPES, |walk, scope| {
                walk.inside(scope, scope_data::ITEMS, |walk, record| walk.record(record, origin, &container))
            })
        })?;
        let Self { mut room, rewriter, tallies, .. } = self;
        let request = if rewriter.is_changed() { Some(rewriter.finish(&mut room)?) } else { None };
        Ok(Filtered { request, tallies })
    }

    /// Facts about a container, as an object.
    fn container(&mut self, origin: Origin<'_>) -> Result<String, NoRoom> {
        const NAME: usize = KUBERNETES.len() + "\"\":".len();
        let settings = weir_plan::FluentBit { kyma: false, dedot: false, ..self.filters.settings.clone() };
        let mut length = Length::default();
        kubernetes(&mut Object::new(&mut length, Frame::Stream), &settings, origin);
        self.room.take(length.0)?;
        let mut out = Vec::with_capacity(length.0);
        kubernetes(&mut Object::new(&mut out, Frame::Stream), &settings, origin);
        out.drain(..NAME);
        // It is text, because what it is made of is.
        Ok(String::from_utf8(out).unwrap_or_default())
    }

    fn record(&mut self, message: Message<'a>, origin: Origin<'a>, container: &str) -> Result<Grown, NoRoom> {
        let log = LogRecord(message);
        let mut members = Members::default();
        let record = Record::read(log, origin, &self.filters.settings, &mut members);
        let mut fields = self.fields(&record, log.time_unix_nano(), container);
        match self.filters.run(&mut fields, &mut self.tallies) {
            Effect::None => Ok(Some(0)),
            Effect::Dropped => Ok(None),
            Effect::Changed => self.write(message, fields, container).map(Some),
        }
    }

    fn fields<'r>(&mut self, record: &Record<'r>, time: u64, container: &'r str) -> Fields<'r> {
        let mut collected = Collected { list: Vec::new(), time, clock: &mut self.clock, container };
        record.give(&self.filters.settings, &mut collected);
        let list = collected.list;
        Fields { list, room: self.max_scratch }
    }

    /// Writes a changed record in the place of the one it was. Returns by how much that is longer.
    fn write(&mut self, message: Message<'a>, mut fields: Fields<'_>, container: &str) -> Result<isize, NoRoom> {
        let mut finished = Finished::Whole;
        if let Some(at) = fields.find(KUBERNETES) {
            match &fields.list[at].value {
                // What the resource says need not be in each record.
                Value::Json(Cow::Borrowed(json)) if std::ptr::eq(*json, container) => {
                    finished = Finished::WithoutKubernetes;
                    fields.list.remove(at);
                }
                Value::Json(json) => {
                    if let Some(json) = self.filters.finish.kubernetes(json, &mut self.room)? {
                        fields.list[at].value = Value::Json(Cow::Owned(json));
                    }
                }
                Value::Text(_) => {}
            }
        }
        let length = fields.length();
        let field = message.field_range();
        self.rewriter.reserve(self.rewriter.gap_before(field.start) + length + MOST_FRAME, &mut self.room)?;
        let out = self.rewriter.replace(field.clone());
        let start = out.len();
        write_record(out, LogRecord(message), &fields, length, finished);
        Ok((out.len() - start).cast_signed() - field.len().cast_signed())
    }
}

/// The fields of a record so far.
struct Collected<'r, 'c> {
    list: Vec<Field<'r>>,
    time: u64,
    clock: &'c mut Clock,
    container: &'r str,
}

impl<'r> Collected<'r, '_> {
    fn push(&mut self, name: impl Into<Cow<'r, str>>, value: Value<'r>) {
        self.list.push(Field { name: name.into(), value });
    }
}

impl<'r> record::Fields<'r> for Collected<'r, '_> {
    fn time(&mut self, name: &'static str) {
        let time = self.clock.nanos(self.time).to_owned();
        self.push(name, Value::Text(Cow::Owned(time)));
    }

    fn text(&mut self, name: &'static str, text: &'r str) {
        self.push(name, Value::of(text));
    }

    fn member(&mut self, member: Member<'r>) {
        self.push(member.name(), Value::Json(Cow::Borrowed(member.value)));
    }

    fn cluster(&mut self, name: &'r str) {
        self.push(CLUSTER, Value::of(name));
    }

    fn kubernetes(&mut self) {
        self.push(KUBERNETES, Value::Json(Cow::Borrowed(self.container)));
    }
}

/// The times of a record, its new body, and what that is.
fn write_record(out: &mut Encoder, log: LogRecord<'_>, fields: &Fields<'_>, length: usize, finished: Finished) {
    let string = |length: usize| 1 + varint_len(length as u64) + length;
    let record = out.open(scope_data::ITEMS, length + MOST_FRAME);
    for (number, time) in [
        (log_record::TIME_UNIX_NANO, log.time_unix_nano()),
        (log_record::OBSERVED_TIME_UNIX_NANO, log.observed_time_unix_nano()),
    ] {
        if time > 0 {
            out.fixed64(number, time);
        }
    }
    out.header(log_record::BODY, string(length));
    out.header(any_value::STRING_VALUE, length);
    let mut text = Text(out);
    fields.write(&mut text);
    let name = finished.name();
    let attribute = out.open(log_record::ATTRIBUTES, name.len() + Finished::ATTRIBUTE.len() + 8);
    out.bytes(key_value::KEY, Finished::ATTRIBUTE.as_bytes());
    out.header(key_value::VALUE, string(name.len()));
    out.bytes(any_value::STRING_VALUE, name.as_bytes());
    out.close(attribute);
    out.close(record);
}

/// Takes the text of a record.
struct Text<'e>(&'e mut Encoder);

impl Sink for Text<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.0.raw(bytes);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn repeat(&mut self, _: std::ops::Range<usize>) {}

    fn set(&mut self, _: usize, _: [u8; 4]) {}
}

impl Finish {
    /// The facts about a container, if a filter has changed them; nothing if they stay as they are.
    fn kubernetes(self, json: &str, room: &mut Room<'_>) -> Result<Option<String>, NoRoom> {
        let mut members = Members::default();
        if !(self.app_name || self.dedot) || members.read(json, MOST_FIELDS).is_err() {
            return Ok(None);
        }
        let mut list = Vec::new();
        let mut app = None;
        for member in members.of(json) {
            let name = member.name();
            if self.app_name && name == "labels" {
                app = ["app.kubernetes.io/name", "app"]
                    .iter()
                    .find_map(|label| super::accessor::member(member.value, label));
            }
            let dedot = self.dedot && matches!(&*name, "labels" | "annotations");
            let value = if dedot { without_dots(member.value, room)? } else { None };
            let value = value.map_or(Cow::Borrowed(member.value), Cow::Owned);
            list.push(Field { name, value: Value::Json(value) });
        }
        let mut fields = Fields { list, room: 0 };
        let named = app.map_or(Ok(()), |app| fields.put("app_name", Value::Json(Cow::Borrowed(app))));
        if named.is_err() {
            return Ok(None);
        }
        written(&fields, room).map(Some)
    }
}

/// The object with other names; nothing for another value.
fn without_dots(json: &str, room: &mut Room<'_>) -> Result<Option<String>, NoRoom> {
    let mut members = Members::default();
    if members.read(json, MOST_FIELDS).is_err() {
        return Ok(None);
    }
    let mut fields = Fields::default();
    for member in members.of(json) {
        room.take(member.key.len())?;
        // There are no more than were read.
        let _ = fields.put(dedotted(&member.name()), Value::Json(Cow::Borrowed(member.value)));
    }
    written(&fields, room).map(Some)
}

fn written(fields: &Fields<'_>, room: &mut Room<'_>) -> Result<String, NoRoom> {
    let length = fields.length();
    room.take(length)?;
    Ok(fields.to_text(length))
}
