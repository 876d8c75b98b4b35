//! Inspection: read-only, without the lock, safe while another process writes.
//!
//! It says how recovery would find the journal at this moment. A group that is being written is not there yet, and
//! segments may vanish while it looks.

use std::collections::BTreeMap;
use std::io;

use crate::format::FileKind;
use crate::fs::Fs;
use crate::index::{Ledger, Segment};
use crate::journal::read_payload;
use crate::model::{Backlog, DamageReport, Entry, Loss};
use crate::recover::{Listing, Seen};
use crate::reports::Reports;
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
    /// Bytes that a start would cut off: a write that is, or was, under way, or damage that cannot be told from one.
    pub truncated_bytes: u64,
    /// Everything that is wrong otherwise.
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
    /// How often any of these entries is still owed to a queue.
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
    /// What is missing: damaged entries of this queue, and damaged places whose entries are unknown.
    pub damage: Vec<DamageReport>,
    /// What else is wrong, and costs nothing here.
    pub elsewhere: Vec<DamageReport>,
}

/// Looks at a journal.
pub fn inspect(fs: &dyn Fs, depth: Depth) -> io::Result<Inspection> {
    let mut inspection = Inspection::default();
    let mut queues = BTreeMap::new();
    let mut damage = Reports::default();
    let unusable = visit(fs, depth, &mut |files, survey| {
        inspection.segments.push(report_segment(files, &survey));
        inspection.truncated_bytes += survey.truncated_bytes;
        for (number, ledger) in &survey.ledgers {
            if let Some(name) = survey.names.get(*number) {
                add(queues.entry(name.to_owned()).or_default(), &survey.segment, ledger);
            }
        }
        damage.append(survey.damage);
        damage.append(survey.unsound);
        Ok(())
    })?;
    damage.append(unusable);
    inspection.damage = damage.into_list();
    inspection.queues = queues.into_iter().map(|(name, backlog)| QueueReport { name, backlog }).collect();
    Ok(inspection)
}

/// Hands out every payload still owed to `queue`, oldest first. Damaged ones are reported and skipped.
pub fn export(fs: &dyn Fs, queue: &str, each: &mut dyn FnMut(&Entry, &[u8]) -> io::Result<()>) -> io::Result<Exported> {
    let mut export = Export { exported: Exported::default(), damage: Reports::default(), each };
    let mut elsewhere = Reports::default();
    let unusable = visit(fs, Depth::Headers, &mut |files, survey| {
        for (number, _) in survey.names.iter().filter(|(_, name)| *name == queue) {
            export.hand_out(files, &survey, number)?;
        }
        for report in survey.damage.into_list() {
            // Whose entries are lost is not known where their heads are.
            let list = if report.entries == Some(0) { &mut elsewhere } else { &mut export.damage };
            list.push(report);
        }
        Ok(())
    })?;
    export.damage.append(unusable);
    let (damage, elsewhere) = (export.damage.into_list(), elsewhere.into_list());
    Ok(Exported { damage, elsewhere, ..export.exported })
}

struct Export<'a> {
    exported: Exported,
    damage: Reports,
    each: &'a mut dyn FnMut(&Entry, &[u8]) -> io::Result<()>,
}

impl Export<'_> {
    /// What the queue with this number is owed of a segment, and what it was owed and is damaged.
    fn hand_out(&mut self, files: &Files, survey: &Survey, number: u16) -> io::Result<()> {
        let ledger = survey.ledgers.get(&number);
        let lost = survey.lost.get(&number);
        let is_lost = |index| lost.is_some_and(|lost| lost.entries.contains(index));
        let is_owed = |index| ledger.is_some_and(|ledger| ledger.owes(index)) || is_lost(index);
        let seal = files.head.seal();
        let mut walk = Walk::new(&*files.file, seal, Place::START, survey.segment.end);
        while let Some(step) = walk.step() {
            let Step::Entry(found) = step else { continue };
            let Some(entry) = found.entry(files.id).filter(|entry| is_owed(entry.position.index)) else { continue };
            match read_payload(&*files.file, seal, &entry) {
                Ok(Some(payload)) => {
                    (self.each)(&entry, &payload)?;
                    self.exported.entries += 1;
                    self.exported.items += u64::from(entry.items);
                    self.exported.bytes += u64::from(entry.payload_bytes);
                }
                Ok(None) => self.leave_out(&entry, DamageReport::UNSOUND.to_owned()),
                Err(error) => self.leave_out(&entry, format!("the payload cannot be read: {error}")),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, entry: &Entry, what: String) {
        self.damage.push(DamageReport::of_entry(entry, what));
    }
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

/// Reads the segments one after the other; returns those that cannot be used.
fn visit(fs: &dyn Fs, depth: Depth, each: &mut dyn FnMut(&Files, Survey) -> io::Result<()>) -> io::Result<Reports> {
    let listing = Listing::read(fs)?;
    let mut unusable = Reports::default();
    listing.each(fs, |seen| match seen {
        Seen::Blank { .. } => Ok(()),
        Seen::Orphan(orphan) => {
            orphan.lost.into_iter().for_each(|report| unusable.push(report));
            Ok(())
        }
        Seen::Aside(report) => {
            unusable.push(report);
            Ok(())
        }
        Seen::Segment(files, end) => {
            let survey = Survey::read(files, end, depth == Depth::Payloads);
            let durable_end = survey.segment.durable_end;
            let result = each(files, survey);
            files.file.forget(durable_end);
            result
        }
    })?;
    Ok(unusable)
}
