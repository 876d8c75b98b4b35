//! The fields of a record while filters change them. Values are borrowed from the line wherever they stay as they are.

use std::borrow::Cow;

use crate::json::{Lexer, unescape};
use crate::members::MOST_FIELDS;
use crate::sink::{Length, Sink};

/// A name and a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: Value<'a>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    /// A value of any type, as it is written in JSON.
    Json(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Json(json) => text_of(json),
        }
    }

    /// The text, or what a truth value is called.
    pub(crate) fn text_or_truth(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Json(json) if matches!(&**json, "true" | "false") => Some(Cow::Borrowed(json)),
            value => value.text(),
        }
    }

    /// The same, where it is.
    pub(crate) fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Json(json) => Value::Json(Cow::Borrowed(json)),
        }
    }

    /// What it takes beside the line.
    pub(crate) fn owned_bytes(&self) -> usize {
        match self {
            Self::Text(Cow::Owned(text)) | Self::Json(Cow::Owned(text)) => text.len(),
            _ => 0,
        }
    }

    pub(crate) fn write(&self, out: &mut impl Sink) {
        match self {
            Self::Json(json) => out.put(json.as_bytes()),
            Self::Text(text) => {
                out.put(b"\"");
                out.put_escaped(text);
                out.put(b"\"");
            }
        }
    }

    /// A text that stays where it is.
    pub(crate) fn of(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

/// What a text in JSON means; nothing if it is another value.
pub(crate) fn text_of(json: &str) -> Option<Cow<'_, str>> {
    Some(unescape(json.strip_prefix('"')?.strip_suffix('"')?))
}

/// Why a filter cannot be applied to a record, which stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misfit {
    #[error("a record would have more than {MOST_FIELDS} fields")]
    Fields,
    #[error("a record would be deeper than 64 levels")]
    Depth,
    #[error("a record takes more memory than there is for it")]
    Memory,
}

/// A record. Names are unique: a field that is added takes the place of one with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) list: Vec<Field<'a>>,
    /// Bytes that may still be taken for what is made.
    pub(crate) room: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|field| field.name == name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.find(name).map(|at| &self.list[at].value)
    }

    /// Adds a field at the end.
    pub(crate) fn put(&mut self, name: impl Into<Cow<'a, str>>, value: Value<'a>) -> Result<(), Misfit> {
        let name = name.into();
        if let Some(at) = self.find(&name) {
            self.list.remove(at);
        } else if self.list.len() >= MOST_FIELDS {
            return Err(Misfit::Fields);
        }
        self.list.push(Field { name, value });
        Ok(())
    }

    /// Removes fields. Returns whether there was one.
    pub(crate) fn remove(&mut self, is_gone: impl Fn(&Field<'a>) -> bool) -> bool {
        let before = self.list.len();
        self.list.retain(|field| !is_gone(field));
        self.list.len() < before
    }

    /// Takes memory for something that is made.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Misfit> {
        self.room = self.room.checked_sub(bytes).ok_or(Misfit::Memory)?;
        Ok(())
    }

    /// As an object of JSON.
    pub(crate) fn write(&self, out: &mut impl Sink) {
        out.put(b"{");
        for (place, field) in self.list.iter().enumerate() {
            out.put(if place == 0 { b"\"" } else { b",\"" });
            out.put_escaped(&field.name);
            out.put(b"\":");
            field.value.write(out);
        }
        out.put(b"}");
    }

    /// How long they are as an object of JSON.
    pub(crate) fn length(&self) -> usize {
        let mut length = Length::default();
        self.write(&mut length);
        length.0
    }

    /// As an object of JSON of this length.
    pub(crate) fn to_text(&self, length: usize) -> String {
        let mut object = Vec::with_capacity(length);
        self.write(&mut object);
        // What is written of texts is text.
        String::from_utf8(object).unwrap_or_default()
    }

    /// The value that they are together.
    pub(crate) fn object<'v>(&mut self) -> Result<Value<'v>, Misfit> {
        let length = self.length();
        self.take(length)?;
        let object = self.to_text(length);
        Lexer::new(&object).value(&mut (), 1).map_err(|_| Misfit::Depth)?;
        Ok(Value::Json(Cow::Owned(object)))
    }
}

#[cfg(test)]
impl Fields<'_> {
    pub(crate) fn to_json(&self) -> String {
        self.to_text(self.length())
    }
}
