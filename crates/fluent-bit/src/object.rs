//! Records as objects of JSON.

use std::ops::Range;

use weir_plan::Date;

use crate::members::Member;
use crate::record::{Notation, Record};
use crate::sink::Sink;
use crate::time::Clock;

/// What is around the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// One array has them all.
    Array,
    /// Each is a line.
    Lines,
    /// Nothing is between them.
    Stream,
}

/// Writes objects.
pub(crate) struct Object<S> {
    out: S,
    frame: Frame,
    is_first_record: bool,
    /// Of the innermost object that is open.
    is_first_field: bool,
}

impl<S: Sink> Object<S> {
    pub(crate) fn new(out: S, frame: Frame) -> Self {
        Self { out, frame, is_first_record: true, is_first_field: true }
    }

    /// Writes a name, as it is in JSON, and what is around it.
    fn key(&mut self, raw: &str) {
        self.comma();
        self.out.put(b"\"");
        self.out.put(raw.as_bytes());
        self.out.put(b"\":");
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_first_field) {
            self.out.put(b",");
        }
    }
}

impl<S: Sink> Notation for Object<S> {
    fn start(&mut self) {
        if self.frame == Frame::Array {
            self.out.put(b"[");
        }
    }

    fn finish(&mut self) {
        if self.frame == Frame::Array {
            self.out.put(b"]");
        }
    }

    fn begin(&mut self, record: &Record<'_>, date: &Date, clock: &mut Clock) {
        if self.frame == Frame::Array && !self.is_first_record {
            self.out.put(b",");
        }
        self.is_first_record = false;
        self.out.put(b"{");
        self.is_first_field = true;
        let Some(key) = date.key.as_deref().filter(|_| !record.replaced.date) else { return };
        let (time, is_text) = clock.date(record.unix_nanos, date.format);
        if is_text {
            return self.text(key, time);
        }
        self.comma();
        self.out.put(b"\"");
        self.out.put_escaped(key);
        self.out.put(b"\":");
        self.out.put(time.as_bytes());
    }

    fn end(&mut self) {
        self.out.put(if self.frame == Frame::Lines { b"}\n" } else { b"}" });
    }

    fn text(&mut self, key: &str, value: &str) {
        self.comma();
        self.out.put(b"\"");
        self.out.put_escaped(key);
        self.out.put(b"\":\"");
        self.out.put_escaped(value);
        self.out.put(b"\"");
    }

    fn member(&mut self, member: Member<'_>) {
        self.key(member.key);
        self.out.put(member.value.as_bytes());
    }

    fn open(&mut self, key: &str) {
        self.key(key);
        self.out.put(b"{");
        self.is_first_field = true;
    }

    fn close(&mut self) {
        self.out.put(b"}");
        self.is_first_field = false;
    }

    fn len(&self) -> usize {
        self.out.len()
    }

    fn repeat(&mut self, field: Range<usize>) {
        self.is_first_field = false;
        self.out.repeat(field);
    }
}
