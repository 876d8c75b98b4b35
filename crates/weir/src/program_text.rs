//! The program's own code and constants in memory: what only a start or a new configuration needs is let go
//! (docs/decisions/025-what-an-idle-node-takes.md).

use std::time::Duration;
use std::{fs, ops};

use rustix::mm::{Advice, madvise};
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// By then, a process has read its configuration, has met its backends and has served its first clients.
const SETTLED: Duration = Duration::from_secs(10);

/// Lets go of them once a process has settled. Linux maps sixteen pages around each one that is used, so that a start
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
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    as_in_file(let_go as fn() -> _ as usize, &smaps).try_for_each(forget)
}

#[expect(unsafe_code, reason = "advice about memory is unsafe: some of it changes what is there")]
fn forget(pages: ops::Range<usize>) -> std::io::Result<()> {
    let begin = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: these are whole pages of a file that nobody may write to, and that nobody has written to before: not one
    // of them is the process's own. Relocations are over before `main`, and nobody makes such pages writable later. So
    // what is in the file is what was there, and the kernel reads it again as soon as a page is used, also by other
    // threads at this moment.
    unsafe { madvise(begin, pages.len(), Advice::LinuxDontNeed) }.map_err(Into::into)
}

/// Pages of the program's file with code or constants, as they are in the file: `address` is of its code.
fn as_in_file(address: usize, smaps: &str) -> impl Iterator<Item = ops::Range<usize>> {
    let all = mappings(smaps);
    let file = all.iter().find(|mapping| mapping.pages.contains(&address)).map(|mapping| mapping.file);
    let is_of_file = move |mapping: &Mapping<'_>| file == Some(mapping.file) && mapping.file.starts_with('/');
    let is_kept = |mapping: &Mapping<'_>| matches!(mapping.rights, "r--p" | "r-xp") && mapping.is_as_in_file();
    all.into_iter().filter(move |mapping| is_of_file(mapping) && is_kept(mapping)).map(|mapping| mapping.pages)
}

/// A part of the address space.
struct Mapping<'a> {
    pages: ops::Range<usize>,
    rights: &'a str,
    /// Empty where there is none.
    file: &'a str,
    /// Of [`OWN`], those that are said to be nothing.
    without: usize,
}

/// Pages that were written to and are not those of the file any more: in memory, and swapped out. These may be constants
/// with addresses in them, which a start writes.
const OWN: [&str; 2] = ["Anonymous:", "Swap:"];

/// Source: proc_pid_smaps(5).
fn mappings(smaps: &str) -> Vec<Mapping<'_>> {
    let mut all: Vec<Mapping<'_>> = Vec::new();
    for line in smaps.lines() {
        if let Some(mapping) = Mapping::read(line) {
            all.push(mapping);
        } else if let (Some(mapping), Some(size)) = (all.last_mut(), OWN.iter().find_map(|own| line.strip_prefix(own)))
        {
            mapping.without += usize::from(size.trim() == "0 kB");
        }
    }
    all
}

impl<'a> Mapping<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let pages = usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        Some(Self { pages, rights: fields.next()?, file: fields.nth(3).unwrap_or_default(), without: 0 })
    }

    fn is_as_in_file(&self) -> bool {
        self.without == OWN.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_in_the_file_of_the_program_is_found_and_nothing_else() {
        let smaps = "\
4000-5000 r--p 00000000 fe:00 1 /weir
Size:                  4 kB
Anonymous:             0 kB
Swap:                  0 kB
SwapPss:               0 kB
5000-6000 r--p 00001000 fe:00 1 /weir
Anonymous:             4 kB
Swap:                  0 kB
6000-9000 r-xp 00002000 fe:00 1 /weir
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me sd
9000-a000 rw-p 00005000 fe:00 1 /weir
Anonymous:             0 kB
Swap:                  0 kB
a000-b000 r--p 00006000 fe:00 1 /weir
Anonymous:             0 kB
Swap:                  4 kB
b000-c000 r-xp 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
c000-d000 r-xp 00000000 fe:00 2 /lib/libc.so
Anonymous:             0 kB
Swap:                  0 kB
d000-e000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
Swap:                  0 kB
e000-f000 r-xp 00000000 fe:00 3 /of-another-kernel
Anonymous:             0 kB
";
        let found = |address| as_in_file(address, smaps).collect::<Vec<_>>();
        assert_eq!(found(0x8fff), [0x4000..0x5000, 0x6000..0x9000]);
        assert_eq!(found(0xc000).first(), Some(&(0xc000..0xd000)), "of the file with that address");
        for nowhere in [0x3fff, 0xb000, 0xd000, 0xe000, 0xf000] {
            assert!(found(nowhere).is_empty(), "{nowhere:x}");
        }
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
