//! When a target is scraped.

use std::time::Duration;

use twox_hash::XxHash3_64;

/// Where within its interval the target at this address is scraped, in nanoseconds that count from anywhere.
pub(super) fn offset(url: &str) -> u64 {
    XxHash3_64::oneshot(url.as_bytes())
}

/// The time until a target's next scrape. The offset within the interval is a number of the target's own, so that not all
/// are scraped at once, and a target has the same offset again after a restart. `now`: nanoseconds since the epoch.
pub(super) fn until_next(offset: u64, interval: Duration, now: u64) -> Duration {
    let interval = nanos(interval);
    let (offset, now) = (offset % interval, now % interval);
    Duration::from_nanos((offset + (interval - now)) % interval)
}

/// How long after its last scrape was due a target has its next one, when so much time has passed since: scrapes that
/// were missed are left out.
pub(super) fn next_after(passed: Duration, interval: Duration) -> Duration {
    let intervals = nanos(passed) / nanos(interval) + 1;
    Duration::from_nanos(nanos(interval).saturating_mul(intervals))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2).clamp(1, u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    #[test]
    fn targets_are_spread_over_the_interval() {
        let mut tenths = [0; 10];
        for number in 0..1000 {
            let offset = offset(&format!("http://10.0.{}.{}:8080/metrics", number / 250, number % 250));
            let wait = until_next(offset, INTERVAL, 1_700_000_012_345_678_901);
            assert!(wait < INTERVAL);
            tenths[usize::try_from(wait.as_millis() / 3000).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
    }

    #[test]
    fn a_target_keeps_its_offset() {
        let offset = 12_345_678_901_234;
        for now in [0, 1, 7_000_000_000, 1_700_000_000_000_000_000] {
            let at = now + nanos(until_next(offset, INTERVAL, now));
            assert_eq!(at % nanos(INTERVAL), offset % nanos(INTERVAL), "{now}");
            let other = Duration::from_secs(7);
            assert_eq!((now + nanos(until_next(offset, other, now))) % nanos(other), offset % nanos(other));
        }
    }

    #[test]
    fn scrapes_that_were_missed_are_left_out() {
        let after = |millis| next_after(Duration::from_millis(millis), INTERVAL).as_secs();
        assert_eq!([after(0), after(29_999), after(30_000), after(100_000)], [30, 30, 60, 120]);
    }
}
