//! What is on a page, and the memory that it takes, before any of it is kept.

use super::message::{Family, FamilyType, Histogram, samples};
use super::{BadFamily, check, error, families, series};
use crate::scrape::home;
use crate::scrape::page::{PageError, PageRules};
use crate::scrape::series::LABEL_BYTES;

/// What a page has, and what it takes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Survey {
    pub(super) points: usize,
    pub(super) samples: usize,
    /// Buckets of the largest native histogram.
    pub(super) buckets: usize,
    /// Bytes that metrics take at most.
    pub(super) bytes: usize,
    /// Bytes of the families that say something of scopes.
    pub(super) infos: usize,
}

/// What a point takes at most beside its labels and parts, with the head of a metric that has no other point.
const POINT_BYTES: usize = 192;

/// What a bucket, a quantile or an exemplar takes at most beside its labels.
const PART_BYTES: usize = 24;

/// What is written of labels, as a multiple of what they take on the page.
const TEXT_RATIO: usize = 2;

impl Survey {
    /// Looks at all of a page, and checks it.
    pub(super) fn of(page: &[u8], rules: &PageRules) -> Result<Self, PageError> {
        let mut survey = Self::default();
        let target_labels: usize =
            rules.target_labels.iter().map(|(name, value)| name.len() + value.len() + LABEL_BYTES).sum();
        for (index, body) in families(page).enumerate() {
            let body = body.map_err(|fault| error(index, &[], BadFamily::Fault(fault)))?;
            survey.add(body, target_labels, rules).map_err(|cause| error(index, body, cause))?;
        }
        // Rules may leave samples out.
        if survey.samples > rules.sample_limit && rules.relabel.is_empty() {
            return Err(PageError::TooManySamples { samples: survey.samples, limit: rules.sample_limit });
        }
        Ok(survey)
    }

    fn add(&mut self, body: &[u8], target_labels: usize, rules: &PageRules) -> Result<(), BadFamily> {
        check::family(body).map_err(BadFamily::Fault)?;
        let family = Family::read(body)?;
        let texts = family.name.len() + family.help.len() + family.unit.len();
        self.bytes += texts;
        self.infos += if family.name.as_bytes() == home::SCOPE_INFO { body.len() } else { 0 };
        for both in family.metrics() {
            let (metric, value) = both?;
            let samples = samples(family.family_type, value)?;
            let (buckets, exemplars) = match family.family_type {
                FamilyType::Histogram => {
                    let histogram = Histogram::read(value);
                    (histogram.native_buckets()?, histogram.exemplars().count())
                }
                _ => (0, 1),
            };
            let points = if family.family_type == FamilyType::GaugeHistogram { samples } else { 1 };
            self.points += points;
            self.samples += samples;
            self.buckets = self.buckets.max(buckets);
            let point = POINT_BYTES + family.name.len() + target_labels + TEXT_RATIO * metric.body().len();
            let parts = PART_BYTES * (samples + buckets + exemplars);
            let growth = if rules.can_merge() { series::growth(&family, (metric, value), rules)? } else { 0 };
            self.bytes = self.bytes.saturating_add(points.saturating_mul(point).saturating_add(parts + growth));
        }
        Ok(())
    }
}
