//! Container logs as Fluent Bit's output `http` sends them under Kyma: OTLP bytes of the tailer's raw shape in, the body
//! of a request out.
//!
//! A record has what the line's file says (`time`, `stream`, `_p`, `log`), facts about the pod (`kubernetes`,
//! `cluster_identifier`), and `@timestamp`. A text that is a JSON object has its members at the root of the record
//! instead of `log`. They go before members of the same name, except `kubernetes`. In the formats of JSON, the members
//! are spliced in as they were written; there is never a tree of them.
//!
//! Filters of Fluent Bit work on the same records before they are sent ([`Filters`]). A record that they changed goes on
//! as OTLP whose body is the text of the whole record.
//!
//! This crate must not know async code, sockets, files, the clock, pipelines, budgets or custom resources. It keeps the
//! records of another system, and the formats it writes them in, out of the engine.
//!
//! Invariants, cited in code and tests:
//! - **FLUENT-1** [`measure`] says exactly how many bytes [`write()`] makes of the same bytes.
//! - **FLUENT-2** what is allocated beside the result is bounded, whatever the bytes are: [`MOST_MEMBERS`] places, and one
//!   string of the text at a time. For GELF it is also a mark for each field of a record.
//! - **FLUENT-3** what is written is valid in its format, whatever the bytes are; every record of the input is there. Its
//!   fields have different names.
//! - **FLUENT-4** what filters made can be written like any other record, and all of its names are different. What
//!   there is no room for in a record is left out, which is counted; all else is done.

#![forbid(unsafe_code)]

pub mod filters;
mod gelf;
mod json;
mod members;
mod msgpack;
mod object;
mod origin;
mod record;
mod sink;
pub mod text;
mod time;

#[cfg(test)]
mod tests;

pub use filters::Filters;
pub use members::MOST_MEMBERS;
use weir_plan::{FluentBit, FluentBitFormat};

use gelf::Gelf;
use msgpack::MsgPack;
use object::{Frame, Object};
use record::{Notation, Writer};
use sink::Length;

/// What becomes of some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Of the body, in bytes.
    pub bytes: usize,
    /// Records in it.
    pub records: usize,
}

/// How large the body becomes that [`write()`] makes of these requests. They must be valid.
pub fn measure(settings: &FluentBit, requests: &[impl AsRef<[u8]>]) -> Size {
    let mut length = Length::default();
    let records = match settings.format {
        FluentBitFormat::Json => run(Object::new(&mut length, Frame::Array), settings, requests),
        FluentBitFormat::JsonLines => run(Object::new(&mut length, Frame::Lines), settings, requests),
        FluentBitFormat::JsonStream => run(Object::new(&mut length, Frame::Stream), settings, requests),
        FluentBitFormat::MsgPack => run(MsgPack::new(&mut length), settings, requests),
        FluentBitFormat::Gelf => run(Gelf::new(&mut length, settings), settings, requests),
    };
    Size { bytes: length.0, records }
}

/// The body of these requests. `size` is what [`measure`] said of them.
pub fn write(settings: &FluentBit, requests: &[impl AsRef<[u8]>], size: Size) -> Vec<u8> {
    let mut out = Vec::with_capacity(size.bytes);
    match settings.format {
        FluentBitFormat::Json => run(Object::new(&mut out, Frame::Array), settings, requests),
        FluentBitFormat::JsonLines => run(Object::new(&mut out, Frame::Lines), settings, requests),
        FluentBitFormat::JsonStream => run(Object::new(&mut out, Frame::Stream), settings, requests),
        FluentBitFormat::MsgPack => run(MsgPack::new(&mut out), settings, requests),
        FluentBitFormat::Gelf => run(Gelf::new(&mut out, settings), settings, requests),
    };
    debug_assert_eq!(out.len(), size.bytes, "FLUENT-1");
    out
}

/// The media type of a body.
pub fn content_type(format: FluentBitFormat) -> &'static str {
    match format {
        FluentBitFormat::Json | FluentBitFormat::JsonStream | FluentBitFormat::Gelf => "application/json",
        FluentBitFormat::JsonLines => "application/x-ndjson",
        FluentBitFormat::MsgPack => "application/msgpack",
    }
}

fn run(mut notation: impl Notation, settings: &FluentBit, requests: &[impl AsRef<[u8]>]) -> usize {
    notation.start();
    let mut writer = Writer::new(settings, &mut notation);
    requests.iter().for_each(|request| writer.request(request.as_ref()));
    let records = writer.records();
    notation.finish();
    records
}
