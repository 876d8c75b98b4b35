//! Reading and writing what a path leads to.

use std::borrow::Cow;

use super::trace_state::TraceState;
use super::{Scene, codec};
use crate::context::Level;
use crate::draft::Scalar;
use crate::paths::{Codec, Field};
use crate::program::{Expr, Path, Target};
use crate::value::{Entries, Failure, List, Map, Messages, Value, out_of_bounds, wire};
use weir_otlp::field::log_record;

/// Number of the field that is the body of a log record.
const BODY: u32 = log_record::BODY;

impl<'a> Scene<'a> {
    /// What a path leads to; nothing when it is not there.
    ///
    /// # Errors
    /// When a key fits not what it is applied to.
    pub(crate) fn get(&mut self, path: &'a Path) -> Result<Value<'a>, Failure> {
        let Some((first, rest)) = path.keys.split_first() else { return self.whole(path.target) };
        match path.target {
            Target::Map(level) => {
                let value = match first {
                    Expr::Literal(Value::String(key)) => self.entry(level, key, path.slot),
                    key => {
                        let key = self.eval(key)?.into_text()?;
                        self.entry(level, &key, None)
                    }
                };
                value.map_or(Ok(Value::Nil), |value| self.descend(value.readable()?, rest))
            }
            Target::Cache => {
                let key = self.eval(first)?.into_text()?;
                let value = self.cached(&key).cloned();
                value.map_or(Ok(Value::Nil), |value| self.descend(value, rest))
            }
            Target::Local(index) => {
                let mut value = self.local(index);
                for key in &path.keys {
                    value = value.index(&self.eval(key)?)?;
                }
                Ok(value)
            }
            Target::Field(Field { codec: Codec::TraceState, .. }) => {
                let key = self.eval(first)?.into_text()?;
                let state = self.whole(path.target)?.into_text()?;
                let member = |state: TraceState<'_>| Value::text(state.get(&key).unwrap_or_default().to_owned());
                Ok(TraceState::parse(&state).map_or(Value::Nil, member))
            }
            target => {
                let whole = self.whole(target)?;
                if !matches!(whole, Value::Map(_) | Value::List(_)) {
                    return Err(Failure::new(format!("a {} cannot be indexed", whole.type_name())));
                }
                self.descend(whole, &path.keys)
            }
        }
    }

    /// What is below a value; nothing when a map lacks a key.
    fn descend(&mut self, mut value: Value<'a>, keys: &'a [Expr]) -> Result<Value<'a>, Failure> {
        for key in keys {
            let key = self.eval(key)?;
            value = match &value {
                Value::Map(map) => match map.get(&key.into_text()?) {
                    Some(inner) => inner,
                    None => return Ok(Value::Nil),
                },
                Value::List(list) => list.get(key.into_int()?)?,
                other => return Err(Failure::new(format!("a {} cannot be indexed", other.type_name()))),
            };
        }
        Ok(value)
    }

