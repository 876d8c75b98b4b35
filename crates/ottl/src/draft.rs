//! One message of the request and the changes made to it so far.
//!
//! The fields are read once, when something asks for one: attributes (or whatever the map of the message is) into one
//! list, all others into another. Both lists are used again for the next message, so that an item costs no allocation.
//! Statements read through the changes; only [`Draft::finish`] encodes them.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_otlp::build::{Encoder, varint_len};
use weir_otlp::cursor::{Cursor, Field, Value as Raw};

use crate::patch::{Patches, Place};
use crate::value::places::Places;
use crate::value::{Entries, Value, allocated, wire};

mod map;

/// The most fields of a message that statements look into.
const MAX_FIELDS: usize = 1 << 16;

/// The memory that each field takes while statements look into it, where it may have taken two bytes in the request:
/// its entry, in a list that may exist twice while it grows, and its place by its key.
const FIELD_BYTES: usize = 2 * size_of::<Entry<'_>>() + 64;

/// There is always memory for this many fields. Longer lists are not kept for the next message.
const FEW_FIELDS: usize = 256;

/// A value of a field that is not the map.
#[derive(Debug, Clone)]
pub(crate) enum Scalar<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A string, bytes, a message or packed numbers.
    Len(Cow<'a, [u8]>),
    /// Several messages.
    Repeated(Vec<Cow<'a, [u8]>>),
}

impl<'a> Scalar<'a> {
    pub(crate) fn of(raw: Raw<'a>) -> Self {
        match raw {
            Raw::Varint(value) => Self::Varint(value),
            Raw::Fixed64(bits) => Self::Fixed64(bits),
            Raw::Fixed32(bits) => Self::Fixed32(bits),
            Raw::Len(body) => Self::Len(Cow::Borrowed(body)),
        }
    }

    pub(crate) fn encode(&self, number: u32, out: &mut Encoder) {
        match self {
            Self::Varint(value) => out.varint(number, *value),
            Self::Fixed64(bits) => out.fixed64(number, *bits),
            Self::Fixed32(bits) => out.fixed32(number, *bits),
            Self::Len(body) => out.bytes(number, body),
            Self::Repeated(bodies) => bodies.iter().for_each(|body| out.bytes(number, body)),
        }
    }

    /// Bytes this takes as the field `number`.
    pub(crate) fn encoded_len(&self, number: u32) -> usize {
        let key = varint_len(u64::from(number) << 3);
        let body = |length: usize| key + varint_len(length as u64) + length;
        match self {
            Self::Varint(value) => key + varint_len(*value),
            Self::Fixed64(_) => key + size_of::<u64>(),
            Self::Fixed32(_) => key + size_of::<u32>(),
            Self::Len(bytes) => body(bytes.len()),
            Self::Repeated(bodies) => bodies.iter().map(|bytes| body(bytes.len())).sum(),
        }
    }

    /// Memory that belongs to this value alone.
    pub(crate) fn heap(&self) -> usize {
        match self {
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32(_) => 0,
            Self::Len(body) => body_heap(body),
            Self::Repeated(bodies) => bodies_heap(bodies),
        }
    }
}

/// Memory that only a list of bodies uses.
pub(crate) fn bodies_heap(bodies: &[Cow<'_, [u8]>]) -> usize {
    size_of_val(bodies) + bodies.iter().map(body_heap).sum::<usize>()
}

#[expect(clippy::ptr_arg, reason = "whether it borrows is what is asked")]
fn body_heap(body: &Cow<'_, [u8]>) -> usize {
    match body {
        Cow::Owned(body) => allocated(body.len()),
        Cow::Borrowed(_) => 0,
    }
}

/// An entry of the map as it came.
#[derive(Debug)]
struct Entry<'a> {
    key: &'a [u8],
    /// Body of the `AnyValue`.
    value: &'a [u8],
    /// Where the field stands.
    start: usize,
    end: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Kept,
    Removed,
    /// The value is this one of [`Draft::replaced`].
    Replaced(usize),
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Not looked for yet.
    Unknown,
    Absent,
    Entry(usize),
    Added(usize),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Draft<'a> {
    /// The bytes the message is part of.
    source: &'a [u8],
    /// Where the message is; none when it is absent.
    place: Option<Place>,
    /// Number of the field that is a map; 0 when there is none.
    map: u32,
    /// Number of a field that no path leads to and that may occur any number of times; 0 when there is none.
    children: u32,
    indexed: bool,
    changed: bool,
    /// By how much the body grows when the changes are encoded.
    grown: isize,
    /// Memory that the changes take.
    held: usize,
    /// Memory that the fields take once they were read.
    listed: usize,
    fields: Vec<Field<'a>>,
    /// New values of fields; `None` for a field that goes away.
    changes: Vec<(u32, Option<Scalar<'a>>)>,
    entries: Vec<Entry<'a>>,
    /// A byte that hints at the key, for each entry: most searches look at no more.
    prints: Vec<u8>,
    replaced: Vec<Value<'a>>,
    added: Entries<'a>,
    /// Where keys are among those added.
    added_places: Places<'a>,
    /// How many keys were searched since the message began or lost entries.
    searches: usize,
    /// Where the keys of the entries that are left are, once many keys were searched.
    places: Option<HashMap<&'a [u8], usize>>,
    /// Where the keys are that statements name as literals, each known by a number.
    slots: Vec<Slot>,
}

impl<'a> Draft<'a> {
    /// Makes room for the keys that statements name.
    pub(crate) fn with_slots(slots: usize) -> Self {
        Self { slots: vec![Slot::Unknown; slots], ..Self::default() }
    }

    /// Starts with another message, part of `source`. Nothing is read yet.
    pub(crate) fn begin(&mut self, source: &'a [u8], place: Option<Place>, map: u32, children: u32) {
        self.source = source;
        self.place = place;
        self.map = map;
        self.children = children;
        self.indexed = false;
        self.listed = 0;
        if self.entries.capacity() + self.fields.capacity() > 4 * FEW_FIELDS {
            self.forget_fields();
        }
        if self.changed {
            self.forget_changes();
        }
    }

    /// Gives back the lists of a message of very many fields.
    fn forget_fields(&mut self) {
        self.fields = Vec::new();
        self.entries = Vec::new();
        self.prints = Vec::new();
        self.forget_places();
    }

    /// Forgets the changes of a message that nobody looks at any more.
    fn forget_changes(&mut self) {
        self.changed = false;
        self.grown = 0;
        self.held = 0;
        self.changes.clear();
        self.replaced.clear();
        self.added.clear();
    }

    /// The bytes the message is part of.
    pub(crate) fn source(&self) -> &'a [u8] {
        self.source
    }

    /// Where the message is.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place
    }

    /// By how much the body grows when the changes are encoded; less than 0 when it shrinks.
    pub(crate) fn grown(&self) -> isize {
        self.grown
    }

    /// Memory that the changes take.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Memory that the fields take since they were read.
    pub(crate) fn listed(&self) -> usize {
        self.listed
    }

    /// Whether anything was changed.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Whether the fields were looked at.
    pub(crate) fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// Reads the fields. This has to be done before anything else is asked of the message. False when there are too
    /// many, or when `room` bytes are not enough for them: the message then has to be left alone.
    pub(crate) fn index(&mut self, room: usize) -> bool {
        self.indexed = true;
        let is_whole = self.list_fields(MAX_FIELDS.min(FEW_FIELDS + room / FIELD_BYTES));
        if !is_whole {
            self.forget_fields();
        }
        self.listed = (self.entries.len() + self.fields.len()).saturating_sub(FEW_FIELDS) * FIELD_BYTES;
        is_whole
    }

    /// Lists the fields; false when there are more than `most`.
    fn list_fields(&mut self, most: usize) -> bool {
        self.fields.clear();
        self.entries.clear();
        self.forget_places();
        self.prints.clear();
        let Some(place) = self.place else { return true };
        let message = &self.source[..place.end];
        let tag = u8::try_from(self.map << 3 | 2).unwrap_or_default();
        let mut start = place.start;
        while self.entries.len() + self.fields.len() <= most {
            if self.map != 0
                && let Some(body) = wire::short_field(tag, &message[start..])
            {
                let end = start + 2 + body.len();
                self.add_entry(body, start, end);
                start = end;
                continue;
            }
            let Ok(Some(field)) = Cursor::starting_at(message, start).next_field() else { return true };
            start = field.end;
            match field.value {
                Raw::Len(body) if field.number == self.map => self.add_entry(body, field.start, field.end),
                _ if field.number == self.children => {}
                _ => self.fields.push(field),
            }
        }
        false
    }

    #[inline]
    fn add_entry(&mut self, body: &'a [u8], start: usize, end: usize) {
        let (key, value) = wire::key_value(body);
        self.prints.push(fingerprint(key));
        self.entries.push(Entry { key, value, start, end, state: State::Kept });
    }

    /// The value of a field; if it occurs twice, the last one.
    pub(crate) fn scalar(&mut self, number: u32) -> Option<Scalar<'a>> {
        match self.changes.iter().find(|(changed, _)| *changed == number) {
            Some((_, scalar)) => scalar.clone(),
            None => self.fields.iter().rfind(|field| field.number == number).map(|field| Scalar::of(field.value)),
        }
    }

    /// All values of a repeated field.
    pub(crate) fn repeated(&mut self, number: u32) -> Vec<Scalar<'a>> {
        match self.changes.iter().find(|(changed, _)| *changed == number) {
            Some((_, Some(Scalar::Repeated(bodies)))) => bodies.iter().cloned().map(Scalar::Len).collect(),
            Some((_, scalar)) => scalar.iter().cloned().collect(),
            None => {
                let all = self.fields.iter().filter(|field| field.number == number);
                all.map(|field| Scalar::of(field.value)).collect()
            }
        }
    }

    /// By how much the body would grow if a field got a value, or were taken away.
    pub(crate) fn growth_of_scalar(&self, number: u32, scalar: Option<&Scalar<'a>>) -> isize {
        let length = |scalar: Option<&Scalar<'a>>| scalar.map_or(0, |scalar| scalar.encoded_len(number));
        let old = match self.changes.iter().find(|(changed, _)| *changed == number) {
            Some((_, old)) => length(old.as_ref()),
            None => {
                let all = self.fields.iter().filter(|field| field.number == number);
                all.map(|field| field.end - field.start).sum()
            }
        };
        length(scalar).cast_signed() - old.cast_signed()
    }

    /// Gives a field a value, or takes it away.
    pub(crate) fn set_scalar(&mut self, number: u32, scalar: Option<Scalar<'a>>) {
        let heap = |scalar: &Option<Scalar<'a>>| scalar.as_ref().map_or(0, Scalar::heap);
        self.changed = true;
        self.grown += self.growth_of_scalar(number, scalar.as_ref());
        self.held += heap(&scalar);
        match self.changes.iter_mut().find(|(changed, _)| *changed == number) {
            Some((_, old)) => {
                self.held -= heap(old);
                *old = scalar;
            }
            None => self.changes.push((number, scalar)),
        }
    }

    /// Encodes the changes; returns by how much the body grew. The message must be there.
    pub(crate) fn finish(&self, place: Place, patches: &mut Patches<'_>) -> isize {
        let mut grown = 0;
        for entry in &self.entries {
            let old = entry.start..entry.end;
            match entry.state {
                State::Kept => {}
                State::Removed => grown += patches.remove(old),
                State::Replaced(index) => {
                    let key = std::str::from_utf8(entry.key).unwrap_or_default();
                    let value = &self.replaced[index];
                    grown += patches.replace(old, |out| wire::encode_key_value(self.map, key, value, out));
                }
            }
        }
        for (number, scalar) in &self.changes {
            let mut scalar = scalar.as_ref();
            for field in self.fields.iter().filter(|field| field.number == *number) {
                grown += match scalar.take() {
                    Some(scalar) => patches.replace(field.start..field.end, |out| scalar.encode(*number, out)),
                    None => patches.remove(field.start..field.end),
                };
            }
        }
        grown + patches.replace(place.end..place.end, |out| self.encode_new(out))
    }

    /// Writes what was not there before.
    pub(crate) fn encode_new(&self, out: &mut Encoder) {
        for (number, scalar) in &self.changes {
            if let Some(scalar) = scalar
                && !self.fields.iter().any(|field| field.number == *number)
            {
                scalar.encode(*number, out);
            }
        }
        for (key, value) in &self.added {
            wire::encode_key_value(self.map, key, value, out);
        }
    }
}

/// A byte that differs for most keys that differ.
#[inline]
fn fingerprint(key: &[u8]) -> u8 {
    let at = |index: usize| key.get(index).copied().unwrap_or_default();
    let length = key.len().to_le_bytes()[0];
    let (middle, last) = (at(key.len() / 2), at(key.len().saturating_sub(1)));
    length.wrapping_mul(31) ^ middle.wrapping_mul(7) ^ last.rotate_left(3)
}
