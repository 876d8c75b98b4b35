//! Records of container logs as Fluent Bit makes and sends them under Kyma.

use std::fmt;

use crate::Secret;

/// How records look, and where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FluentBit {
    /// Where they go.
    pub to: Sink,
    /// How they are written.
    pub format: FluentBitFormat,
    /// How the time of a record is written, in the formats of JSON but GELF.
    pub date: Date,
    /// Whether a record has `@timestamp` and `app_name`, which Kyma adds for `output.http`.
    pub kyma: bool,
    /// Dots and slashes in the keys of labels and annotations become `_`.
    pub dedot: bool,
    /// Whether a record has the labels of its pod.
    pub labels: bool,
    /// Whether a record has the annotations of its pod.
    pub annotations: bool,
    /// Whether the text of a JSON object is kept beside its members.
    pub keep_original_body: bool,
}

/// Where records go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// To the endpoint of the output, over HTTP.
    Http,
    /// To the standard output of the process.
    Stdout,
    /// Nowhere.
    Null,
}

/// The time of a record, in a field of its own. A Secret may be part of its name, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Date {
    /// The name of the field; records have none without it.
    pub key: Option<String>,
    /// How the time is written.
    pub format: DateFormat,
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| format_args!("***"));
        f.debug_struct("Date").field("key", &key).field("format", &self.format).finish()
    }
}

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateFormat {
    /// Seconds since 1970, with six digits of a fraction.
    Double,
    /// Seconds since 1970.
    Epoch,
    /// Milliseconds since 1970.
    EpochMillis,
    /// `2026-11-23T12:00:00.123456Z`
    Iso8601,
    /// `2026-11-23 12:00:00.123456`
    JavaSql,
}

/// A section of Fluent Bit's configuration: a filter. It was checked; whoever runs it compiles it again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// In the order of the text.
    pub lines: Vec<SectionLine>,
}

/// A line of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionLine {
    /// Of the text, from 1.
    pub number: usize,
    /// In lower case.
    pub key: String,
    /// With all variables replaced by what they stand for.
    pub value: Secret,
}

/// How records are written into the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FluentBitFormat {
    /// An array of objects.
    Json,
    /// An object and a line feed, for each record.
    JsonLines,
    /// Objects one behind the other.
    JsonStream,
    /// Events of MessagePack one behind the other.
    MsgPack,
    /// Messages of GELF 1.1 with a line feed behind each.
    Gelf,
}
