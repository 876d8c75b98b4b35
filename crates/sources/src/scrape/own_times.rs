//! Data points of several lines that have times of their own.

use super::known::{Composite, KnownLine, LineUse};
use super::sample::Extra;

/// The time of a line that is a part of a data point, and where its number is.
pub(super) type OwnTime = (u32, u64);

/// The times of lines that are parts of data points, by their places.
pub(super) fn own_times<'l>(lines: impl Iterator<Item = (&'l KnownLine, &'l Extra<'l>)>) -> Vec<OwnTime> {
    let parts = lines.filter(|(line, _)| matches!(line.used_as(), LineUse::Fraction | LineUse::Count));
    let mut times: Vec<OwnTime> = parts.filter_map(|(line, extra)| Some((line.slot, extra.time?))).collect();
    times.sort_unstable();
    times
}

/// Makes data points of what their lines have written, with the times of those lines or else that of the scrape.
pub(super) fn finish(composites: &mut [Composite], metrics: &mut [u8], times: &[OwnTime], scraped: u64) {
    for index in 0..composites.len() {
        let end = composites.get(index + 1).map_or(u32::MAX, |next| next.slot);
        let composite = &mut composites[index];
        let own = times.get(times.partition_point(|(slot, _)| *slot < composite.slot));
        let time = own.filter(|(slot, _)| *slot < end).map_or(scraped, |(_, time)| *time);
        composite.finish(metrics, time);
    }
}
