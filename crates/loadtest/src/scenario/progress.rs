//! One line a second on a terminal while a trial runs; nothing anywhere else.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::metrics::SelfView;

/// Replaces the progress line.
pub(crate) fn show(system: &str, phase: &str, elapsed: Duration, view: &SelfView, memory_bytes: Option<u64>) {
    let accepted = view.accepted.unwrap_or(0.0);
    let sent = view.sent.unwrap_or(0.0);
    let queue = view.queue_size.unwrap_or(0.0);
    let memory = memory_bytes.unwrap_or(0) >> 20;
    let seconds = elapsed.as_secs();
    write_line(&format!(
        "{system}, {phase} {seconds} s: accepted {accepted:.0}, exported {sent:.0}, queue {queue:.0}, {memory} MB"
    ));
}

/// Removes the progress line.
pub(crate) fn clear() {
    write_line("");
}

fn write_line(text: &str) {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        // A progress line that cannot be shown is no reason to stop.
        let _ = write!(stderr.lock(), "\r\x1b[K{text}");
    }
}
