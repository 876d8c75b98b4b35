//! Values while a statement runs: borrowed from the request where possible, and read only as far as somebody looks.

use std::borrow::Cow;
use std::fmt;

use crate::draft::bodies_heap;
use crate::scene::TOO_LARGE;

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod math;
pub(crate) mod places;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod wire;
pub(crate) mod zone;

pub(crate) use time::Time;

/// A value. `'a` is the request or the compiled program, whichever the value is part of.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    /// Nothing.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A map.
    Map(Map<'a>),
    /// A list.
    List(List<'a>),
    /// A point in time.
    Time(Time),
    /// Nanoseconds between two points in time.
    Duration(i64),
    /// A trace id; all zeros when it is absent.
    TraceId([u8; 16]),
    /// A span id; all zeros when it is absent.
    SpanId([u8; 8]),
    /// A profile id.
    ProfileId([u8; 16]),
    /// Messages that can be counted and copied but not looked into: events, links, a status.
    Messages(Box<Messages<'a>>),
    /// A list or a map that is too long to look into: it can be neither read nor copied.
    Unreadable,
}

/// A map: still the body of a `KeyValueList`, or taken apart.
#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    /// The body of a `KeyValueList`.
    Wire(&'a [u8]),
    /// Keys and values in order.
    Tree(Entries<'a>),
}

/// Keys and values in order. If a key occurs twice, its first value counts.
pub(crate) type Entries<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// A key and its value, which are only looked at.
pub(crate) type Lent<'m, 'a> = (Cow<'m, str>, Cow<'m, Value<'a>>);

/// A list: still the body of an `ArrayValue`, or taken apart.
#[derive(Debug, Clone)]
pub(crate) enum List<'a> {
    /// The body of an `ArrayValue`.
    Wire(&'a [u8]),
    /// The elements.
    Tree(Vec<Value<'a>>),
}

/// Messages of one kind, as bytes.
#[derive(Debug, Clone)]
pub(crate) struct Messages<'a> {
    /// What the messages are, in the words of the `.proto` files.
    pub(crate) kind: &'static str,
    /// Their bodies.
    pub(crate) bodies: Vec<Cow<'a, [u8]>>,
    /// Whether this is a list; a single message otherwise.
    pub(crate) repeated: bool,
}

impl<'a> Value<'a> {
    /// Text that was made just now.
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::String(text.into())
    }

    /// A list of elements.
    pub(crate) fn list(values: Vec<Self>) -> Self {
        Self::List(List::Tree(values))
    }

    /// A map of entries.
    pub(crate) fn map(entries: Entries<'a>) -> Self {
        Self::Map(Map::Tree(entries))
    }

    /// Whether this is nothing.
    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// This value, unless it is too long to look into.
    ///
    /// # Errors
    /// When it is.
    pub(crate) fn readable(self) -> Result<Self, Failure> {
        match self {
            Self::Unreadable => Err(Failure::text("the value is a list or a map too long to look into")),
            value => Ok(value),
        }
    }

    /// About how much memory belongs to this value alone, without what it borrows.
    #[inline]
    pub(crate) fn heap(&self) -> usize {
        // Nearly every value is a borrowed text.
        if matches!(self, Self::String(Cow::Borrowed(_))) { 0 } else { self.own_heap() }
    }

    fn own_heap(&self) -> usize {
        match self {
            Self::String(Cow::Owned(text)) => allocated(text.len()),
            Self::Bytes(Cow::Owned(bytes)) => allocated(bytes.len()),
            Self::Map(Map::Tree(entries)) => {
                let spare = (entries.capacity() - entries.len()) * size_of::<(Cow<'_, str>, Self)>();
                spare + entries.iter().map(|(key, value)| entry_heap(key, value)).sum::<usize>()
            }
            Self::List(List::Tree(values)) => {
                values.capacity() * size_of::<Self>() + values.iter().map(Self::heap).sum::<usize>()
            }
            Self::Messages(messages) => bodies_heap(&messages.bodies),
            _ => 0,
        }
    }

    /// Memory that the elements of a list or a map take once they are taken apart.
    pub(crate) fn unfolding(&self) -> usize {
        match self {
            Self::List(List::Wire(body)) => wire::count(body) * size_of::<Self>(),
            Self::Map(Map::Wire(body)) => wire::count(body) * size_of::<(Cow<'_, str>, Self)>(),
            _ => 0,
        }
    }

    /// What kind of value this is, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Map(_) => "map",
            Self::List(_) => "list",
            Self::Time(_) => "time",
            Self::Duration(_) => "duration",
            Self::TraceId(_) => "trace id",
            Self::SpanId(_) => "span id",
            Self::ProfileId(_) => "profile id",
            Self::Messages(messages) => messages.kind,
            Self::Unreadable => "list or map too long to look into",
        }
    }

    /// The element with this key or index.
    ///
    /// # Errors
    /// When there is none, or the value has no elements.
    pub(crate) fn index(&self, key: &Value<'_>) -> Result<Self, Failure> {
        match (self, key) {
            (Self::Map(map), Value::String(key)) => map.get(key).ok_or(Failure::text("key not found in map")),
            (Self::List(list), Value::Int(index)) => list.get(*index),
            (Self::Bytes(bytes), Value::Int(index)) => {
                let byte = usize::try_from(*index).ok().and_then(|index| bytes.get(index));
                byte.map(|byte| Self::Int(i64::from(*byte))).ok_or_else(|| out_of_bounds(bytes.len()))
            }
            (_, Value::String(_) | Value::Int(_)) => {
                Err(Failure::new(format!("a {} cannot be indexed with a {}", self.type_name(), key.type_name())))
            }
            _ => Err(Failure::new(format!("a key must be a string or an int, not a {}", key.type_name()))),
        }
    }
}

/// Memory that an entry takes in a list of entries.
#[inline]
#[expect(clippy::ptr_arg, reason = "whether it borrows is what is asked")]
pub(crate) fn entry_heap(key: &Cow<'_, str>, value: &Value<'_>) -> usize {
    let text = match key {
        Cow::Owned(key) => allocated(key.len()),
        Cow::Borrowed(_) => 0,
    };
    size_of::<(Cow<'_, str>, Value<'_>)>() + text + value.heap()
}

/// Memory that so many bytes take on their own. An allocator rounds up, and keeps a note beside them.
pub(crate) fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + 16 }
}

/// An index beyond the ends of a list.
pub(crate) fn out_of_bounds(length: usize) -> Failure {
    Failure::new(format!("the index is out of bounds for a length of {length}"))
}

impl<'a> Map<'a> {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Wire(body) => wire::entries(body).count(),
            Self::Tree(entries) => entries.len(),
        }
    }

    /// The entries one after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Value<'a>)> {
        let (body, entries) = match self {
            Self::Wire(body) => (*body, &[][..]),
            Self::Tree(entries) => (&[][..], &entries[..]),
        };
        let parsed = wire::entries(body).map(|(key, value)| (Cow::Borrowed(key), value));
        parsed.chain(entries.iter().cloned())
    }

    /// The entries in the order of their keys, and what they leave of `room`. Those of a map that is taken apart already
    /// are not copied.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn sorted(&self, room: usize) -> Result<(Vec<Lent<'_, 'a>>, usize), Failure> {
        let length = self.len();
        // Sorting takes as much again.
        let room = room.checked_sub(2 * length * size_of::<Lent<'_, 'a>>()).ok_or(TOO_LARGE)?;
        let mut sorted = Vec::with_capacity(length);
        match self {
            Self::Wire(body) => {
                sorted.extend(wire::entries(body).map(|(key, value)| (Cow::Borrowed(key), Cow::Owned(value))));
            }
            Self::Tree(entries) => {
                sorted.extend(entries.iter().map(|(key, value)| (Cow::Borrowed(key.as_ref()), Cow::Borrowed(value))));
            }
        }
        sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok((sorted, room))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Self::Wire(body) => wire::entries(body).find(|(other, _)| *other == key).map(|(_, value)| value),
            Self::Tree(entries) => entries.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone()),
        }
    }

    /// The entries, taken apart one level deep.
    pub(crate) fn into_entries(self) -> Entries<'a> {
        match self {
            Self::Wire(body) => {
                let mut entries = Entries::with_capacity(wire::count(body));
                entries.extend(wire::entries(body).map(|(key, value)| (Cow::Borrowed(key), value)));
                entries
            }
            Self::Tree(entries) => entries,
        }
    }
}