    fn local(&self, index: usize) -> Value<'a> {
        self.locals.get(index).cloned().unwrap_or(Value::Nil)
    }

    /// A target without keys.
    fn whole(&mut self, target: Target) -> Result<Value<'a>, Failure> {
        Ok(match target {
            Target::Map(level) => {
                let entries = self.draft(level).all_entries().into_iter();
                let readable = entries.map(|(key, value)| Ok((key, value.readable()?)));
                Value::map(readable.collect::<Result<_, Failure>>()?)
            }
            Target::Field(field) => self.field(field),
            Target::Body => self.body().readable()?,
            Target::BodyText => Value::String(self.body().readable()?.into_any_text(self.room)?),
            Target::Cache => Value::map(self.cache.clone()),
            Target::EventIndex => Value::Int(self.leaf_index),
            Target::MetricType => Value::Int(match self.data {
                5 => 1,
                7 => 2,
                9 => 3,
                10 => 4,
                11 => 5,
                _ => 0,
            }),
            Target::Local(index) => self.local(index),
        })
    }

    fn body(&mut self) -> Value<'a> {
        match self.draft(Level::Item).scalar(BODY) {
            Some(Scalar::Len(Cow::Borrowed(body))) => wire::any(body),
            Some(Scalar::Len(Cow::Owned(body))) => owned(wire::any(&body)),
            _ => Value::Nil,
        }
    }

    fn field(&mut self, field: Field) -> Value<'a> {
        let number = self.number(field);
        if number == 0 {
            return Value::Nil;
        }
        let draft = self.draft(field.level);
        match field.codec {
            Codec::Messages(kind) => {
                let bodies = draft.repeated(number).into_iter().filter_map(codec::body).collect();
                Value::Messages(Box::new(Messages { kind, bodies, repeated: true }))
            }
            Codec::Message(kind) => {
                let bodies = draft.scalar(number).into_iter().filter_map(codec::body).collect();
                Value::Messages(Box::new(Messages { kind, bodies, repeated: false }))
            }
            Codec::Fixed64List | Codec::Uint64List | Codec::DoubleList => {
                let scalars = match field.inner {
                    0 => draft.repeated(number),
                    inner => codec::inner(draft.scalar(number), inner),
                };
                codec::list(field.codec, &scalars)
            }
            codec => {
                let mut scalar = draft.scalar(number);
                if field.inner != 0 {
                    scalar = codec::inner(scalar, field.inner).pop();
                }
                codec::decode(codec, scalar)
            }
        }
    }

    /// The number of a field in the current message; 0 when that has no such field.
    fn number(&self, field: Field) -> u32 {
        match field.level {
            Level::Point => field.numbers[self.point.index()],
            // Gauges and summaries have data points only, histograms no `is_monotonic`.
            Level::Data => match (field.numbers[0], self.data) {
                (_, 0) | (2 | 3, 5 | 11) | (3, 9 | 10) => 0,
                (number, _) => number,
            },
            _ => field.numbers[0],
        }
    }

    /// Makes a path lead to a value.
    ///
    /// # Errors
    /// When the value is not of the kind the path wants, a key does not fit, or the request would grow too much.
    pub(crate) fn set(&mut self, path: &'a Path, value: Value<'a>) -> Result<(), Failure> {
        let Some((first, rest)) = path.keys.split_first() else { return self.set_whole(path.target, value) };
        match path.target {
            Target::Map(level) => {
                let key = self.eval(first)?.into_text()?;
                let value = match rest {
                    [] => value,
                    rest => {
                        let current = self.entry(level, &key, path.slot).unwrap_or(Value::Nil);
                        self.changed(current, rest, value)?
                    }
                };
                self.put_entry(level, key, path.slot, value)
            }
            Target::Cache => {
                let key = self.eval(first)?.into_text()?;
                let value = match rest {
                    [] => value,
                    rest => {
                        let current = self.cached(&key).cloned().unwrap_or(Value::Nil);
                        self.changed(current, rest, value)?
                    }
                };
                self.put_cached(key, value)
            }
            Target::Body => {
                let body = self.body();
                if !matches!(body, Value::Map(_) | Value::List(_)) {
                    return Err(Failure::new(format!("a log body that is a {} cannot be indexed", body.type_name())));
                }
                let value = self.changed(body, &path.keys, value)?;
                self.set_whole(Target::Body, value)
            }
            Target::Field(Field { codec: Codec::TraceState, .. }) => {
                let key = self.eval(first)?.into_text()?;
                let state = self.whole(path.target)?.into_text()?;
                let state = TraceState::parse(&state).ok_or(Failure::text("the trace state is not valid"))?;
                let changed = state.with(&key, &value.into_text()?);
                let changed = changed.ok_or(Failure::text("the new member of the trace state is not valid"))?;
                self.set_whole(path.target, Value::text(changed))
            }
            _ => Err(Failure::text("what the path leads to cannot be set by key")),
        }
    }

    /// A value in which the place the keys lead to has been given another value.
    fn changed(&mut self, current: Value<'a>, keys: &'a [Expr], value: Value<'a>) -> Result<Value<'a>, Failure> {
        let Some((key, rest)) = keys.split_first() else { return Ok(value) };
        let key = self.eval(key)?;
        match (self.unfold(current)?, key) {
            (Value::Map(map), key) => {
                let key = key.into_text()?;
                let inner = self.changed(map.get(&key).unwrap_or(Value::Nil), rest, value)?;
                let mut entries = map.into_entries();
                put(&mut entries, key, inner);
                Ok(Value::map(entries))
            }
            (Value::List(list), key) => {
                let index = key.into_int()?;
                let inner = self.changed(list.get(index)?, rest, value)?;
                let mut values = list.into_values();
                let length = values.len();
                let slot = usize::try_from(index).ok().and_then(|index| values.get_mut(index));
                *slot.ok_or_else(|| out_of_bounds(length))? = inner;
                Ok(Value::list(values))
            }
            (Value::Nil, Value::String(key)) => {
                let inner = self.changed(Value::Nil, rest, value)?;
                Ok(Value::Map(Map::Tree(vec![(key, inner)])))
            }
            (Value::Nil, Value::Int(index)) => {
                let length = usize::try_from(index).map_err(|_| out_of_bounds(0))?;
                self.check_length(length.saturating_mul(size_of::<Value<'_>>()))?;
                let mut values = vec![Value::Nil; length];
                values.push(self.changed(Value::Nil, rest, value)?);
                Ok(Value::List(List::Tree(values)))
            }
            (Value::Nil, key) => {
                Err(Failure::new(format!("a key must be a string or an int, not a {}", key.type_name())))
            }
            (other, _) => Err(Failure::new(format!("a {} cannot be indexed", other.type_name()))),
        }
    }

    fn set_whole(&mut self, target: Target, value: Value<'a>) -> Result<(), Failure> {
        match target {
            Target::Map(level) => {
                let entries = match value {
                    Value::Nil => Entries::new(),
                    value => self.entries(value)?,
                };
                self.replace_entries(level, entries)
            }
            Target::Cache => self.replace_cache(value),
            Target::Body => self.set_body(&value),
            Target::BodyText => self.set_body(&Value::String(value.into_text()?)),
            Target::Field(field) => self.set_field(field, value),
            Target::EventIndex | Target::MetricType | Target::Local(_) => Err(Failure::text("this cannot be set")),
        }
    }

    fn set_body(&mut self, value: &Value<'a>) -> Result<(), Failure> {
        let length = value.encoded_len()?;
        self.check_length(length)?;
        let mut out = weir_otlp::build::Encoder::with_capacity(length);
        value.encode(&mut out);
        let scalar = (!value.is_nil()).then(|| Scalar::Len(Cow::Owned(out.into_bytes())));
        self.set_scalars(Level::Item, [(BODY, scalar)])
    }

    fn set_field(&mut self, field: Field, value: Value<'a>) -> Result<(), Failure> {
        let value = self.unfold(value)?;
        let number = self.number(field);
        if number == 0 {
            return match field.level {
                // As in the reference, a metric without this property stays as it is.
                Level::Data => codec::encode(field.codec, value).map(|_| ()),
                _ => Err(Failure::text("data points of this type have no such field")),
            };
        }
        let mut scalar = codec::encode(field.codec, value)?;
        if field.inner != 0 {
            let current = self.draft(field.level).scalar(number).and_then(codec::body);
            scalar = Some(Scalar::Len(Cow::Owned(codec::with_inner(
                current.as_deref().unwrap_or_default(),
                field.inner,
                scalar.as_ref(),
            ))));
        }
        match field.codec {
            Codec::ValueDouble(other) | Codec::ValueInt(other) => {
                self.set_scalars(field.level, [(other, None), (number, scalar)])
            }
            _ => self.set_scalars(field.level, [(number, scalar)]),
        }
    }
}

/// Gives a key of a list of entries a value.
pub(crate) fn put<'a>(entries: &mut Entries<'a>, key: Cow<'a, str>, value: Value<'a>) {
    match entries.iter_mut().find(|(other, _)| *other == key) {
        Some((_, old)) => *old = value,
        None => entries.push((key, value)),
    }
}

/// A value that borrows nothing.
pub(crate) fn owned<'a>(value: Value<'_>) -> Value<'a> {
    match value {
        Value::Nil => Value::Nil,
        Value::Bool(value) => Value::Bool(value),
        Value::Int(value) => Value::Int(value),
        Value::Double(value) => Value::Double(value),
        Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
        Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
        Value::Map(map) => {
            let entries = map.into_entries().into_iter();
            Value::map(entries.map(|(key, value)| (Cow::Owned(key.into_owned()), owned(value))).collect())
        }
        Value::List(list) => Value::list(list.into_values().into_iter().map(owned).collect()),
        Value::Time(time) => Value::Time(time),
        Value::Duration(duration) => Value::Duration(duration),
        Value::TraceId(id) => Value::TraceId(id),
        Value::SpanId(id) => Value::SpanId(id),
        Value::ProfileId(id) => Value::ProfileId(id),
        Value::Unreadable => Value::Unreadable,
        Value::Messages(messages) => {
            let Messages { kind, bodies, repeated } = *messages;
            let bodies = bodies.into_iter().map(|body| Cow::Owned(body.into_owned())).collect();
            Value::Messages(Box::new(Messages { kind, bodies, repeated }))
        }
    }
}
