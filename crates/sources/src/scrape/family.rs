//! Which family of metrics a sample belongs to, and what it is there.

use std::collections::HashMap;

use super::text::Kind;

/// What is known of a family from the comments before its samples.
#[derive(Debug, Clone, Default)]
pub(super) struct Family<'p> {
    pub(super) kind: Option<Kind>,
    /// As written, with escapes.
    pub(super) help: &'p [u8],
    pub(super) unit: &'p [u8],
}

/// The families of a page, by their names.
#[derive(Debug, Default)]
pub(super) struct Families<'p> {
    all: HashMap<&'p [u8], Family<'p>>,
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

/// Where a sample belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'f, 'p> {
    /// The name of the family, a part of the name of the sample.
    pub(super) name: &'f [u8],
    pub(super) part: Part,
    pub(super) kind: Kind,
    pub(super) help: &'p [u8],
    pub(super) unit: &'p [u8],
}

/// Ends of names of samples, the kinds of families they are of, and what they are there.
const SUFFIXES: [(&[u8], &[Kind], Part); 9] = [
    (b"_bucket", &[Kind::Histogram], Part::Bucket),
    (b"_sum", &[Kind::Histogram, Kind::Summary], Part::SumOf),
    (b"_count", &[Kind::Histogram, Kind::Summary], Part::CountOf),
    (b"_total", &[Kind::Counter], Part::Counter),
    (b"_created", &[Kind::Counter, Kind::Histogram, Kind::Summary], Part::Created),
    (b"_info", &[Kind::Info], Part::Sum),
    (b"_bucket", &[Kind::GaugeHistogram], Part::Gauge),
    (b"_gsum", &[Kind::GaugeHistogram], Part::Gauge),
    (b"_gcount", &[Kind::GaugeHistogram], Part::Gauge),
];

impl<'p> Families<'p> {
    /// The family of this name, to be told what a comment says.
    pub(super) fn get(&mut self, name: &'p [u8]) -> &mut Family<'p> {
        self.all.entry(name).or_default()
    }

    /// Where the sample of this name belongs. `has_quantile`: it has a label of that name.
    pub(super) fn place<'f>(&self, name: &'f [u8], has_quantile: bool) -> Place<'f, 'p> {
        if let Some(family) = self.all.get(name) {
            let kind = family.kind.unwrap_or(Kind::Unknown);
            let part = match kind {
                Kind::Counter => Part::Counter,
                Kind::Info | Kind::StateSet => Part::Sum,
                Kind::Summary if has_quantile => Part::Quantile,
                _ => Part::Gauge,
            };
            return Place { name, part, kind, help: family.help, unit: family.unit };
        }
        let found = SUFFIXES.iter().find_map(|(suffix, kinds, part)| {
            let name = name.strip_suffix(*suffix)?;
            let family = self.all.get(name)?;
            let kind = family.kind.filter(|kind| kinds.contains(kind))?;
            Some(Place { name, part: *part, kind, help: family.help, unit: family.unit })
        });
        found.unwrap_or(Place { name, part: Part::Gauge, kind: Kind::Unknown, help: b"", unit: b"" })
    }
}

impl Part {
    /// Whether it is one of several samples that are one data point together.
    pub(super) fn is_of_composite(self, kind: Kind) -> bool {
        match self {
            Self::Bucket | Self::Quantile | Self::SumOf | Self::CountOf => true,
            Self::Created => kind != Kind::Counter,
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
        for (name, kind) in [
            (&b"c"[..], Kind::Counter),
            (b"h", Kind::Histogram),
            (b"s", Kind::Summary),
            (b"i", Kind::Info),
            (b"g_count", Kind::Gauge),
            (b"g", Kind::GaugeHistogram),
        ] {
            families.get(name).kind = Some(kind);
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
            let place = families.place(sample.as_bytes(), sample == "s");
            assert_eq!((place.name, place.part), (family.as_bytes(), part), "{sample}");
        }
    }
}
