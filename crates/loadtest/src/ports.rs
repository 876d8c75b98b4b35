//! Ports for processes that a test starts.

use std::net::TcpListener;
use std::ops::Range;

use anyhow::Context;

/// Ports a test may use, below those that connections get by themselves: while a killed gateway or an absent backend is
/// away, the system must not give its port to somebody's outgoing connection.
const LOWEST_PORT: u16 = 10_240;
/// Where Linux begins to take ports for outgoing connections when nothing else was configured.
const USUAL_FIRST_EPHEMERAL_PORT: u16 = 32_768;
/// Fewer ports than this are not worth searching.
const FEW_PORTS: usize = 1000;
/// How often a free port is looked for.
const PORT_ATTEMPTS: usize = 1000;

/// Ports of the loopback address that are free now. Another process could take one before it is used; then what was to
/// use it fails to start and says so.
///
/// # Errors
///
/// When none can be found.
pub fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let candidates = LOWEST_PORT..first_ephemeral_port();
    let mut listeners = Vec::with_capacity(count);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..count {
        // Held until all are found, so that they differ.
        let listener = free_listener(&candidates).context("cannot find a free port")?;
        ports.push(listener.local_addr().context("cannot read a free port")?.port());
        listeners.push(listener);
    }
    Ok(ports)
}

fn free_listener(candidates: &Range<u16>) -> std::io::Result<TcpListener> {
    let any_port = || TcpListener::bind(("127.0.0.1", 0));
    if candidates.len() < FEW_PORTS {
        return any_port();
    }
    let mut picked = (0..PORT_ATTEMPTS).map(|_| TcpListener::bind(("127.0.0.1", fastrand::u16(candidates.clone()))));
    picked.find_map(Result::ok).map_or_else(any_port, Ok)
}

fn first_ephemeral_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_ascii_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(USUAL_FIRST_EPHEMERAL_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_none_that_a_connection_gets_by_itself() {
        let mut ports = free_ports(50).unwrap();
        assert!(ports.iter().all(|&port| port < first_ephemeral_port()), "{ports:?}");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }

    #[test]
    fn a_machine_without_ports_to_choose_from_gives_any() {
        assert!(free_listener(&(2000..2010)).is_ok());
    }
}
