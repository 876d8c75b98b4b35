//! What the items of a request look like: as it is typed, and with the defaults of its signal.

use std::str::FromStr;

use anyhow::{bail, ensure};
use clap::Args;
use weir_units::{parse_size, typed_size};

use super::points::MetricType;
use crate::marked::Marked;
use crate::signal::Signal;

/// What items look like, as far as it was said.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Payload")]
pub struct ShapeArgs {
    /// Items per request: spans, points or records [default: 512; 20 points of a producer, 100 records at a rate]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batch: Option<u32>,
    /// Attributes per item, except on root spans [default: 40 of a span, 10 of a point, 4 of a record]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub attributes: Option<u32>,
    /// Length of each attribute value [default: 64; 16 of a record]
    #[arg(long, value_name = "SIZE", value_parser = size_up_to(65_536))]
    pub attribute_bytes: Option<u32>,
    /// Spans per trace: one root and its children [default: 11]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub spans_per_trace: Option<u32>,
    /// Type of metrics [default: mix]
    #[arg(long, value_enum, value_name = "TYPE")]
    pub metric_type: Option<MetricType>,
    /// Length of the body of a log record [default: 2000]
    #[arg(short, long, value_name = "SIZE", value_parser = size_up_to(1_000_000))]
    pub size: Option<u32>,
    /// Log records of so many namespaces in each request, each in a resource of its own: shop-0, shop-1 and so on
    /// [default: of one, load-test]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub namespaces: Option<u32>,
    /// One more attribute of the resource; repeatable, for example k8s.pod.uid=abc
    #[arg(long = "resource-attribute", value_name = "KEY=VALUE")]
    pub resource_attributes: Vec<Pair>,
    /// Mark so many of each hundred items with the attribute load.drop="1", for a filter to drop; the others have "0"
    #[arg(long, value_name = "PCT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub marked: Option<u8>,
}

/// Reads a size that is not larger than `most`.
fn size_up_to(most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let fits = u32::try_from(parse_size(text)?).ok().filter(|bytes| *bytes <= most);
        fits.ok_or_else(|| {
            format!("cannot use size {text:?}: it is larger than {}; choose a smaller one", typed_size(most.into()))
        })
    }
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            _ => Err(format!("cannot read attribute \"{text}\": use KEY=VALUE")),
        }
    }
}

/// What the items of a request look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What is special about the items of its signal.
    pub items: Items,
    /// Items per request.
    pub batch: u32,
    /// Attributes per item.
    pub attributes: u32,
    /// Length of each attribute value.
    pub attribute_bytes: u32,
    /// Attributes of the resource beside those it always has.
    pub resource_attributes: Vec<Pair>,
    /// Which items ask to be dropped.
    pub marked: Option<Marked>,
}

/// What is special about the items of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// Spans in traces of so many.
    Spans {
        /// One root and its children.
        per_trace: u32,
    },
    /// Points of this type.
    Points(MetricType),
    /// Log records.
    Records {
        /// Length of a body.
        body_bytes: u32,
        /// How many namespaces those of a request are of, if it was said.
        namespaces: Option<u32>,
    },
}

impl Shape {
    /// The signal its items are of.
    pub fn signal(&self) -> Signal {
        match self.items {
            Items::Spans { .. } => Signal::Traces,
            Items::Points(_) => Signal::Metrics,
            Items::Records { .. } => Signal::Logs,
        }
    }
}

impl ShapeArgs {
    /// Fills in the defaults of `signal`; requests of `usual_batch` items when nothing else was said.
    ///
    /// # Errors
    /// Something was said that items of this signal do not have.
    pub fn resolve(&self, signal: Signal, usual_batch: u32) -> anyhow::Result<Shape> {
        self.check(signal)?;
        let (items, attributes, attribute_bytes) = match signal {
            Signal::Traces => (Items::Spans { per_trace: self.spans_per_trace.unwrap_or(11) }, 40, 64),
            Signal::Metrics => (Items::Points(self.metric_type.unwrap_or(MetricType::Mix)), 10, 64),
            Signal::Logs => {
                (Items::Records { body_bytes: self.size.unwrap_or(2000), namespaces: self.namespaces }, 4, 16)
            }
        };
        let (batch, namespaces) = (self.batch.unwrap_or(usual_batch), self.namespaces.unwrap_or(1));
        ensure!(
            namespaces <= batch,
            "cannot send records of {namespaces} namespaces in requests of {batch}: use --batch {namespaces} or more"
        );
        Ok(Shape {
            items,
            batch,
            attributes: self.attributes.unwrap_or(attributes),
            attribute_bytes: self.attribute_bytes.unwrap_or(attribute_bytes),
            resource_attributes: self.resource_attributes.clone(),
            marked: self.marked.map(Marked::new),
        })
    }

    fn check(&self, signal: Signal) -> anyhow::Result<()> {
        for (flag, given, of) in [
            ("--spans-per-trace", self.spans_per_trace.is_some(), Signal::Traces),
            ("--metric-type", self.metric_type.is_some(), Signal::Metrics),
            ("--size", self.size.is_some(), Signal::Logs),
            ("--namespaces", self.namespaces.is_some(), Signal::Logs),
        ] {
            if given && signal != of {
                bail!("cannot use {flag} with {signal}: it is about {of}");
            }
        }
        Ok(())
    }
}

impl Shape {
    /// The flags that make another process send items of this shape.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            ("--batch", self.batch.to_string()),
            ("--attributes", self.attributes.to_string()),
            ("--attribute-bytes", self.attribute_bytes.to_string()),
        ];
        flags.push(match self.items {
            Items::Spans { per_trace } => ("--spans-per-trace", per_trace.to_string()),
            Items::Points(kind) => ("--metric-type", kind.name()),
            Items::Records { body_bytes, .. } => ("--size", body_bytes.to_string()),
        });
        if let Items::Records { namespaces: Some(namespaces), .. } = self.items {
            flags.push(("--namespaces", namespaces.to_string()));
        }
        flags.extend(
            self.resource_attributes
                .iter()
                .map(|Pair { key, value }| ("--resource-attribute", format!("{key}={value}"))),
        );
        flags.extend(self.marked.map(|marked| ("--marked", marked.percent().to_string())));
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// In words, for the heading of a result.
    pub(crate) fn describe(&self) -> String {
        let Self { attributes, attribute_bytes, batch, .. } = self;
        let attributes = format!("{attributes} attributes of {attribute_bytes} bytes");
        match self.items {
            Items::Spans { per_trace } => {
                format!("spans of {attributes} (none on roots), {per_trace} per trace, {batch} per request")
            }
            Items::Points(kind) => format!("points ({}) of {attributes}, {batch} per request", kind.name()),
            Items::Records { body_bytes, namespaces } => {
                let of = namespaces.map(|count| format!(" of {count} namespaces")).unwrap_or_default();
                format!("records of {body_bytes} bytes and {attributes}, {batch}{of} per request")
            }
        }
    }
}
