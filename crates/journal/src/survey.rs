//! Reading one segment and its completions: a pure function of the bytes of the two files.
//!
//! Recovery and inspection share it. It changes nothing, and reports everything that it cannot use.

mod files;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use crate::acks::Cursor;
use crate::bits::Bits;
use crate::format::{Extent, FILE_HEAD, FileKind, Seal};
use crate::fs::File;
use crate::index::{Ledger, MAX_FOUND, Segment};
use crate::model::{DamageReport, Entry, Loss};
use crate::names::Names;
use crate::reports::Reports;
use crate::walk::{Gap, Place, Step, Walk};
pub(crate) use files::{Files, FoundAckFile, Unusable};

/// How the end of a segment is found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// It says so itself, or the next segment does.
    Known(Extent),
    /// It is the last one: what was being written when the process died may be torn.
    Torn,
    /// Others followed it, so it was complete. But what says how far it goes is damaged or gone.
    Unknown,
}

/// What a queue was owed and cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub(crate) loss: Loss,
    /// Which entries.
    pub(crate) entries: Bits,
}

/// What a segment holds.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) segment: Segment,
    pub(crate) oldest_ms: Option<u64>,
    /// What is owed, by the number that the segment gives a queue.
    pub(crate) ledgers: BTreeMap<u16, Ledger>,
    pub(crate) lost: BTreeMap<u16, Lost>,
    pub(crate) names: Names,
    pub(crate) truncated_bytes: u64,
    /// Something could not be read that may tell where the segment ends.
    pub(crate) end_unread: bool,
    /// More queues are owed something than memory is kept for. The file has to stay for the others.
    pub(crate) crowded: bool,
    pub(crate) damage: Reports,
    /// Entries whose payload is damaged, or cannot be read.
    pub(crate) unsound: Reports,
}

impl Survey {
    /// Reads the segment; payloads are checked where only that tells what is torn, or when `verify` asks for it.
    pub(crate) fn read(files: &Files, end: End, verify: bool) -> Self {
        let seal = files.head.seal();
        let mut survey = Self {
            segment: Segment::new(seal),
            oldest_ms: None,
            ledgers: BTreeMap::new(),
            lost: BTreeMap::new(),
            names: Names::default(),
            truncated_bytes: 0,
            // The file of completions says it where no other segment does.
            end_unread: files.acks_unread && !matches!(end, End::Known(_)),
            crowded: false,
            damage: Reports::default(),
            unsound: Reports::default(),
        };
        survey.report_files(files);
        let (until, verify) = match end {
            End::Known(extent) => (extent.end.min(files.length), verify),
            End::Unknown => (files.length, verify),
            End::Torn => match Tail::find(&*files.file, seal, files.length) {
                Some(tail) => {
                    survey.truncated_bytes += tail.torn_bytes;
                    survey.segment.durable_end = tail.durable_end;
                    (tail.end, true)
                }
                None => {
                    survey.end_unread = true;
                    let what = "where it ends cannot be read now; the file is kept".to_owned();
                    survey.damage.push(report(files.id, (0, 0), None, what));
                    (files.length, verify)
                }
            },
        };
        let tail = survey.walk(files, until, verify);
        let tail_unread = tail.as_ref().is_some_and(|tail| tail.unreadable.is_some());
        survey.end_unread |= tail_unread && !matches!(end, End::Known(_));
        survey.segment.keep |= survey.end_unread;
        survey.close(files.id, end, tail);
        survey.name_queues(files);
        if survey.crowded {
            survey.damage.push(crowded(files.id));
        }
        survey
    }

    fn report_files(&mut self, files: &Files) {
        let head = (0, FILE_HEAD as u64);
        if files.head_damaged {
            let what = "the head of the segment is damaged; that of its file of completions is used".to_owned();
            self.damage.push(DamageReport::without_loss(FileKind::Segment, files.id, head, what));
        }
        if let Some(fault) = &files.ack_fault {
            let what =
                format!("completions are recorded here, but {fault}; what they completed may be delivered again");
            self.damage.push(DamageReport::without_loss(FileKind::Acks, files.id, head, what));
        }
        self.damage.append(files.acks.damage.clone());
        self.truncated_bytes += files.acks.torn_bytes;
    }

    /// Enters everything up to `until`; returns what follows the last frame.
    fn walk(&mut self, files: &Files, until: u64, verify: bool) -> Option<Gap> {
        let mut walk = Walk::new(&*files.file, files.head.seal(), Place::START, until);
        let mut done: BTreeMap<u16, Cursor<'_>> =
            files.acks.done.iter().map(|(number, runs)| (*number, Cursor::new(runs))).collect();
        let mut tail = None;
        while let Some(step) = walk.step() {
            match step {
                Step::Queue { number, name } => self.names.learn(number, name),
                Step::Gap(gap) if gap.lost.is_none() => tail = Some(gap),
                Step::Gap(gap) => self.report_gap(files.id, gap),
                Step::Entry(found) => {
                    let Some(entry) = found.entry(files.id) else { continue };
                    let sound = if verify { walk.is_sound(&found) } else { Ok(true) };
                    let is_owed =
                        |number: &&u16| !done.get_mut(number).is_some_and(|done| done.contains(found.head.index));
                    let owed: Vec<u16> = walk.owed().iter().filter(is_owed).copied().collect();
                    self.segment.enter(&entry, found.head.items_before);
                    self.enter(&entry, &owed, sound);
                }
            }
        }
        let place = walk.place();
        self.segment.end = tail.as_ref().map_or(place.offset, |tail| tail.from);
        // What its last group says of those before.
        self.segment.durable_end = self.segment.durable_end.max(walk.durable_end()).min(self.segment.end);
        self.segment.entries = place.index;
        self.segment.items = place.items.unwrap_or(0);
        tail
    }