impl<'a> List<'a> {
    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Wire(body) => wire::elements(body).count(),
            Self::Tree(values) => values.len(),
        }
    }

    /// The elements one after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> {
        let (body, values) = match self {
            Self::Wire(body) => (*body, &[][..]),
            Self::Tree(values) => (&[][..], &values[..]),
        };
        wire::elements(body).chain(values.iter().cloned())
    }

    /// The element at an index.
    pub(crate) fn get(&self, index: i64) -> Result<Value<'a>, Failure> {
        let found = usize::try_from(index).ok().and_then(|position| match self {
            Self::Wire(body) => wire::elements(body).nth(position),
            Self::Tree(values) => values.get(position).cloned(),
        });
        found.ok_or_else(|| out_of_bounds(self.len()))
    }

    /// The elements.
    pub(crate) fn into_values(self) -> Vec<Value<'a>> {
        match self {
            Self::Wire(body) => {
                let mut values = Vec::with_capacity(wire::count(body));
                values.extend(wire::elements(body));
                values
            }
            Self::Tree(values) => values,
        }
    }
}

/// Why a statement or a condition could not be evaluated for an item. The item stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure(Cow<'static, str>);

impl Failure {
    /// A message that is always the same; it costs nothing.
    pub(crate) const fn text(message: &'static str) -> Self {
        Self(Cow::Borrowed(message))
    }

    /// A message about the values met: their types and lengths. It gets into logs, where data of users has no place.
    pub(crate) fn new(message: String) -> Self {
        Self(Cow::Owned(message))
    }

    /// Says that a text is not what it should be, without the text.
    pub(crate) fn about(text: &str, problem: &str) -> Self {
        Self::new(format!("a string of length {} {problem}", text.len()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
