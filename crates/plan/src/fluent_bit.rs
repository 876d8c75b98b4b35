//! Records of container logs as Fluent Bit's output `http` sends them under Kyma.

/// How records look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FluentBit {
    /// How they are written.
    pub format: Format,
    /// Dots and slashes in the keys of labels and annotations become `_`.
    pub dedot: bool,
    /// Whether a record has the labels of its pod.
    pub labels: bool,
    /// Whether a record has the annotations of its pod.
    pub annotations: bool,
    /// Whether the text of a JSON object is kept beside its members.
    pub keep_original_body: bool,
}

/// How records are written into the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
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
