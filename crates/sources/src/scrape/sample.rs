//! What follows the labels of a sample: its value, and maybe a time and an exemplar.

use super::number::number;
use super::series::BadSeries;
use super::text::end_of_labels;

/// What a line has beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Extra<'p> {
    /// In nanoseconds since the epoch.
    pub(super) time: Option<u64>,
    pub(super) exemplar: Option<Exemplar<'p>>,
}

/// One measurement, as an example of many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Exemplar<'p> {
    /// With their braces.
    pub(super) labels: &'p [u8],
    pub(super) value: f64,
    /// In nanoseconds since the epoch.
    pub(super) time: Option<u64>,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadSample {
    #[error("a value that is no number, or too large for one")]
    Value,
    #[error("a time that is no number, before 1970, or more than five centuries later")]
    Time,
    #[error("an exemplar that is not written as # {{labels}} value")]
    Exemplar,
    #[error(transparent)]
    Series(#[from] BadSeries),
}

/// What times are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    /// In Prometheus's own format, whole numbers.
    Milliseconds,
    /// In OpenMetrics, with a fraction.
    Seconds,
    /// What the page says is not taken.
    Unheeded,
}

/// Reads what follows a series.
pub(super) fn value(text: &[u8], unit: TimeUnit) -> Result<(f64, Extra<'_>), BadSample> {
    let (value, rest) = number(text).ok_or(BadSample::Value)?;
    Ok((value, extra(rest, unit)?))
}

/// Reads what follows a value.
pub(super) fn extra(text: &[u8], unit: TimeUnit) -> Result<Extra<'_>, BadSample> {
    let mut rest = text.trim_ascii();
    let mut extra = Extra::default();
    if rest.first().is_some_and(|byte| *byte != b'#') {
        let (time, after) = number(rest).ok_or(BadSample::Time)?;
        let time = nanos(time, unit).ok_or(BadSample::Time)?;
        extra.time = (unit != TimeUnit::Unheeded).then_some(time);
        rest = after.trim_ascii_start();
    }
    if let Some(text) = rest.strip_prefix(b"#") {
        extra.exemplar = Some(exemplar(text.trim_ascii_start())?);
    } else if !rest.is_empty() {
        return Err(BadSample::Time);
    }
    Ok(extra)
}

fn exemplar(text: &[u8]) -> Result<Exemplar<'_>, BadSample> {
    let end = text.strip_prefix(b"{").and_then(end_of_labels).ok_or(BadSample::Exemplar)?;
    let (labels, rest) = text.split_at(end + 2);
    let (value, rest) = number(rest.trim_ascii_start()).ok_or(BadSample::Exemplar)?;
    let rest = rest.trim_ascii();
    let time = match rest {
        [] => None,
        text => match number(text) {
            Some((seconds, [])) => Some(nanos(seconds, TimeUnit::Seconds).ok_or(BadSample::Exemplar)?),
            _ => return Err(BadSample::Exemplar),
        },
    };
    Ok(Exemplar { labels, value, time })
}

/// A time of a page, in nanoseconds since the epoch: cut off to whole milliseconds, because that is what Prometheus keeps.
fn nanos(time: f64, unit: TimeUnit) -> Option<u64> {
    let milliseconds = match unit {
        TimeUnit::Milliseconds | TimeUnit::Unheeded => time,
        TimeUnit::Seconds => time * 1e3,
    };
    if !(0.0..MOST_MILLISECONDS).contains(&milliseconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range of the line above")]
    let milliseconds = milliseconds as u64;
    Some(milliseconds * 1_000_000)
}

/// The year 2554. Later times do not fit in 64 bits of nanoseconds.
const MOST_MILLISECONDS: f64 = 1.84e13;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, unit: TimeUnit) -> Result<(f64, Extra<'_>), BadSample> {
        value(text.as_bytes(), unit)
    }

    #[test]
    fn values_may_have_times_and_exemplars() {
        let none = Extra::default();
        assert_eq!(of("1", TimeUnit::Seconds), Ok((1.0, none)));
        assert_eq!(of("1 ", TimeUnit::Seconds), Ok((1.0, none)));
        let at = |time| Extra { time: Some(time), exemplar: None };
        assert_eq!(of("1 1395066363123", TimeUnit::Milliseconds), Ok((1.0, at(1_395_066_363_123_000_000))));
        assert_eq!(of("1 1395066363.1239", TimeUnit::Seconds), Ok((1.0, at(1_395_066_363_123_000_000))));
        assert_eq!(of("1 1395066363123", TimeUnit::Unheeded), Ok((1.0, none)));
        assert_eq!(of("1 x", TimeUnit::Unheeded), Err(BadSample::Time));
        let exemplar = |time| Some(Exemplar { labels: br#"{a="}"}"#, value: 0.5, time });
        assert_eq!(
            of(r#"1 # {a="}"} 0.5"#, TimeUnit::Seconds),
            Ok((1.0, Extra { time: None, exemplar: exemplar(None) }))
        );
        let both = Extra { time: Some(2_000_000_000), exemplar: exemplar(Some(3_500_000_000)) };
        assert_eq!(of(r#"1 2 # {a="}"} 0.5 3.5"#, TimeUnit::Seconds), Ok((1.0, both)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(of("x", TimeUnit::Seconds), Err(BadSample::Value));
        assert_eq!(of("1 x", TimeUnit::Seconds), Err(BadSample::Time));
        assert_eq!(of("1 2 3", TimeUnit::Seconds), Err(BadSample::Time));
        assert_eq!(of("1 NaN", TimeUnit::Seconds), Err(BadSample::Time));
        assert_eq!(of("1 99999999999999999", TimeUnit::Seconds), Err(BadSample::Time));
        assert_eq!(of("1 # x", TimeUnit::Seconds), Err(BadSample::Exemplar));
        assert_eq!(of("1 # {} x", TimeUnit::Seconds), Err(BadSample::Exemplar));
        assert_eq!(of("1 # {} 1 2 3", TimeUnit::Seconds), Err(BadSample::Exemplar));
    }
}
