//! What is the same for all pages of a target, and what becomes of the labels of a sample by it.

use std::borrow::Cow;
use std::iter::once;
use std::mem;

use super::relabel::{Labels, Relabeling, TooLong};
use super::sample::TimeUnit;
use super::series::{Label, Series};

/// What a page is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own text format, 0.0.4 or 1.0.0.
    Text,
    /// OpenMetrics 1.0, which says where it ends.
    OpenMetrics,
    /// Prometheus's messages in protobuf, each after its length.
    Protobuf,
}

/// What is the same for all pages of a target. The names are those of a scrape configuration of Prometheus.
#[derive(Debug, Clone)]
pub struct PageRules {
    /// What the page is written in.
    pub format: Format,
    /// Samples at most, of those that rules keep.
    pub sample_limit: usize,
    /// Whether samples have the times that the page says, if it does.
    pub honor_timestamps: bool,
    /// Whether series whose samples have a time on the page get staleness markers, too.
    pub track_timestamps_staleness: bool,
    /// Whether labels on the page win over those of the target. If not, they are renamed.
    pub honor_labels: bool,
    /// Labels that every sample gets. `job` and `instance` may be among them, for rules to see: they belong to the
    /// resource and are on no point.
    pub target_labels: Vec<(Vec<u8>, Vec<u8>)>,
    /// What is done with the labels of samples.
    pub relabel: Relabeling,
    /// Labels of a sample at most, with its name, `job` and `instance`. 0: any number.
    pub label_limit: usize,
    /// Bytes of the name of a label at most. 0: any number.
    pub label_name_length_limit: usize,
    /// Bytes of the value of a label at most. 0: any number.
    pub label_value_length_limit: usize,
}

