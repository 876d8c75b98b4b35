//! Log records of what containers write, in the shapes that pipelines want.
//!
//! In the raw shape ([`RecordShape::Raw`]), a record has only the text as it was written, `log.iostream` and the time.
//!
//! Else records are those of Kyma's log agent: the file log receiver of the OpenTelemetry
//! Collector 0.158 with the operators that the telemetry manager configures. Each fact below was seen by running that
//! receiver with that configuration.
//!
//! - Spaces, tabs and carriage returns at the end of a line are no part of its text. What is not UTF-8 in it becomes
//!   U+FFFD, one for as many bytes as begin a character.
//! - A text that begins with `{`, ends with `}` and has no line feed is read as JSON. Its members become attributes,
//!   over those that are there: an object may say another `log.iostream`. The last of equal names counts. All numbers
//!   are doubles, `null` is an attribute without a value.
//! - The body is the value of `msg`, else of `message`, of any type but `null`, which stays an attribute. Two objects
//!   are merged. Without both there is a body without a value, whether the text is kept as `log.original` or not.
//! - Severity comes from `log.level` if that can be a level, else from `level`. Both cease to be attributes unless they
//!   are `null`, also when nothing could be made of them.
//! - With a `trace_id`, trace context is that and `span_id` and `trace_flags`, of which each that is not hexadecimal is
//!   lost; shorter ones are filled up with zeros, longer ones cut. A `traceparent` beside them stays an attribute.
//!   Without one, `traceparent` is used if it is valid, and its three parts replace fields of those names. Without
//!   both, fields stay what they are.
//!
//! Differences: a text that looks like JSON and is not stays the body; the Collector moves it to `log.original`, or
//! loses it if that is not kept. A text that is nested deeper than the engine takes, or grows too large for a request,
//! also stays the body; the Collector takes 10,000 levels. In levels, only ASCII letters match in any case.

use memchr::memchr;
use weir_otlp::build::{Encoder, Open};
use weir_otlp::conventions;
use weir_otlp::field::{any_value, log_record, request, resource, resource_data, scope_data};
use weir_plan::RecordShape;

pub(crate) use self::attributes::Attributes;
use self::attributes::{MEMORY, field_len, write_member};
use self::known::Findings;
use self::lexer::Scalar;
use super::join::Entry;
use super::line::Stream;
use crate::encoding::own_scope;

mod attributes;
mod known;
mod lexer;
mod severity;
mod trace;

#[cfg(test)]
mod tests;

const SCOPE_NAME: &str = "io.kyma-project.telemetry/runtime";

/// What a record takes at most besides its text and its attributes: times, severity, trace context and lengths; and
/// what the lengths of the messages around it may grow by.
const REST: usize = 160;

/// What reading JSON takes besides the request.
pub(crate) const ATTRIBUTES_BYTES: usize = MEMORY;

/// Which files the records are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) container: &'a str,
    pub(crate) node: Option<&'a str>,
    /// How often the container was started before.
    pub(crate) restarts: u64,
    /// Of the file while it was written: rotation does not change it.
    pub(crate) path: &'a str,
}

/// How large a request becomes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) expected: usize,
    /// At least a few kilobytes: the resource and the scope are written, whatever room there is.
    pub(crate) most: usize,
}

/// What an entry became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
    /// A text that looks like JSON; but it is not, or there is too much in it.
    Unparsed,
    /// A text without its end, because no request could hold it.
    Cut,
}

/// There is no room for the record in this request. An empty one takes any record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room for the log record")]
pub(crate) struct NoRoom;

/// An export request with the records of one container.
#[derive(Debug)]
pub(crate) struct RequestBuilder {
    out: Encoder,
    resource: Open,
    scope: Open,
    origin: Origin,
    shape: RecordShape,
    most: usize,
    items: u32,
    /// Before the last entry.
    before_entry: Filled,
    marked: Filled,
}

/// How much is in a request.
#[derive(Debug, Clone, Copy)]
struct Filled {
    bytes: usize,
    items: u32,
}

