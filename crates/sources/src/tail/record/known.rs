//! What the names that have a meaning say of a record: its body, its severity, its trace context.

use std::collections::HashSet;

use weir_otlp::build::Encoder;
use weir_otlp::common::{AnyValue, KeyValueList};
use weir_otlp::field::{any_value, key_value_list, log_record};

use super::attributes::{Attributes, Known};
use super::severity::Severity;
use super::trace::Context;

/// Which members of the object are something else than attributes. Numbers are places in the list of members.
#[derive(Debug)]
pub(super) struct Findings {
    message: Option<usize>,
    msg: Option<usize>,
    level: Option<usize>,
    context: Context,
    pub(super) has_path: bool,
    pub(super) has_stream: bool,
}

impl Findings {
    /// Finds them, and takes them out of the attributes.
    pub(super) fn take(attributes: &mut Attributes, keep_original_body: bool) -> Self {
        let places = Places { attributes, places: attributes.places() };
        let (findings, gone) = places.findings(keep_original_body);
        gone.into_iter().flatten().for_each(|place| attributes.remove(place));
        findings
    }

    /// Writes all that is no attribute.
    pub(super) fn write(&self, attributes: &Attributes, out: &mut Encoder) {
        let level = self.level.and_then(|place| Severity::of(value(attributes, place)));
        if let Some(severity) = level {
            if severity.number > 0 {
                out.varint(log_record::SEVERITY_NUMBER, u64::from(severity.number));
            }
            out.bytes(log_record::SEVERITY_TEXT, severity.text());
        }
        self.write_body(attributes, out);
        if self.context.flags > 0 {
            out.fixed32(log_record::FLAGS, u32::from(self.context.flags));
        }
        if self.context.trace_id != [0; 16] {
            out.bytes(log_record::TRACE_ID, &self.context.trace_id);
        }
        if self.context.span_id != [0; 8] {
            out.bytes(log_record::SPAN_ID, &self.context.span_id);
        }
    }

    fn write_body(&self, attributes: &Attributes, out: &mut Encoder) {
        if let (Some(message), Some(msg)) = (self.message, self.msg)
            && let AnyValue::KeyValueList(before) = value(attributes, message)
            && let AnyValue::KeyValueList(over) = value(attributes, msg)
        {
            return write_merged(before, over, out);
        }
        let place = self.msg.or(self.message);
        out.bytes(log_record::BODY, place.map_or(&[], |place| attributes.value(place)));
    }
}

/// Writes a body with the members of both, of equal names those of the latter.
fn write_merged(before: KeyValueList<'_>, over: KeyValueList<'_>, out: &mut Encoder) {
    let names: HashSet<&str> = over.values().map(|member| member.key()).collect();
    let expected = before.0.range().len() + over.0.range().len();
    let body = out.open(log_record::BODY, expected);
    let list = out.open(any_value::KVLIST_VALUE, expected);
    for member in before.values().filter(|member| !names.contains(member.key())).chain(over.values()) {
        out.bytes(key_value_list::VALUES, member.0.body());
    }
    out.close(list);
    out.close(body);
}

fn value(attributes: &Attributes, place: usize) -> AnyValue<'_> {
    attributes.member(place).map_or(AnyValue::Empty, |member| member.value())
}

/// Where the known names are.
struct Places<'a> {
    attributes: &'a Attributes,
    places: [Option<usize>; Known::COUNT],
}

impl Places<'_> {
    fn findings(&self, keep_original_body: bool) -> (Findings, [Option<usize>; 9]) {
        let [message, msg] = [self.some(Known::Message), self.some(Known::Msg)];
        let [level, log_level] = [self.some(Known::Level), self.some(Known::LogLevel)];
        let is_severity = |place: &usize| Severity::of(value(self.attributes, *place)).is_some();
        let (context, of_trace) = self.context();
        let findings = Findings {
            message,
            msg,
            level: log_level.filter(is_severity).or(level),
            context,
            has_path: self.any(Known::FilePath).is_some(),
            has_stream: self.any(Known::Stream).is_some(),
        };
        let original = if keep_original_body { self.any(Known::Original) } else { None };
        let [a, b, c, d] = of_trace;
        (findings, [message, msg, level, log_level, original, a, b, c, d])
    }

    /// Trace context, and the members that it was taken from.
    fn context(&self) -> (Context, [Option<usize>; 4]) {
        let names = [Known::TraceParent, Known::TraceId, Known::SpanId, Known::TraceFlags];
        if self.some(Known::TraceId).is_some() {
            let [_, trace_id, span_id, flags] = names.map(|name| self.value(name));
            let mut taken = names.map(|name| self.some(name));
            taken[0] = None;
            return (Context::of_fields(trace_id, span_id, flags), taken);
        }
        let AnyValue::String(text) = self.value(Known::TraceParent) else { return Default::default() };
        Context::of_parent(text).map(|context| (context, names.map(|name| self.any(name)))).unwrap_or_default()
    }

    /// The place of a member.
    fn any(&self, name: Known) -> Option<usize> {
        self.places[name as usize]
    }

    /// The place of a member that is not `null`.
    fn some(&self, name: Known) -> Option<usize> {
        self.any(name).filter(|place| !matches!(value(self.attributes, *place), AnyValue::Empty))
    }

    fn value(&self, name: Known) -> AnyValue<'_> {
        self.any(name).map_or(AnyValue::Empty, |place| value(self.attributes, place))
    }
}
