//! Which family of metrics a sample belongs to, and what it is there.

use std::collections::HashMap;

use super::page::Format;
use super::previous::HashAsItIs;
use super::series::BadSeries;
use super::text::{Line, MetricType};

/// What is known of a family from the comments of the page.
#[derive(Debug, Clone, Default)]
pub(super) struct Family<'p> {
    pub(super) metric_type: Option<MetricType>,
    /// As written, with escapes.
    pub(super) help: Option<&'p [u8]>,
    pub(super) unit: Option<&'p [u8]>,
}

/// The families of a page, by their names.
#[derive(Debug, Default)]
pub(super) struct Families<'p> {
    all: Vec<(&'p [u8], Family<'p>)>,
    places: HashMap<&'p [u8], usize, HashAsItIs>,
    /// The place of the family that a comment was about last: more comments and its samples follow.
    last: usize,
}

/// What a sample is in its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Gauge,
    Counter,
    /// A number that goes up and down and is a sum all the same: `info` and `stateset`.
    Sum,
    /// A bucket of a histogram, up to the bound in its label `le`.
    Bucket,
    /// The value at the quantile in the label `quantile` of a summary.
    Quantile,
    /// The sum of a histogram or summary.
    SumOf,
    /// The count of a histogram or summary.
    CountOf,
    /// When a counter, histogram or summary was created.
    Created,
}

/// What a sample is, and in which family.
#[derive(Debug, Clone, Copy)]
pub(super) struct FamilyMember<'f, 'p> {
    /// The name of the family, a part of the name of the sample.
    pub(super) name: &'f [u8],
    pub(super) part: Part,
    pub(super) metric_type: MetricType,
    pub(super) help: &'p [u8],
    pub(super) unit: &'p [u8],
}

/// Ends of names of samples, the types of families they are of, and what they are there.
const SUFFIXES: [(&[u8], &[MetricType], Part); 7] = [
    (b"_bucket", &[MetricType::Histogram], Part::Bucket),
    (b"_sum", &[MetricType::Histogram, MetricType::Summary], Part::SumOf),
    (b"_count", &[MetricType::Histogram, MetricType::Summary], Part::CountOf),
    (b"_total", &[MetricType::Counter], Part::Counter),
    (b"_created", &[MetricType::Counter, MetricType::Histogram, MetricType::Summary], Part::Created),
    (b"_info", &[MetricType::Info], Part::Sum),
    (b"_bucket", &[MetricType::GaugeHistogram], Part::Gauge),
];

impl<'p> Families<'p> {
    /// The family of this name, whose samples are likely to follow.
    pub(super) fn get(&mut self, name: &'p [u8]) -> &mut Family<'p> {
        if self.all.get(self.last).is_none_or(|(last, _)| *last != name) {
            self.last = *self.places.entry(name).or_insert(self.all.len());
            if self.last == self.all.len() {
                self.all.push((name, Family::default()));
            }
        }
        &mut self.all[self.last].1
    }

    /// The family of this name, if a comment was about it.
    fn find(&self, name: &[u8]) -> Option<&Family<'p>> {
        let last = self.all.get(self.last).filter(|(last, _)| *last == name);
        last.or_else(|| self.all.get(*self.places.get(name)?)).map(|(_, family)| family)
    }

    /// Takes what a line says of a family. What was said first is true.
    pub(super) fn tell(&mut self, line: Line<'p>, format: Format) -> Result<(), BadSeries> {
        match line {
            Line::Help(_, help) if std::str::from_utf8(help).is_err() => return Err(BadSeries::NotUtf8),
            Line::Type(name, metric_type) => {
                self.get(name).metric_type.get_or_insert(metric_type);
            }
            Line::Help(name, help) => {
                self.get(name).help.get_or_insert(help);
            }
            Line::Unit(name, unit) if format == Format::OpenMetrics => {
                self.get(name).unit.get_or_insert(unit);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the sample of this name is, and in which family. `has_quantile`: it has a label of that name.
    pub(super) fn member<'f>(&self, name: &'f [u8], has_quantile: bool) -> FamilyMember<'f, 'p> {
        if let Some(family) = self.find(name) {
            let metric_type = family.metric_type.unwrap_or(MetricType::Unknown);
            let part = match metric_type {
                MetricType::Counter => Part::Counter,
                MetricType::Info | MetricType::StateSet => Part::Sum,
                MetricType::Summary if has_quantile => Part::Quantile,
                _ => Part::Gauge,
            };
            return family.member(name, part, metric_type);
        }
        let found = SUFFIXES.iter().find_map(|(suffix, types, part)| {
            let name = name.strip_suffix(*suffix)?;
            let family = self.find(name)?;
            let metric_type = family.metric_type.filter(|metric_type| types.contains(metric_type))?;
            Some(family.member(name, *part, metric_type))
        });
        found.unwrap_or(FamilyMember {
            name,
            part: Part::Gauge,
            metric_type: MetricType::Unknown,
            help: b"",
            unit: b"",
        })
    }
}

impl<'p> Family<'p> {
    fn member<'f>(&self, name: &'f [u8], part: Part, metric_type: MetricType) -> FamilyMember<'f, 'p> {
        FamilyMember {
            name,
            part,
            metric_type,
            help: self.help.unwrap_or_default(),
            unit: self.unit.unwrap_or_default(),
        }
    }
}

impl Part {
    /// Whether it is one of several samples that are one data point together.
    pub(super) fn is_of_composite(self, metric_type: MetricType) -> bool {
        match self {
            Self::Bucket | Self::Quantile | Self::SumOf | Self::CountOf => true,
            Self::Created => metric_type != MetricType::Counter,
            Self::Gauge | Self::Counter | Self::Sum => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_find_their_families() {
        let mut families = Families::default();
        for (name, metric_type) in [
            (&b"c"[..], MetricType::Counter),
            (b"h", MetricType::Histogram),
            (b"s", MetricType::Summary),
            (b"i", MetricType::Info),
            (b"g_count", MetricType::Gauge),
            (b"g", MetricType::GaugeHistogram),
        ] {
            families.get(name).metric_type = Some(metric_type);
        }
        for (sample, family, part) in [
            ("c", "c", Part::Counter),
            ("c_total", "c", Part::Counter),
            ("c_created", "c", Part::Created),
            ("c_sum", "c_sum", Part::Gauge),
            ("h_bucket", "h", Part::Bucket),
            ("h_sum", "h", Part::SumOf),
            ("h", "h", Part::Gauge),
            ("s", "s", Part::Quantile),
            ("s_count", "s", Part::CountOf),
            ("i_info", "i", Part::Sum),
            ("g_count", "g_count", Part::Gauge),
            ("unknown_total", "unknown_total", Part::Gauge),
        ] {
            let member = families.member(sample.as_bytes(), sample == "s");
            assert_eq!((member.name, member.part), (family.as_bytes(), part), "{sample}");
        }
    }
}
