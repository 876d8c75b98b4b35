//! Sizes in memory, and the limits that the system sets for this process.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_units::quantity;

/// Reads a size above nothing, such as `512MiB`, `1.5Gi` or `1000000`, in bytes.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = weir_units::parse_positive_size(text)?;
    usize::try_from(bytes)
        .map_err(|_| format!("cannot use size {text:?}: it is larger than what this machine addresses"))
}

/// A size as people type it.
pub(crate) fn size(bytes: usize) -> String {
    weir_units::typed_size(bytes as u64)
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

/// Cores that this process may use.
pub(crate) fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

/// An amount of CPU, as Kubernetes writes it.
pub(crate) fn parse_cores(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no amount of CPU: expected a number of cores above 0, for example 2 or 500m");
    let thousandths = quantity::thousandths(text).map_err(|_| wrong())?;
    if thousandths == 0 { Err(wrong()) } else { Ok(thousandths as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_of_cpu_is_some() {
        assert_eq!([parse_cores("500m"), parse_cores("2"), parse_cores("1.5")], [Ok(0.5), Ok(2.0), Ok(1.5)]);
        for wrong in ["", "0", "0m", "-1", "a lot"] {
            assert!(parse_cores(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn cgroup_lines() {
        assert_eq!(limit_file("0::/a/b").unwrap(), "/sys/fs/cgroup/a/b/memory.max");
        assert_eq!(limit_file("5:memory:/x").unwrap(), "/sys/fs/cgroup/memory/x/memory.limit_in_bytes");
        assert_eq!(limit_file("4:cpu,cpuacct:/x"), None);
    }
}
