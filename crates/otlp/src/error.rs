//! What can be wrong with OTLP bytes, and where.

use std::fmt;

/// Why an operation on OTLP data failed. The text can be sent to the client as it is: it names fields, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The protobuf bytes are not a valid request.
    #[error("cannot read OTLP protobuf: {problem} at byte {offset} in {path}")]
    Wire {
        /// What is wrong.
        problem: Problem,
        /// Byte offset in the request.
        offset: usize,
        /// Field path, for example `resource_spans.scope_spans.spans.attributes.key`.
        path: String,
    },
    /// The JSON text is not a valid request.
    #[error("cannot read OTLP JSON: {message} at line {line} column {column} in {path}")]
    Json {
        /// What is wrong.
        message: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1; 0 at the start of a line.
        column: usize,
        /// JSON path, for example `resourceSpans[0].scopeSpans[2].spans[1].traceId`.
        path: String,
        /// Whether a limit is exceeded, and nothing else is wrong as far as it was read.
        is_too_much: bool,
    },
    /// An edit does not fit the message it names.
    #[error("cannot edit bytes {start}..{end} of the request: {reason}")]
    Edit {
        /// First byte of the edit's range.
        start: usize,
        /// One past its last byte.
        end: usize,
        /// What does not fit.
        reason: &'static str,
    },
}

impl Error {
    /// The error of the JSON library, at this path. Its text ends with the place, which should be told only once.
    pub(crate) fn json(error: &serde_json::Error, path: String) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let message = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text).to_owned();
        Self::Json { message, line, column, path, is_too_much: false }
    }

    /// The same error, marked as one about a limit that is exceeded.
    pub(crate) fn beyond_limits(mut self) -> Self {
        if let Self::Json { is_too_much, .. } = &mut self {
            *is_too_much = true;
        }
        self
    }

    /// Whether a limit is exceeded, so that the data could be taken in smaller parts.
    pub fn is_too_much(&self) -> bool {
        match self {
            Self::Wire { problem, .. } => matches!(problem, Problem::Items(_)),
            Self::Json { is_too_much, .. } => *is_too_much,
            Self::Edit { .. } => false,
        }
    }
}

/// A problem at a byte of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub problem: Problem,
    /// Offset of the offending byte.
    pub offset: usize,
}

/// What can be wrong with protobuf bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A field goes on after the end of the message that holds it.
    Truncated,
    /// A varint of more than ten bytes or 64 bits.
    Varint,
    /// A field key of more than 32 bits.
    FieldKey,
    /// Field number 0.
    FieldZero,
    /// Wire type 6 or 7.
    UnknownWireType,
    /// A known field has another wire type than its definition.
    WireType,
    /// A proto2 group; OTLP has none and we do not skip over them.
    Group,
    /// A `string` field is not UTF-8.
    Utf8,
    /// A singular message field occurs twice. Runtimes would merge the two, which no OTLP client relies on.
    Duplicate,
    /// More nested messages than the given limit.
    Depth(u32),
    /// More items, resources or scopes than the given limit.
    Items(u32),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Truncated => "field longer than the message that holds it",
            Self::Varint => "varint longer than 64 bits",
            Self::FieldKey => "field key longer than 32 bits",
            Self::FieldZero => "field number 0",
            Self::UnknownWireType => "unknown wire type",
            Self::WireType => "wrong wire type for this field",
            Self::Group => "unsupported group",
            Self::Utf8 => "string that is not UTF-8",
            Self::Duplicate => "second occurrence of a field that is not repeated",
            Self::Depth(max) => return write!(f, "messages nested deeper than {max}"),
            Self::Items(max) => return write!(f, "more than {max} items"),
        };
        f.write_str(text)
    }
}
