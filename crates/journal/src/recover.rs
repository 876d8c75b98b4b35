//! Opening: what the files say becomes the index, and what was never acknowledged is cut off.
//!
//! Damage never stops it: it uses what it can, leaves the rest aside, and reports both.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::ops::Range;

use crate::OpenError;
use crate::format::{Extent, FileKind, Previous};
use crate::fs::{File, Fs, read_full, write_full};
use crate::index::{Index, Segment};
use crate::model::{DamageReport, Loss, QueueId, Recovery};
use crate::names::Names;
use crate::orphan::Orphan;
use crate::reports::Reports;
use crate::survey::{End, Files, Lost, Survey, Unusable, crowded};
use crate::writer::AckFile;

/// Read and written at once.
const REWRITE: usize = 256 << 10;

/// What the writer goes on with.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) index: Index,
    pub(crate) recovery: Recovery,
    damage: Reports,
    pub(crate) acks: BTreeMap<u64, AckFile>,
    pub(crate) next_id: u64,
    pub(crate) previous: Previous,
}

/// The segments of a directory, and whether they have a file of completions.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) segments: BTreeMap<u64, bool>,
    /// Files of completions whose segment is gone.
    pub(crate) orphans: Vec<u64>,
}

impl Listing {
    pub(crate) fn read(fs: &dyn Fs) -> io::Result<Self> {
        let mut listing = Self::default();
        let names = fs.list()?;
        let of_kind = |wanted| {
            let is_wanted = move |name: &String| FileKind::of(name).filter(|(kind, _)| *kind == wanted);
            names.iter().filter_map(is_wanted).map(|(_, id)| id)
        };
        listing.segments.extend(of_kind(FileKind::Segment).map(|id| (id, false)));
        for id in of_kind(FileKind::Acks) {
            match listing.segments.get_mut(&id) {
                Some(has_acks) => *has_acks = true,
                None => listing.orphans.push(id),
            }
        }
        Ok(listing)
    }

    fn last_id(&self) -> u64 {
        let last = self.segments.last_key_value().map_or(0, |(id, _)| *id);
        self.orphans.iter().copied().fold(last, u64::max)
    }
}

/// What is found in the place of a segment.
pub(crate) enum Seen<'a> {
    /// No frame was ever acknowledged in it, or its creation is under way.
    Blank {
        id: u64,
        has_acks: bool,
    },
    Aside(DamageReport),
    Segment(&'a Files, End),
    /// Completions of a segment that is gone.
    Orphan(Orphan),
}

impl Listing {
    /// Opens the segments one after the other, never more than two at once: there may be more of them than descriptors.
    pub(crate) fn each<E>(&self, fs: &dyn Fs, mut visit: impl FnMut(Seen<'_>) -> Result<(), E>) -> Result<(), E> {
        let (mut before, mut last_id) = (None, None);
        let mut said = BTreeMap::new();
        for (id, has_acks) in &self.segments {
            match Files::open(fs, *id) {
                Ok(Ok(files)) => {
                    said.insert(files.head.previous.id, files.head.previous);
                    if let Some(before) = before.take() {
                        visit(Seen::Segment(&before, end(&before, Some(&files), last_id)))?;
                    }
                    before = Some(files);
                }
                Ok(Err(Unusable::Aside(report) | Unusable::Headless(report))) => visit(Seen::Aside(report))?,
                Ok(Err(Unusable::Blank)) => {
                    visit(Seen::Blank { id: *id, has_acks: *has_acks })?;
                    continue;
                }
                // It was deleted since the files were listed: it has nothing to say.
                Err(_) => continue,
            }
            last_id = Some(*id);
        }
        before.map_or(Ok(()), |last| visit(Seen::Segment(&last, end(&last, None, last_id))))?;
        let orphans = self.orphans.iter().filter_map(|id| Orphan::look(fs, *id, said.get(id)));
        orphans.map(Seen::Orphan).try_for_each(visit)
    }
}

/// How the end of a segment is found: by what it says itself, or what the next one says, if there is one.
fn end(this: &Files, next: Option<&Files>, last_id: Option<u64>) -> End {
    let said = next.and_then(|next| next.head.previous.extent_of(&this.head));
    match this.acks.extent.or(said) {
        Some(extent) => End::Known(extent),
        None if next.is_none() && last_id == Some(this.id) => End::Torn,
        None => End::Unknown,
    }
}

/// Reads everything there is.
pub(crate) fn recover(fs: &dyn Fs) -> Result<Recovered, OpenError> {
    let listing = Listing::read(fs)
        .map_err(|source| OpenError { action: "list the files in its directory".to_owned(), source })?;
    let mut recovered = Recovered { next_id: listing.last_id() + 1, ..Recovered::default() };
    let mut orphans = Vec::new();
    let visited = listing.each(fs, |seen| {
        match seen {
            Seen::Blank { id, has_acks } => {
                recovered.remove(fs, FileKind::Segment, id);
                recovered.remove_if(has_acks, fs, id);
            }
            Seen::Aside(report) => recovered.report(report),
            Seen::Segment(files, end) => recovered.adopt(fs, files, end),
            Seen::Orphan(orphan) => orphans.push(orphan),
        }
        Ok::<(), Infallible>(())
    });
    let Ok(()) = visited;
    recovered.clear_away(fs, orphans);
    recovered.summarize();
    Ok(recovered)
}

impl Recovered {
    fn report(&mut self, report: DamageReport) {
        self.index.report(&report);
        self.damage.push(report);
    }

