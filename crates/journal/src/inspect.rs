//! Looking without touching: read-only, without the lock, safe while somebody writes.
//!
//! What it says is how recovery would find the journal at this moment; a group that is just being written is not there
//! yet, and segments may vanish while it looks.

use std::collections::BTreeMap;
use std::io;

use crate::format::FileKind;
use crate::fs::Fs;
use crate::index::{Ledger, Segment};
use crate::journal::read_payload;
use crate::model::{Backlog, DamageReport, Entry, Loss};
use crate::recover::{Listing, Seen};
use crate::survey::{Files, Survey};
use crate::walk::{Place, Step, Walk};

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The heads of entries, which tell what is there.
    Headers,
    /// Every checksum.
    Payloads,
}

/// What is in a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// The queues that are owed something, sorted by name.
    pub queues: Vec<QueueReport>,
    /// Everything that is wrong.
    pub damage: Vec<DamageReport>,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub file: String,
    /// Its length, reserved room included.
    pub bytes: u64,
    /// Entries that were written to it.
    pub entries: u64,
    /// How often one of them is still owed to a queue.
    pub owed_entries: u64,
    /// When the oldest entry was written.
    pub oldest_ms: Option<u64>,
    /// When the newest entry was written.
    pub newest_ms: Option<u64>,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueReport {
    /// Its name.
    pub name: String,
    /// What it is owed.
    pub backlog: Backlog,
}

/// What was exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Entries.
    pub entries: u64,
    /// Their items.
    pub items: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// What stood in the way.
    pub damage: Vec<DamageReport>,
}

/// Looks at a journal.
pub fn inspect(fs: &dyn Fs, depth: Depth) -> io::Result<Inspection> {
    let mut inspection = Inspection::default();
    let mut queues = BTreeMap::new();
    visit(fs, depth, &mut inspection.damage, &mut |files, survey| {
        inspection.segments.push(report_segment(files, survey));
        for (number, ledger) in &survey.ledgers {
            if let Some(name) = survey.names.get(number) {
                add(queues.entry(name.clone()).or_default(), &survey.segment, ledger);
            }
        }
        Ok(())
    })?;
    inspection.queues = queues.into_iter().map(|(name, backlog)| QueueReport { name, backlog }).collect();
    Ok(inspection)
}

/// Hands out every payload still owed to `queue`, oldest first. What is damaged is reported and skipped.
pub fn export(fs: &dyn Fs, queue: &str, each: &mut dyn FnMut(&Entry, &[u8]) -> io::Result<()>) -> io::Result<Exported> {
    let mut exported = Exported::default();
    let mut damage = Vec::new();
    visit(fs, Depth::Headers, &mut damage, &mut |files, survey| {
        let numbers = survey.names.iter().filter(|(_, name)| *name == queue).map(|(number, _)| *number);
        for ledger in numbers.filter_map(|number| survey.ledgers.get(&number)) {
            hand_out(files, survey.segment.end, ledger, &mut exported, each)?;
        }
        Ok(())
    })?;
    exported.damage.splice(..0, damage);
    Ok(exported)
}

fn hand_out(
    files: &Files,
    end: u64,
    ledger: &Ledger,
    exported: &mut Exported,
    each: &mut dyn FnMut(&Entry, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let seal = files.head.seal();
    let mut walk = Walk::new(&*files.file, seal, Place::START, end);
    while let Some(step) = walk.step() {
        let Step::Entry(found) = step else { continue };
        let Some(entry) = found.entry(files.id).filter(|entry| ledger.owes(entry.position.index)) else { continue };
        let what = match read_payload(&*files.file, seal, &entry) {
            Ok(Some(payload)) => {
                each(&entry, &payload)?;
                exported.entries += 1;
                exported.items += u64::from(entry.items);
                exported.bytes += u64::from(entry.payload_bytes);
                continue;
            }
            Ok(None) => "the payload's checksum does not match; the entry is left out".to_owned(),
            Err(error) => format!("the payload cannot be read: {error}"),
        };
        exported.damage.push(DamageReport {
            file: FileKind::Segment.name(files.id),
            segment: files.id,
            offset: found.offset,
            bytes: u64::from(entry.payload_bytes),
            entries: Some(1),
            items: Some(u64::from(entry.items)),
            what,
        });
    }
    Ok(())
}

fn report_segment(files: &Files, survey: &Survey) -> SegmentReport {
    SegmentReport {
        file: FileKind::Segment.name(files.id),
        bytes: files.length,
        entries: u64::from(survey.segment.entries),
        owed_entries: survey.ledgers.values().map(|ledger| ledger.total().entries).sum(),
        oldest_ms: survey.oldest_ms,
        newest_ms: (survey.segment.entries > 0).then_some(survey.segment.newest_ms),
    }
}

fn add(backlog: &mut Backlog, segment: &Segment, ledger: &Ledger) {
    let Loss { entries, items, bytes } = ledger.total();
    backlog.entries += entries;
    backlog.items += items;
    backlog.bytes += bytes;
    backlog.untaken_entries += entries;
    // Segments come oldest first.
    backlog.oldest_ms = backlog.oldest_ms.or_else(|| segment.oldest_of(ledger));
}

/// Reads the segments one after the other.
fn visit(
    fs: &dyn Fs,
    depth: Depth,
    damage: &mut Vec<DamageReport>,
    each: &mut dyn FnMut(&Files, &Survey) -> io::Result<()>,
) -> io::Result<()> {
    let listing = Listing::read(fs)?;
    listing.each(fs, |seen| match seen {
        Seen::Blank { .. } => Ok(()),
        Seen::Aside(report) => {
            damage.push(report);
            Ok(())
        }
        Seen::Segment(files, end) => {
            let mut survey = Survey::read(files, end, depth == Depth::Payloads);
            damage.append(&mut survey.damage);
            each(files, &survey)
        }
    })
}
