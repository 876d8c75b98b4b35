//! CPU time and affinity of this machine's processes, from `/proc` (Linux).

use std::fs;

use anyhow::{Context, bail};

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
}
