//! What the process itself uses, as Linux reports it.

use rustix::param::{clock_ticks_per_second, page_size};

/// What the process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessFigures {
    /// CPU time since the start.
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub rss_bytes: u64,
}

/// Reads `/proc/self`; zeros where there is none.
pub(crate) fn figures() -> ProcessFigures {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    ProcessFigures {
        cpu_seconds: cpu_seconds(&stat).unwrap_or_default(),
        rss_bytes: rss_bytes(&statm).unwrap_or_default(),
    }
}

/// `utime` and `stime` are fields 14 and 15 (proc_pid_stat(5)); the name in field 2 may contain spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks as f64 / clock_ticks_per_second() as f64)
}

fn rss_bytes(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        assert!(figures().rss_bytes > 1 << 20);
    }

    #[test]
    fn cpu_time_is_found_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 300 200 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(500.0 / clock_ticks_per_second() as f64));
    }
}