    fn trouble(&mut self, kind: FileKind, id: u64, what: String) {
        self.report(DamageReport::without_loss(kind, id, (0, 0), what));
    }

    /// Whether it is gone.
    fn remove(&mut self, fs: &dyn Fs, kind: FileKind, id: u64) -> bool {
        let removed = fs.remove(&kind.name(id));
        if let Err(error) = &removed {
            self.trouble(kind, id, format!("is not needed any more and cannot be removed: {error}"));
        }
        removed.is_ok()
    }

    fn remove_if(&mut self, exists: bool, fs: &dyn Fs, id: u64) {
        if exists {
            self.remove(fs, FileKind::Acks, id);
        }
    }

    /// Removes completions of segments that are gone, and tells what was lost with these segments.
    fn clear_away(&mut self, fs: &dyn Fs, orphans: Vec<Orphan>) {
        // They may be what tells how far their segments go, should power loss bring these back.
        let removable = orphans.is_empty() || fs.sync_dir().is_ok();
        for Orphan { id, lost, stays } in orphans {
            let removed = removable && !stays && self.remove(fs, FileKind::Acks, id);
            match lost {
                Some(report) => self.report(report),
                None if removed => self.recovery.orphans.push(FileKind::Acks.name(id)),
                None => {}
            }
        }
    }

    /// Takes a segment into the index.
    fn adopt(&mut self, fs: &dyn Fs, files: &Files, end: End) {
        let survey = Survey::read(files, end, false);
        let Survey { mut segment, ledgers, lost, names, end_unread, mut damage, .. } = survey;
        self.recovery.truncated_bytes += survey.truncated_bytes;
        damage.append(survey.unsound);
        segment.frayed = !damage.is_empty();
        damage.into_list().into_iter().for_each(|report| self.report(report));
        let matters = |number: &u16| ledgers.contains_key(number) || lost.contains_key(number);
        let ids = self.register(&names, matters);
        let has_all = ledgers.keys().chain(lost.keys()).all(|number| ids.contains_key(number));
        if !has_all {
            self.report(crowded(files.id));
        }
        for (number, Lost { loss, entries }) in lost {
            if let Some(id) = ids.get(&number) {
                self.lose(*id, loss);
                segment.pending.insert(*id, entries);
            }
        }
        let found = Extent { end: segment.end, items: segment.items, entries: segment.entries };
        let extent = match end {
            End::Known(extent) => Some(extent),
            // Where it ends is seen by who can read it.
            _ if end_unread => None,
            _ => Some(found),
        };
        let numbers = ids.iter().map(|(number, id)| (*id, *number)).collect();
        let mut acks = AckFile::recovered(files, numbers, extent);
        let tail = segment.durable_end..extent.unwrap_or(found).end;
        self.settle(Found { fs, files, end, tail }, &mut segment, &mut acks);
        segment.keep |= survey.crowded || !has_all;
        // The next segment must not say where this one ends when that is not known.
        let seal = files.head.seal();
        self.previous = extent.map_or(self.previous, |extent| Previous { id: files.id, extent, seal });
        self.acks.insert(files.id, acks);
        self.index.segments.insert(files.id, segment);
        for (number, ledger) in ledgers {
            if let Some(id) = ids.get(&number) {
                self.index.adopt(*id, files.id, ledger);
            }
        }
    }

