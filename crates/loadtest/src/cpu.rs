//! CPU time, memory, bytes written and core affinity of this machine's processes (Linux).

use std::fs;

use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPU seconds this process used, all its threads included.
pub(crate) fn own_seconds() -> anyhow::Result<f64> {
    process_seconds("self")
}

/// CPU seconds a process used, all its threads included; `pid` is a number or `self`.
pub(crate) fn process_seconds(pid: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_stat(&text).with_context(|| format!("cannot read CPU time from {path}"))
}

/// User plus system time of a `/proc/PID/stat` line: fields 14 and 15, the name (field 2) may hold spaces.
fn parse_stat(text: &str) -> anyhow::Result<f64> {
    let rest = text.rsplit_once(')').context("no process name")?.1;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (Some(user), Some(system)) = (fields.next(), fields.next()) else { bail!("too few fields") };
    let ticks = user.parse::<u64>()? + system.parse::<u64>()?;
    #[expect(clippy::cast_precision_loss, reason = "CPU time is far below 2^53 ticks")]
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Ok(seconds)
}

/// Resident memory of a process in bytes: now, and the most it ever was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// Reads `VmRSS` and `VmHWM` of a process.
pub(crate) fn process_memory(pid: &str) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_status(&text).with_context(|| format!("cannot read memory from {path}"))
}

fn parse_status(text: &str) -> anyhow::Result<Memory> {
    let field = |name: &str| -> anyhow::Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().with_context(|| format!("{name} {line}"))?;
        Ok(kib * 1024)
    };
    Ok(Memory { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// Bytes a process caused to be written to disks; sockets and pipes do not count, and on Linux nor do files in memory.
pub(crate) fn process_written_bytes(pid: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_io(&text).with_context(|| format!("cannot read bytes written from {path}"))
}

fn parse_io(text: &str) -> anyhow::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")).context("no write_bytes")?;
    line.parse().with_context(|| format!("write_bytes {line}"))
}

/// Time a set of cores spent, in ticks since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreTime {
    pub(crate) busy: u64,
    /// Of this, interrupts: the network's work, which no process is charged for.
    pub(crate) interrupts: u64,
    pub(crate) total: u64,
}

impl CoreTime {
    /// Share of the time since `before` that the cores were busy, 0 to 1.
    pub(crate) fn busy_since(self, before: Self) -> f64 {
        self.share(self.busy.saturating_sub(before.busy), before)
    }

    /// The same without interrupts: what processes used.
    pub(crate) fn processes_since(self, before: Self) -> f64 {
        let interrupts = self.interrupts.saturating_sub(before.interrupts);
        self.share(self.busy.saturating_sub(before.busy).saturating_sub(interrupts), before)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
    fn share(self, ticks: u64, before: Self) -> f64 {
        ticks as f64 / self.total.saturating_sub(before.total).max(1) as f64
    }
}

/// What `cores` did since boot, all processes included.
pub(crate) fn core_time(cores: &[usize]) -> anyhow::Result<CoreTime> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    Ok(parse_core_time(&text, cores))
}

/// Sums `cpuN` lines: user, nice, system, idle, iowait, irq, softirq, steal.
fn parse_core_time(text: &str, cores: &[usize]) -> CoreTime {
    let mut sum = CoreTime::default();
    for line in text.lines() {
        let Some((core, times)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else { continue };
        if !core.parse().is_ok_and(|core: usize| cores.contains(&core)) {
            continue;
        }
        let times: Vec<u64> = times.split_ascii_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
        let idle: u64 = times.iter().skip(3).take(2).sum();
        let total: u64 = times.iter().sum();
        sum.interrupts += times.iter().skip(5).take(2).sum::<u64>();
        sum.total += total;
        sum.busy += total - idle;
    }
    sum
}

/// Which cores belong to the system under test and which to the judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) gateway: Vec<usize>,
    pub(crate) judge: Vec<usize>,
}

impl Layout {
    /// The first core this process may use goes to the gateway, the others to the judge; a single core is shared.
    pub(crate) fn detect() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("cannot read core affinity")?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        Ok(match cores.split_first() {
            Some((first, rest)) if !rest.is_empty() => Self { gateway: vec![*first], judge: rest.to_vec() },
            _ => Self { gateway: cores.clone(), judge: cores },
        })
    }

    /// Whether gateway and judge have cores of their own.
    pub(crate) fn is_apart(&self) -> bool {
        self.gateway != self.judge
    }
}

/// Runs `action` with this thread bound to `cores`; a process it spawns inherits that.
pub(crate) fn on_cores<T>(cores: &[usize], action: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    if cores.is_empty() {
        return action();
    }
    let before = sched_getaffinity(None).context("cannot read core affinity")?;
    bind_to(cores)?;
    let result = action();
    sched_setaffinity(None, &before).context("cannot restore core affinity")?;
    result
}

/// Binds this thread, and threads it starts later, to `cores`.
pub(crate) fn bind_to(cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    sched_setaffinity(None, &set).with_context(|| format!("cannot bind to cores {cores:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_strange_name() {
        let line = "42 (a b) c) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 100 200 300";
        let seconds = parse_stat(line).unwrap();
        assert_eq!(seconds, 200.0 / rustix::param::clock_ticks_per_second() as f64);
        assert!(parse_stat("42 (x) S 1").is_err());
        assert!(own_seconds().unwrap() >= 0.0);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse_status(status).unwrap(), Memory { now: 1 << 20, peak: 2 << 20 });
        assert!(parse_status("Name: gone\n").is_err());
        assert!(process_memory("self").unwrap().now > 0);
    }

    #[test]
    fn bytes_written_are_those_that_go_to_disk() {
        let io = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n";
        assert_eq!(parse_io(io).unwrap(), 4096);
        assert!(parse_io("wchar: 2\n").is_err());
        assert!(process_written_bytes("self").is_ok());
    }

    #[test]
    fn core_time_counts_only_the_cores_asked_for() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 4 80 0 1 5 0 0 0\ncpu1 50 0 0 25 25 0 0 0 0 0\nintr 1\n";
        let both = parse_core_time(stat, &[0, 1]);
        assert_eq!(both, CoreTime { busy: 70, interrupts: 6, total: 200 });
        assert_eq!(both.processes_since(CoreTime::default()), 0.32);
        assert_eq!(parse_core_time(stat, &[1]).busy_since(CoreTime::default()), 0.5);
    }

    #[test]
    fn a_thread_is_bound_only_while_the_action_runs() {
        let layout = Layout::detect().unwrap();
        let before = sched_getaffinity(None).unwrap();
        let inside = on_cores(&layout.gateway[..1], || Ok(sched_getaffinity(None)?.count())).unwrap();
        assert_eq!(inside, 1);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