    /// Whether what this queue is owed is kept in memory.
    fn admits(&self, number: u16) -> bool {
        let is_known = self.ledgers.contains_key(&number) || self.lost.contains_key(&number);
        is_known || self.ledgers.len() + self.lost.len() < MAX_FOUND
    }

    fn enter(&mut self, entry: &Entry, owed: &[u16], sound: io::Result<bool>) {
        self.oldest_ms = Some(self.oldest_ms.map_or(entry.written_ms, |oldest| oldest.min(entry.written_ms)));
        for number in owed {
            if !self.admits(*number) {
                self.crowded = true;
            } else if matches!(sound, Ok(false)) {
                let lost = self.lost.entry(*number).or_default();
                lost.loss.add(Loss::of(entry));
                lost.entries.insert(entry.position.index);
            } else {
                self.ledgers.entry(*number).or_default().enter(entry.position.index, entry, false);
            }
        }
        let what = match sound {
            Ok(true) => return,
            Ok(false) => DamageReport::UNSOUND.to_owned(),
            // It may be readable when its turn comes.
            Err(error) => format!("the payload cannot be read now: {error}"),
        };
        self.unsound.push(DamageReport::of_entry(entry, what));
    }

    fn report_gap(&mut self, segment: u64, gap: Gap) {
        let what = match &gap.unreadable {
            Some(error) => {
                self.segment.keep = true;
                format!("cannot be read: {error}; the file is kept")
            }
            None => "no valid frame; skipped".to_owned(),
        };
        self.damage.push(report(segment, (gap.from, gap.to - gap.from), gap.lost, what));
    }

    /// Judges what follows the last frame.
    fn close(&mut self, id: u64, end: End, tail: Option<Gap>) {
        let from = self.segment.end;
        match (end, tail) {
            (End::Known(extent), tail) if from < extent.end => {
                let entries = extent.entries.saturating_sub(self.segment.entries);
                let lost = Some((entries, extent.items.saturating_sub(self.segment.items)));
                let unreadable = tail.and_then(|tail| tail.unreadable);
                self.report_gap(id, Gap { from, to: extent.end, lost, content_end: from, unreadable });
            }
            // Zeros are room that was never written to.
            (_, Some(tail)) if tail.content_end > from || tail.unreadable.is_some() => self.report_gap(id, tail),
            _ => {}
        }
    }

    /// Gives every queue that is owed something a name of its own, whatever is damaged.
    fn name_queues(&mut self, files: &Files) {
        let id = files.id;
        for (number, name) in files.acks.names.iter() {
            self.names.learn(number, name.to_owned());
        }
        let mut seen = BTreeSet::new();
        let nameless: Vec<u16> = {
            let owed = self.ledgers.keys().chain(self.lost.keys()).copied().collect::<BTreeSet<u16>>();
            let is_nameless = |number: &u16| self.names.get(*number).is_none_or(|name| !seen.insert(name));
            owed.into_iter().filter(is_nameless).collect()
        };
        for number in nameless {
            let name = format!("?/{id:016x}/{number}");
            let what = format!("the name of queue {number} is lost; what it is owed is kept under the name {name}");
            self.damage.push(report(id, (0, 0), Some((0, 0)), what));
            self.names.replace(number, name);
        }
    }
}

fn report(segment: u64, (offset, bytes): (u64, u64), lost: Option<(u32, u64)>, what: String) -> DamageReport {
    DamageReport {
        file: FileKind::Segment.name(segment),
        segment,
        offset,
        bytes,
        places: 1,
        entries: lost.map(|(entries, _)| u64::from(entries)),
        items: lost.map(|(_, items)| items),
        what,
    }
}

/// Some queues that are owed something of a segment are not kept in memory.
pub(crate) fn crowded(segment: u64) -> DamageReport {
    let what = format!(
        "more than {MAX_FOUND} queues are owed something; the file is kept for those that are left out until a next start has room for them"
    );
    report(segment, (0, 0), Some((0, 0)), what)
}

/// The end of the last segment.
struct Tail {
    end: u64,
    /// Up to here it was durable once, by what the frames before the end say.
    durable_end: u64,
    /// Behind it: bytes of a write that was under way.
    torn_bytes: u64,
}

impl Tail {
    /// Finds it; `None` when something cannot be read.
    ///
    /// A damaged place is torn if nothing behind it says that it was once durable. Then everything behind it belongs to
    /// the same writes. Nobody was told that these are safe, so they go as well.
    fn find(file: &dyn File, seal: Seal, length: u64) -> Option<Self> {
        let mut walk = Walk::new(file, seal, Place::START, length);
        let mut suspects = VecDeque::new();
        let mut content_end = FILE_HEAD as u64;
        while let Some(step) = walk.step() {
            match step {
                Step::Queue { .. } => content_end = walk.place().offset,
                Step::Gap(gap) if gap.unreadable.is_some() => return None,
                Step::Gap(gap) => {
                    suspects.push_back(gap.from);
                    content_end = content_end.max(gap.content_end);
                }
                Step::Entry(found) => {
                    if !walk.is_sound(&found).ok()? {
                        suspects.push_back(found.offset);
                    }
                    content_end = found.end();
                }
            }
            while suspects.front().is_some_and(|suspect| *suspect < walk.durable_end()) {
                suspects.pop_front();
            }
        }
        let durable_end = walk.durable_end().max(FILE_HEAD as u64);
        let end = suspects.front().copied().unwrap_or(walk.place().offset);
        Some(Self { end, durable_end: durable_end.min(end), torn_bytes: content_end.saturating_sub(end) })
    }
}