impl RequestBuilder {
    pub(crate) fn new(source: &Source<'_>, shape: RecordShape, size: Size) -> Self {
        let expected = size.expected.min(size.most);
        let mut out = Encoder::with_capacity(expected);
        let resource = out.open(request::RESOURCES, expected);
        write_resource(&mut out, source);
        let scope = out.open(resource_data::SCOPES, expected);
        own_scope(&mut out, SCOPE_NAME);
        let origin = Origin::of(source, shape);
        let empty = Filled { bytes: out.len(), items: 0 };
        let (before_entry, marked) = (empty, empty);
        Self { out, resource, scope, origin, shape, most: size.most, items: 0, before_entry, marked }
    }

    /// Appends a record, or nothing. Into an empty request goes any record: without parsing it, and without its end,
    /// if need be. `attributes` is where JSON is read to.
    pub(crate) fn push(
        &mut self,
        entry: &Entry<'_>,
        attributes: &mut Attributes,
        observed_unix_nanos: u64,
    ) -> Result<Form, NoRoom> {
        let is_raw = self.shape == RecordShape::Raw;
        let text = String::from_utf8_lossy(if is_raw { &entry.text } else { trim(&entry.text) });
        let record = Record { text: &text, entry, observed_unix_nanos };
        let form = if is_raw || !looks_like_json(&text) {
            self.push_text(record, Form::Text)?
        } else if attributes.read(&text, self.most).is_err() {
            self.push_text(record, Form::Unparsed)?
        } else {
            match self.push_json(record, attributes) {
                Err(NoRoom) if self.items == 0 => self.push_text(record, Form::Unparsed)?,
                pushed => pushed?,
            }
        };
        self.items += 1;
        Ok(form)
    }

    /// From now on, [`Self::undo_entry`] takes away what is added.
    pub(crate) fn begin_entry(&mut self) {
        self.before_entry = self.filled();
    }

    pub(crate) fn undo_entry(&mut self) {
        self.go_back_to(self.before_entry);
    }

    /// From now on, [`Self::reset`] takes away what is added.
    pub(crate) fn mark(&mut self) {
        self.marked = self.filled();
    }

    pub(crate) fn reset(&mut self) {
        self.go_back_to(self.marked);
    }

    fn filled(&self) -> Filled {
        Filled { bytes: self.out.len(), items: self.items }
    }

    fn go_back_to(&mut self, Filled { bytes, items }: Filled) {
        self.out.truncate(bytes);
        self.items = items;
    }

    /// Records so far.
    pub(crate) fn items(&self) -> u32 {
        self.items
    }

    /// Bytes so far.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// The request.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.out.close(self.scope);
        self.out.close(self.resource);
        self.out.into_bytes()
    }

    fn push_text(&mut self, record: Record<'_>, form: Form) -> Result<Form, NoRoom> {
        let room = self.room();
        let (text, form) = match record.text {
            text if room.is_some_and(|room| text.len() <= room) => (text, form),
            _ if self.items > 0 => return Err(NoRoom),
            text => (shorten(text, room.unwrap_or(0)), Form::Cut),
        };
        let origin = self.origin.path.len() + self.origin.stream(record.entry).len();
        let body = field_len(text.len());
        self.out.header(scope_data::ITEMS, record.times_len() + field_len(body) + origin);
        record.write_times(&mut self.out);
        self.out.header(log_record::BODY, body);
        self.out.bytes(any_value::STRING_VALUE, text.as_bytes());
        self.out.raw(&self.origin.path);
        self.out.raw(self.origin.stream(record.entry));
        Ok(form)
    }

    fn push_json(&mut self, record: Record<'_>, attributes: &mut Attributes) -> Result<Form, NoRoom> {
        let keep_original_body = self.shape == RecordShape::Parsed { keep_original_body: true };
        let original = keep_original_body.then_some(record.text);
        let expected = attributes.len() + original.map_or(0, str::len);
        if self.room().is_none_or(|room| expected > room) {
            return Err(NoRoom);
        }
        let findings = Findings::take(attributes, keep_original_body);
        let open = self.out.open(scope_data::ITEMS, expected + self.origin.path.len());
        record.write_times(&mut self.out);
        findings.write(attributes, &mut self.out);
        if !findings.has_path {
            self.out.raw(&self.origin.path);
        }
        if !findings.has_stream {
            self.out.raw(self.origin.stream(record.entry));
        }
        attributes.write(&mut self.out);
        if let Some(text) = original {
            write_attribute(&mut self.out, log_record::ATTRIBUTES, "log.original", text);
        }
        self.out.close(open);
        Ok(Form::Json)
    }

    /// Bytes that the text and the attributes of a record may have.
    fn room(&self) -> Option<usize> {
        let rest = self.origin.path.len() + self.origin.stdout.len().max(self.origin.stderr.len()) + REST;
        self.most.checked_sub(self.out.len() + rest)
    }
}

