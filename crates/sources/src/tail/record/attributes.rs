//! A JSON object as attributes of a log record, written while it is read.
//!
//! There is no tree in between: values are written in the order of the text, and where a name comes twice, the earlier
//! one is cut out when its object ends. Which names mean something else than an attribute is noted on the way.

use std::cmp::Ordering;
use std::ops::Range;

use memchr::memchr;
use weir_otlp::build::{Encoder, varint_len};
use weir_otlp::common::{KeyValue, Message};
use weir_otlp::cursor::Fields;
use weir_otlp::field::{any_value, array_value, key_value, key_value_list, log_record};

use super::lexer::{Lexer, Nested, NotJson, Scalar, Token};

/// The deepest message of a request that holds our records. The engine takes no deeper one by default, and many
/// backends refuse a whole request for one that is deeper than 100.
const DEEPEST: u32 = 64;

/// How deep the value of an attribute is.
const TOP: u32 = 5;

/// A guess at how long an object or array is: longer ones move by a byte when they end.
const GUESS: usize = 127;

/// No text is read with more members in objects that are open at the same time ...
pub(super) const MOST_MEMBERS: usize = 4096;
/// ... or whose attributes take more.
const MOST_BYTES: usize = 320 << 10;

/// What [`Attributes`] take at most: what was written, also while it grows, and the members with their order.
pub(super) const MEMORY: usize = 3 * MOST_BYTES + 3 * MOST_MEMBERS * size_of::<Member>();

/// Names are compared each with each as long as there are no more.
const FEW: usize = 24;

/// A name that has a meaning at the top of an object. A name with a dot is one name, not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Message,
    Msg,
    Level,
    LogLevel,
    TraceId,
    SpanId,
    TraceFlags,
    TraceParent,
    Original,
    Stream,
    FilePath,
}

impl Known {
    pub(super) const COUNT: usize = 11;

    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"message" => Self::Message,
            b"msg" => Self::Msg,
            b"level" => Self::Level,
            b"log.level" => Self::LogLevel,
            b"trace_id" => Self::TraceId,
            b"span_id" => Self::SpanId,
            b"trace_flags" => Self::TraceFlags,
            b"traceparent" => Self::TraceParent,
            b"log.original" => Self::Original,
            b"log.iostream" => Self::Stream,
            b"log.file.path" => Self::FilePath,
            _ => return None,
        })
    }
}

/// A name with its value.
#[derive(Debug)]
pub(super) struct Member {
    /// Equal for equal names, and seldom for others.
    mark: u64,
    /// Where the field stands in what was written.
    start: usize,
    end: usize,
    known: Option<Known>,
    is_gone: bool,
}

/// The attributes of one record at a time; its memory is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    out: Encoder,
    /// Of the objects that are open.
    members: Vec<Member>,
    name: Vec<u8>,
    text: Vec<u8>,
}

impl Attributes {
    /// Reads an object. Fails, too, when its attributes take more than `most` bytes or [`MOST_BYTES`].
    pub(super) fn read(&mut self, text: &str, most: usize) -> Result<(), NotJson> {
        if memchr(0, text.as_bytes()).is_some() {
            return Err(NotJson);
        }
        self.out.truncate(0);
        self.members.clear();
        let most = most.min(MOST_BYTES);
        let mut reader = Reader { lexer: Lexer::new(text), attributes: self, most };
        reader.lexer.expect(b'{')?;
        reader.object(log_record::ATTRIBUTES, TOP)?;
        if reader.lexer.next().is_some() {
            return Err(NotJson);
        }
        self.forget_repeated(0);
        Ok(())
    }

