//! The program's own text in memory: what only a start or a new configuration needs is let go
//! (docs/decisions/025-what-an-idle-node-takes.md).

use std::time::Duration;
use std::{fs, ops};

use rustix::mm::{Advice, madvise};
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// By then, a process has read its configuration, has met its backends and has served its first clients.
const SETTLED: Duration = Duration::from_secs(10);

/// Lets go of the text once a process has settled. Linux maps sixteen pages around each one that is used, so that a start
/// leaves nearly all of them mapped; what is used again is mapped again, from the page cache.
pub(crate) async fn let_go_when_settled() {
    sleep(SETTLED).await;
    if let Err(error) = let_go() {
        tracing::debug!(%error, "pages of the program that are not needed any more stay in memory");
    }
}

/// A process that takes up one configuration after another settles after the last of them.
#[derive(Debug, Default)]
pub(crate) struct Settling(Option<AbortHandle>);

impl Settling {
    /// Something new was taken up.
    pub(crate) fn begin_anew(&mut self) {
        let task = tokio::spawn(let_go_when_settled());
        if let Some(earlier) = self.0.replace(task.abort_handle()) {
            earlier.abort();
        }
    }
}

fn let_go() -> std::io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let Some(text) = text_around(let_go as fn() -> _ as usize, &maps) else { return Ok(()) };
    forget(text)
}

#[expect(unsafe_code, reason = "advice about memory is unsafe: some of it changes what is there")]
fn forget(text: ops::Range<usize>) -> std::io::Result<()> {
    let begin = std::ptr::with_exposed_provenance_mut(text.start);
    // SAFETY: these are whole pages of a file that can be executed and were never written: relocations are in other
    // pages (the linker refuses others), and nobody makes these writable. So what is in the file is what was there, and the
    // kernel reads it again as soon as a page is used, also by other threads at this moment.
    unsafe { madvise(begin, text.len(), Advice::LinuxDontNeed) }.map_err(Into::into)
}

/// The mapping around `address`, if it is text of a file: read, executed, never written.
fn text_around(address: usize, maps: &str) -> Option<ops::Range<usize>> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let range = usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let is_text = fields.next()? == "r-xp" && fields.nth(3)?.starts_with('/');
        (is_text && range.contains(&address)).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_program_is_found_and_nothing_else() {
        let maps = "\
5000-6000 r--p 00000000 fe:00 1 /weir
6000-9000 r-xp 00001000 fe:00 1 /weir
9000-a000 rw-p 00004000 fe:00 1 /weir
b000-c000 r-xp 00000000 00:00 0
c000-d000 r-xp 00000000 00:00 0 [vdso]
";
        let found: Vec<_> = [0x5000, 0x6000, 0x8fff, 0x9000, 0xb000, 0xc000].map(|at| text_around(at, maps)).into();
        assert_eq!(found, [None, Some(0x6000..0x9000), Some(0x6000..0x9000), None, None, None]);
    }

    #[test]
    fn what_was_let_go_is_there_again_when_it_is_used() {
        let mapped = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
        };
        // Other tests use some of it meanwhile.
        let is_less = || {
            let before = mapped();
            let_go().unwrap();
            mapped() < before
        };
        assert!((0..100).any(|_| is_less()), "{} kB", mapped());
    }
}
