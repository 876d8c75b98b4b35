//! Configuration of the systems under test: the same pipelines in each one's own language.

mod filelog;
mod otelcol;
mod scraped;
mod weir;

use std::path::Path;
use std::str::FromStr;

pub(crate) use self::otelcol::{batch_size, otelcol};
pub(crate) use self::scraped::{Scraped, prometheus, vmagent_arguments};
pub(crate) use self::weir::weir;
use super::processing::Processing;
use crate::codec::Compression;
use crate::signal::Signal;

/// Ports of a system under test, all on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    pub(crate) metrics: u16,
    pub(crate) health: u16,
}

/// How pipelines send to their backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// OTLP, over gRPC.
    Otlp,
    /// Records as Fluent Bit sends them, over HTTP.
    Http(RecordFormat),
}

/// What the records of `output.http` are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RecordFormat {
    /// One array
    Json,
    /// A line for each
    #[value(name = "json_lines")]
    JsonLines,
    /// One behind the other
    #[value(name = "json_stream")]
    JsonStream,
    /// Events of MessagePack
    #[value(name = "msgpack")]
    MsgPack,
    /// Messages of GELF
    Gelf,
}

impl RecordFormat {
    /// As it stands in a pipeline.
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonLines => "json_lines",
            Self::JsonStream => "json_stream",
            Self::MsgPack => "msgpack",
            Self::Gelf => "gelf",
        }
    }
}

/// A setup of the log gateway's published test, as the load-test kit names it. To Weir both are the same: it gathers
/// whatever its clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Overlay {
    /// A collector sends each request on as it came
    Base,
    /// A collector has a batch processor of 500 records
    Batch,
}

/// What goes through a system: one pipeline to each backend, all alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pipelines<'a> {
    pub(crate) signal: Signal,
    /// Ports of the backends.
    pub(crate) backends: &'a [u16],
    pub(crate) output: Output,
    pub(crate) compression: Compression,
    pub(crate) processing: Processing,
    /// How a collector gathers what it sends, where that was published.
    pub(crate) overlay: Option<Overlay>,
    pub(crate) annotations: &'a [Annotation],
    /// Where container logs are read from; otherwise clients push.
    pub(crate) pod_logs: Option<&'a Path>,
    /// What is scraped; otherwise clients push.
    pub(crate) scraped: Option<Scraped>,
}

/// An annotation of the pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    key: String,
    value: String,
}

impl Annotation {
    /// `key: value`.
    pub(crate) fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned() }
    }

    /// Whether both say something about the same.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl FromStr for Annotation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self::new(key, value)),
            _ => Err(format!("cannot read annotation \"{text}\": use KEY=VALUE, as weir.dev/backlog-max-bytes=1GiB")),
        }
    }
}

/// Name of pipeline `index`, counted from 0, as in the load-test kit.
fn pipeline_name(index: usize) -> String {
    format!("load-test-{}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_has_a_key_and_a_value() {
        assert_eq!("a/b=c=d".parse(), Ok(Annotation::new("a/b", "c=d")));
        assert!("weir.dev/x".parse::<Annotation>().is_err());
    }
}
