//! A file of completions whose segment is gone. Either the process died before it could remove both files, or somebody
//! took the segment, with what was owed of it.
//!
//! The file says which: before a segment is removed, everything in it is written down as completed. This module changes
//! nothing.

use crate::acks::{Acks, Run};
use crate::format::{Extent, FileKind, HeadFault, Previous};
use crate::fs::Fs;
use crate::model::DamageReport;
use crate::survey::FoundAckFile;

/// Queues that are named in one report at most.
const NAMED: usize = 10;

/// What a file of completions without a segment says.
pub(crate) struct Orphan {
    pub(crate) id: u64,
    /// What is lost, if anything is.
    pub(crate) lost: Option<DamageReport>,
    /// Its version is not known, or it cannot be read now.
    pub(crate) stays: bool,
}

impl Orphan {
    /// Looks at it; `None` when it has a segment after all, or is gone by now. `said` is what the next segment says of
    /// the missing one.
    pub(crate) fn look(fs: &dyn Fs, id: u64, said: Option<&Previous>) -> Option<Self> {
        // Names are not listed all at once: the segment may be newer than the list.
        if fs.open(&FileKind::Segment.name(id)).is_ok() {
            return None;
        }
        let mut file = FoundAckFile::open(fs, id);
        if !file.exists {
            return None;
        }
        let stays =
            |what: String| Self { id, lost: Some(missing(id, said.map(|said| said.extent), None, &what)), stays: true };
        let head = file.head(id);
        let acks = head.map(|head| file.read(id, head.seal()));
        if let Some(fault) = file.fault.filter(|_| file.unread) {
            return Some(stays(fault));
        }
        Some(match head.and_then(|head| Ok((head, acks?))) {
            Ok((head, acks)) => {
                let said = said.and_then(|said| said.extent_of(&head));
                Self { id, lost: judge(id, &acks, said), stays: false }
            }
            Err(HeadFault::Version(version)) => {
                stays(format!("their version {version} is not known to this version of weir"))
            }
            // It was being written when power was lost, of a segment that was just created or is done with.
            Err(HeadFault::Damaged) => Self { id, lost: None, stays: false },
        })
    }
}

/// What was owed, as far as completions tell.
fn judge(id: u64, acks: &Acks, said: Option<Extent>) -> Option<DamageReport> {
    let done = |number: u16| -> &[Run] { acks.done.get(&number).map_or(&[], Vec::as_slice) };
    if acks.is_done() || acks.names.is_empty() {
        return None;
    }
    let extent = acks.extent.or(said);
    // Who was owed which entry went with the segment, so that what every queue has completed is all that is certain.
    let open = extent.map(|extent| {
        let certain =
            acks.names.iter().map(|(number, _)| done(number).iter().map(|run| run.within(extent.entries)).sum());
        u64::from(extent.entries) - certain.min().unwrap_or(0)
    });
    if open == Some(0) {
        return None;
    }
    let mut names: Vec<&str> = acks.names.iter().map(|(_, name)| name).take(NAMED + 1).collect();
    if names.len() > NAMED {
        names[NAMED] = "others";
    }
    Some(missing(id, extent, open, &format!("at most this was still owed to {}", names.join(", "))))
}

fn missing(id: u64, extent: Option<Extent>, open: Option<u64>, what: &str) -> DamageReport {
    DamageReport {
        file: FileKind::Segment.name(id),
        segment: id,
        offset: 0,
        bytes: extent.map_or(0, |extent| extent.end),
        places: 1,
        entries: open.or(extent.map(|extent| u64::from(extent.entries))),
        items: extent.map(|extent| extent.items),
        what: format!("the file is gone and its completions ({}) are there: {what}", FileKind::Acks.name(id)),
    }
}