    /// Memory that it keeps.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.out.capacity()
            + self.members.capacity() * size_of::<Member>()
            + self.name.capacity()
            + self.text.capacity()
    }

    /// Bytes of all attributes.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Where the known names are in the list of members.
    pub(super) fn places(&self) -> [Option<usize>; Known::COUNT] {
        let mut places = [None; Known::COUNT];
        for (place, member) in self.members.iter().enumerate() {
            if let (Some(known), false) = (member.known, member.is_gone) {
                places[known as usize] = Some(place);
            }
        }
        places
    }

    pub(super) fn member(&self, place: usize) -> Option<KeyValue<'_>> {
        self.members.get(place).and_then(|member| key_value(self.out.written(), member))
    }

    /// The value of a member, as a message.
    pub(super) fn value(&self, place: usize) -> &[u8] {
        self.member(place).and_then(|member| member.0.message(key_value::VALUE)).map_or(&[], Message::body)
    }

    /// Makes it no attribute.
    pub(super) fn remove(&mut self, place: usize) {
        if let Some(member) = self.members.get_mut(place) {
            member.is_gone = true;
        }
    }

    /// Writes all that are still attributes.
    pub(super) fn write(&self, out: &mut Encoder) {
        for range in kept(&self.members) {
            out.raw(&self.out.written()[range]);
        }
    }

    /// Of members with the same name only the last one counts. Returns whether there were such.
    fn forget_repeated(&mut self, first: usize) -> bool {
        let (written, members) = (self.out.written(), &mut self.members[first..]);
        if members.len() > FEW {
            return forget_repeated_of_many(written, members);
        }
        let mut is_repeated = false;
        for place in 1..members.len() {
            let (before, rest) = members.split_at_mut(place);
            for earlier in before.iter_mut().filter(|earlier| earlier.mark == rest[0].mark) {
                if compare(written, earlier, &rest[0]).is_eq() {
                    earlier.is_gone = true;
                    is_repeated = true;
                }
            }
        }
        is_repeated
    }

    /// Ends an object in another one, whose body begins at `start`.
    fn end_object(&mut self, first: usize, start: usize) {
        if self.forget_repeated(first) {
            self.out.retain(start, kept(&self.members[first..]));
        }
        self.members.truncate(first);
    }
}

fn forget_repeated_of_many(written: &[u8], members: &mut [Member]) -> bool {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_unstable_by(|a, b| compare(written, &members[*a], &members[*b]).then(a.cmp(b)));
    let mut is_repeated = false;
    for pair in order.windows(2) {
        if compare(written, &members[pair[0]], &members[pair[1]]).is_eq() {
            members[pair[0]].is_gone = true;
            is_repeated = true;
        }
    }
    is_repeated
}

/// Some order of names.
fn compare(written: &[u8], a: &Member, b: &Member) -> Ordering {
    let name = |member| key_value(written, member).map_or("", KeyValue::key);
    a.mark.cmp(&b.mark).then_with(|| name(a).cmp(name(b)))
}

fn key_value<'a>(written: &'a [u8], member: &Member) -> Option<KeyValue<'a>> {
    let field = Fields::starting_at(&written[..member.end], member.start).next()?;
    Some(KeyValue(Message::request(field.body()?)))
}

/// Where the members are that are not gone, neighbours together.
fn kept(members: &[Member]) -> impl Iterator<Item = Range<usize>> {
    members.chunk_by(|a, b| a.is_gone == b.is_gone).filter(|run| !run[0].is_gone).map(|run| {
        let last = run.last().map_or(run[0].end, |last| last.end);
        run[0].start..last
    })
}

/// What is in the midst of reading a text.
struct Reader<'a, 't> {
    lexer: Lexer<'t>,
    attributes: &'a mut Attributes,
    most: usize,
}

impl Reader<'_, '_> {
    /// Reads the rest of an object whose values are at `depth`, as the field `number`.
    fn object(&mut self, number: u32, depth: u32) -> Result<(), NotJson> {
        if self.lexer.take(b'}') {
            return Ok(());
        }
        loop {
            self.member(number, depth)?;
            match self.lexer.next() {
                Some(b',') => {}
                Some(b'}') => return Ok(()),
                _ => return Err(NotJson),
            }
        }
    }

