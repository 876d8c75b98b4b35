//! What the command line accepts as a size or a duration, and the limits that the system sets for this process.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_resources::quantity;

/// Reads a size above nothing, such as `512MiB`, `1.5Gi` or `1000000`, in bytes.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = quantity::size(text).ok().filter(|bytes| *bytes > 0).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| format!("{text:?} is not a size; write for example 512MiB, 1.5GiB or 1000000"))
}

/// A size as people type it: in the largest unit that leaves no fraction.
pub(crate) fn size(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1_000_000, "MB"), (1_000, "KB")];
    match units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// No setting makes sense beyond this, and sums of times must not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration such as `250ms`, `20s` or `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = quantity::duration(text).ok().filter(|duration| *duration <= LONGEST);
    duration.ok_or_else(|| format!("{text:?} is not a duration; write for example 250ms, 20s or 1h30m"))
}

/// The memory limit of this process's cgroup (version 2 or 1), if there is one.
pub(crate) fn cgroup_memory_limit() -> Option<usize> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = cgroup.lines().filter_map(limit_file);
    let files = files.chain(["/sys/fs/cgroup/memory.max".into(), "/sys/fs/cgroup/memory/memory.limit_in_bytes".into()]);
    let limits = files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<usize>().ok());
    // Version 1 writes a number near 2^63 for "no limit".
    limits.filter(|limit| *limit < usize::MAX / 4).min()
}

/// Where the limit of a line of `/proc/self/cgroup` (`id:controllers:path`) is.
fn limit_file(line: &str) -> Option<String> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    match controllers {
        "" => Some(format!("/sys/fs/cgroup{path}/memory.max")),
        "memory" => Some(format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")),
        _ => None,
    }
}

/// Every connection is a file: take as many as the system lets this process have.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wish = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wish) {
        tracing::debug!(%error, current = limit.current, "cannot raise the limit on open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1Gi"), Ok(1 << 30));
        assert_eq!(parse_size("2 kb"), Ok(2_000));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_size("77"), Ok(77));
        for wrong in ["", "MiB", "0", "0.0Gi", "-1", "1TiBs", "99999999999999999999"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_size_is_said_as_it_was_typed() {
        for text in ["1MiB", "3GiB", "1536MiB", "1KiB", "5MB", "1500KB", "1000001", "0"] {
            assert_eq!(size(parse_size(text).unwrap_or(0)), text);
        }
        assert_eq!([size(1 << 40), size(1_500_000_000), size(2 << 10)], ["1024GiB", "1500MB", "2KiB"]);
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1d"), Ok(Duration::from_secs(86_400)));
        for wrong in ["", "s", "10", "-1s", "1e999s", "9000h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn cgroup_lines() {
        assert_eq!(limit_file("0::/a/b").unwrap(), "/sys/fs/cgroup/a/b/memory.max");
        assert_eq!(limit_file("5:memory:/x").unwrap(), "/sys/fs/cgroup/memory/x/memory.limit_in_bytes");
        assert_eq!(limit_file("4:cpu,cpuacct:/x"), None);
    }
}