/// More, or longer, labels than a target may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverLimit {
    /// There are too many of them.
    #[error("{metric} has {labels} labels, label_limit is {limit}")]
    Labels {
        /// The name of the sample.
        metric: String,
        /// How many it has.
        labels: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The name of one is too long.
    #[error("the name of the label {label} has {length} bytes, label_name_length_limit is {limit}")]
    Name {
        /// Where it begins.
        label: String,
        /// How long it is.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The value of one is too long.
    #[error("the value of the label {label} has {length} bytes, label_value_length_limit is {limit}")]
    Value {
        /// Its name, or where that begins.
        label: String,
        /// How long the value is.
        length: usize,
        /// How long it may be.
        limit: usize,
    },
    /// Rules make all of them together too long.
    #[error("{metric}: {cause}")]
    Relabeled {
        /// The name of the sample.
        metric: String,
        /// By how much.
        cause: TooLong,
    },
}

/// The name of a sample, as rules see it.
const NAME: &str = "__name__";

/// Labels that a target has in any case.
const OWN: [&[u8]; 2] = [b"job", b"instance"];

/// What names begin with that clash with those of the target.
const EXPORTED: [u8; 9] = *b"exported_";

/// As much of a name as is in messages.
const SHOWN: usize = 50;

impl PageRules {
    /// Rules as Prometheus has them when nothing is configured: no limits, and no relabeling.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            sample_limit: usize::MAX,
            honor_timestamps: true,
            track_timestamps_staleness: false,
            honor_labels: false,
            target_labels: Vec::new(),
            relabel: Relabeling::default(),
            label_limit: 0,
            label_name_length_limit: 0,
            label_value_length_limit: 0,
        }
    }

    /// What times on the page are written in.
    pub(super) fn time_unit(&self) -> TimeUnit {
        match self.format {
            _ if !self.honor_timestamps => TimeUnit::Unheeded,
            Format::Text | Format::Protobuf => TimeUnit::Milliseconds,
            Format::OpenMetrics => TimeUnit::Seconds,
        }
    }

    /// Whether different labels on the page may become the same.
    pub(super) fn can_merge(&self) -> bool {
        !self.relabel.only_filters()
    }

    /// Makes of the labels on the page those that the sample has. Returns whether the sample is kept.
    pub(super) fn settle<'p>(&'p self, series: &mut Series<'p>) -> Result<bool, OverLimit> {
        if !self.honor_labels {
            self.rename_taken(series);
        }
        for (name, value) in &self.target_labels {
            if !series.says(name, self.honor_labels) {
                series.labels.push(Label { name: Cow::Borrowed(name), value: Cow::Borrowed(value) });
            }
        }
        if !self.relabel.is_empty() && !self.relabeled(series)? {
            return Ok(false);
        }
        self.check_limits(series)?;
        Ok(true)
    }

    /// How much longer a series becomes, as bytes that are encoded, where rules change labels. What cannot be settled
    /// makes its page fail later. `series` is not what it was afterwards.
    pub(super) fn growth<'p>(&'p self, series: &mut Series<'p>) -> usize {
        let before = series.bytes();
        match self.settle(series) {
            Ok(true) => series.bytes().saturating_sub(before),
            _ => 0,
        }
    }

    /// The value of a label of the target.
    pub(super) fn target_label(&self, name: &[u8]) -> Option<&[u8]> {
        self.target_labels.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_slice())
    }

    /// Labels with names that the target has get other names.
    fn rename_taken(&self, series: &mut Series<'_>) {
        for index in 0..series.labels.len() {
            if !self.is_taken(&series.labels[index].name) {
                continue;
            }
            let mut name = series.labels[index].name.to_vec();
            while self.is_taken(&name) || series.label(&name).is_some() {
                name.splice(0..0, EXPORTED);
            }
            series.labels[index].name = Cow::Owned(name);
        }
    }

    fn is_taken(&self, name: &[u8]) -> bool {
        OWN.contains(&name) || self.target_label(name).is_some()
    }

    fn relabeled(&self, series: &mut Series<'_>) -> Result<bool, OverLimit> {
        let name = (Cow::Borrowed(NAME), text(mem::take(&mut series.name)));
        let others = series.labels.drain(..).map(|Label { name, value }| (text(name), text(value)));
        let mut labels: Labels<'_> = once(name).chain(others).collect();
        let too_long =
            |cause, labels: &Labels<'_>| OverLimit::Relabeled { metric: shown(labels.get(NAME).as_bytes()), cause };
        let is_kept = self.relabel.apply(&mut labels).map_err(|cause| too_long(cause, &labels))?;
        if !is_kept || labels.is_empty() {
            return Ok(false);
        }
        series.name = labels.take(NAME).map_or(Cow::Borrowed(b""), bytes);
        series.labels.extend(labels.into_iter().map(|(name, value)| Label { name: bytes(name), value: bytes(value) }));
        Ok(true)
    }

    fn check_limits(&self, series: &Series<'_>) -> Result<(), OverLimit> {
        let (names, values) = (self.label_name_length_limit, self.label_value_length_limit);
        if (self.label_limit, names, values) == (0, 0, 0) {
            return Ok(());
        }
        let own = OWN.iter().filter(|name| series.label(name).is_none()).count();
        let (labels, limit) = (1 + own + series.labels.len(), self.label_limit);
        if limit > 0 && labels > limit {
            return Err(OverLimit::Labels { metric: shown(&series.name), labels, limit });
        }
        let name: (&[u8], &[u8]) = (NAME.as_bytes(), &series.name);
        for (name, value) in once(name).chain(series.labels.iter().map(|label| (&*label.name, &*label.value))) {
            if names > 0 && name.len() > names {
                return Err(OverLimit::Name { label: shown(name), length: name.len(), limit: names });
            }
            if values > 0 && value.len() > values {
                return Err(OverLimit::Value { label: shown(name), length: value.len(), limit: values });
            }
        }
        Ok(())
    }
}

/// Text of a series, which is UTF-8: that was checked when it was read.
fn text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(SHOWN).collect()
}