    fn member(&mut self, number: u32, depth: u32) -> Result<(), NotJson> {
        let Attributes { out, name, text, members } = &mut *self.attributes;
        let start = out.len();
        self.lexer.expect(b'"')?;
        let name = self.lexer.string(name)?;
        self.lexer.expect(b':')?;
        let known = if depth == TOP { Known::of(name) } else { None };
        let mark = mark(name);
        if members.len() == MOST_MEMBERS {
            return Err(NotJson);
        }
        match self.lexer.value(text)? {
            Token::Scalar(scalar) if out.len() + name.len() + scalar_len(scalar) > self.most => return Err(NotJson),
            Token::Scalar(scalar) => write_member(out, number, name, scalar),
            Token::Nested(nested) => {
                let member = out.open(number, GUESS);
                out.bytes(key_value::KEY, name);
                self.nested(key_value::VALUE, nested, depth)?;
                self.attributes.out.close(member);
            }
        }
        let end = self.attributes.out.len();
        self.attributes.members.push(Member { mark, start, end, known, is_gone: false });
        if end > self.most { Err(NotJson) } else { Ok(()) }
    }

    /// Reads the rest of an array whose elements are at `depth`.
    fn array(&mut self, depth: u32) -> Result<(), NotJson> {
        if self.lexer.take(b']') {
            return Ok(());
        }
        loop {
            let Attributes { out, text, .. } = &mut *self.attributes;
            match self.lexer.value(text)? {
                Token::Scalar(scalar) if out.len() + scalar_len(scalar) > self.most => return Err(NotJson),
                Token::Scalar(scalar) => write_value(out, array_value::VALUES, scalar),
                Token::Nested(nested) => self.nested(array_value::VALUES, nested, depth)?,
            }
            if self.attributes.out.len() > self.most {
                return Err(NotJson);
            }
            match self.lexer.next() {
                Some(b',') => {}
                Some(b']') => return Ok(()),
                _ => return Err(NotJson),
            }
        }
    }

    /// Reads the rest of an object or array, as a value at `depth` in the field `number`.
    fn nested(&mut self, number: u32, nested: Nested, depth: u32) -> Result<(), NotJson> {
        let levels = if nested == Nested::Object { 3 } else { 2 };
        if depth + levels > DEEPEST {
            return Err(NotJson);
        }
        let out = &mut self.attributes.out;
        let value = out.open(number, GUESS);
        if nested == Nested::Object {
            let list = out.open(any_value::KVLIST_VALUE, GUESS);
            let (first, start) = (self.attributes.members.len(), self.attributes.out.len());
            self.object(key_value_list::VALUES, depth + levels)?;
            self.attributes.end_object(first, start);
            self.attributes.out.close(list);
        } else {
            let list = out.open(any_value::ARRAY_VALUE, GUESS);
            self.array(depth + levels)?;
            self.attributes.out.close(list);
        }
        self.attributes.out.close(value);
        Ok(())
    }
}

/// Writes a `KeyValue`.
pub(super) fn write_member(out: &mut Encoder, number: u32, name: &[u8], scalar: Scalar<'_>) {
    out.header(number, field_len(name.len()) + field_len(scalar_len(scalar)));
    out.bytes(key_value::KEY, name);
    write_value(out, key_value::VALUE, scalar);
}

/// Writes an `AnyValue`. Numbers are doubles, also whole ones, as the Collector reads them; `null` is an empty value.
fn write_value(out: &mut Encoder, number: u32, scalar: Scalar<'_>) {
    out.header(number, scalar_len(scalar));
    match scalar {
        Scalar::Null => {}
        Scalar::Bool(value) => out.varint(any_value::BOOL_VALUE, u64::from(value)),
        Scalar::Number(value) => out.fixed64(any_value::DOUBLE_VALUE, value.to_bits()),
        Scalar::Text(value) => out.bytes(any_value::STRING_VALUE, value),
    }
}

fn scalar_len(scalar: Scalar<'_>) -> usize {
    match scalar {
        Scalar::Null => 0,
        Scalar::Bool(_) => 2,
        Scalar::Number(_) => 9,
        Scalar::Text(text) => field_len(text.len()),
    }
}

/// Bytes of a field with a body of `length` bytes, when its number is below 16.
pub(super) fn field_len(length: usize) -> usize {
    1 + varint_len(length as u64) + length
}

/// Both ends and the length of a name.
fn mark(name: &[u8]) -> u64 {
    let length = name.len() as u64;
    let ends = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29),
        _ => name.iter().fold(0, |bytes, byte| bytes << 8 | u64::from(*byte)),
    };
    ends ^ length << 56
}