    /// The queues of a segment that matter, by their numbers in it, as far as there is room for them.
    fn register(&mut self, names: &Names, matters: impl Fn(&u16) -> bool) -> BTreeMap<u16, QueueId> {
        let names = names.iter().filter(|(number, _)| matters(number));
        names.filter_map(|(number, name)| Some((number, self.index.found(name)?))).collect()
    }

    /// From here on, what was found is on disk, and what was not found is gone for good. A failure is reported and does
    /// no harm: the next start finds the same.
    fn settle(&mut self, found: Found<'_>, segment: &mut Segment, acks: &mut AckFile) {
        let Found { fs, files, end, tail } = found;
        let written_again = tail.end;
        segment.previous = files.head.previous.id;
        acks.cut(fs);
        let mut settled = Ok(());
        if !segment.pending.is_empty() {
            let index = &self.index;
            settled = acks.write(fs, |queue| index.name(queue), &segment.pending);
            if settled.is_ok() {
                segment.pending.clear();
            }
        }
        // What is cut off may be what tells damage from a write that was under way: first that has to be certain.
        if segment.frayed && !segment.keep && matches!(end, End::Torn) {
            settled = settled.and_then(|()| acks.note_extent(fs));
        }
        if !segment.keep {
            settled = settled.and_then(|()| seal(files, end, tail));
        }
        if settled.is_ok() && !segment.keep && matches!(end, End::Torn) {
            segment.durable_end = written_again;
        }
        files.file.forget(segment.durable_end);
        segment.frayed |= segment.keep || settled.is_err();
        if let Err(error) = settled {
            let what = format!("what was found cannot be made durable: {error}; it is used all the same");
            self.trouble(FileKind::Segment, files.id, what);
        }
        segment.disk_bytes = files.file.len().unwrap_or(files.length);
    }

    fn lose(&mut self, id: QueueId, loss: Loss) {
        match self.recovery.lost.iter_mut().find(|(known, _)| *known == id) {
            Some((_, sum)) => sum.add(loss),
            None => self.recovery.lost.push((id, loss)),
        }
    }

    fn summarize(&mut self) {
        let queues = (0u16..).map(QueueId).zip(&self.index.queues);
        let owed = queues.map(|(id, queue)| (id, queue.name.clone(), self.index.backlog(id)));
        self.recovery.damage = std::mem::take(&mut self.damage).into_list();
        self.recovery.queues = owed.filter(|(_, _, backlog)| backlog.entries > 0).collect();
    }
}

/// A segment that was read.
struct Found<'a> {
    fs: &'a dyn Fs,
    files: &'a Files,
    end: End,
    /// From where the segment was once durable to its end.
    tail: Range<u64>,
}

fn seal(files: &Files, end: End, tail: Range<u64>) -> io::Result<()> {
    if !matches!(end, End::Unknown) && files.length > tail.end {
        files.file.truncate(tail.end)?;
    }
    if matches!(end, End::Torn) {
        rewrite(&*files.file, tail)?;
    }
    // Even what looks right may be so in the system's memory only, after a kill.
    files.file.sync()
}

/// After a failed sync, the system has these bytes in memory and takes them for durable. Only if they are written again
/// does it write them to the disk again.
fn rewrite(file: &dyn File, mut range: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(REWRITE).min(REWRITE)];
    while range.start < range.end {
        let wanted = usize::try_from(range.end - range.start).unwrap_or(REWRITE).min(REWRITE);
        let part = &mut buffer[..wanted];
        if read_full(file, part, range.start)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_full(file, &mut [IoSlice::new(part)], range.start)?;
        range.start += wanted as u64;
    }
    Ok(())
}