/// The attributes that say where a record is from, encoded.
#[derive(Debug)]
struct Origin {
    path: Vec<u8>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Origin {
    fn of(source: &Source<'_>, shape: RecordShape) -> Self {
        let attribute = |key, value| {
            let mut out = Encoder::default();
            write_attribute(&mut out, log_record::ATTRIBUTES, key, value);
            out.into_bytes()
        };
        Self {
            path: if shape == RecordShape::Raw { Vec::new() } else { attribute("log.file.path", source.path) },
            stdout: attribute(conventions::LOG_STREAM, "stdout"),
            stderr: attribute(conventions::LOG_STREAM, "stderr"),
        }
    }

    fn stream(&self, entry: &Entry<'_>) -> &[u8] {
        match entry.stream {
            Some(Stream::Stdout) => &self.stdout,
            Some(Stream::Stderr) => &self.stderr,
            None => &[],
        }
    }
}

/// What is to be a record.
#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    text: &'a str,
    entry: &'a Entry<'a>,
    observed_unix_nanos: u64,
}

impl Record<'_> {
    fn times(&self) -> impl Iterator<Item = (u32, u64)> + use<> {
        let observed = (log_record::OBSERVED_TIME_UNIX_NANO, self.observed_unix_nanos);
        [(log_record::TIME_UNIX_NANO, self.entry.unix_nanos), observed].into_iter().filter(|(_, nanos)| *nanos > 0)
    }

    fn times_len(&self) -> usize {
        self.times().count() * 9
    }

    fn write_times(&self, out: &mut Encoder) {
        self.times().for_each(|(number, nanos)| out.fixed64(number, nanos));
    }
}

fn trim(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    &text[..text.iter().rposition(is_text).map_or(0, |last| last + 1)]
}

/// As much of the beginning as fits.
fn shorten(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rfind(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Whether the text is to be read as JSON.
fn looks_like_json(text: &str) -> bool {
    text.len() > 1 && text.starts_with('{') && text.ends_with('}') && memchr(b'\n', text.as_bytes()).is_none()
}

/// The attributes of the container, all of them texts, as the Collector finds them in the path; and the node.
fn write_resource(out: &mut Encoder, source: &Source<'_>) {
    let resource = out.open(resource_data::RESOURCE, REST);
    let restarts = source.restarts.to_string();
    let of_path = [
        (conventions::NAMESPACE_NAME, source.namespace),
        (conventions::POD_NAME, source.pod),
        (conventions::POD_UID, source.uid),
        (conventions::CONTAINER_NAME, source.container),
        ("k8s.container.restart_count", &restarts),
    ];
    for (key, value) in of_path.into_iter().chain(source.node.map(|node| (conventions::NODE_NAME, node))) {
        write_attribute(out, resource::ATTRIBUTES, key, value);
    }
    out.close(resource);
}

fn write_attribute(out: &mut Encoder, number: u32, key: &str, value: &str) {
    write_member(out, number, key.as_bytes(), Scalar::Text(value.as_bytes()));
}
